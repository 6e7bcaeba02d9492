#include "loop/loop.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <unistd.h>

static void set_options(int fd, const struct sockaddr *addr, int user_timeout_ms)
{
    int on = 1;
    if (addr->sa_family == AF_UNIX)
        return;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (user_timeout_ms > 0)
        setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &user_timeout_ms, sizeof user_timeout_ms);
}

int loop_connect(struct loop *l, struct loop_io *io, const struct sockaddr *addr, socklen_t len,
                 int user_timeout_ms)
{
    int fd = socket(addr->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), why;
    if (fd < 0)
        return -errno;
    set_options(fd, addr, user_timeout_ms);
    /* A unix socket whose backlog is full says EAGAIN: that is a failure, not progress. */
    if (connect(fd, addr, len) < 0 && errno != EINPROGRESS)
        why = errno;
    else
        why = loop_io_add(l, io, fd, LOOP_READ | LOOP_WRITE) < 0 ? ENOMEM : 0;
    if (!why)
        return fd;
    close(fd);
    return -why;
}

int loop_connect_error(int fd)
{
    int err = 0;
    socklen_t len = sizeof err;
    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len) < 0 ? errno : err;
}
