#include "adapter/http/listen.h"

#include "base/parse.h"
#include <arpa/inet.h>
#include <errno.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BACKLOG = 4096 };

union address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

static bool parse_address(const char *where, union address *a, socklen_t *len)
{
    const char *colon = strrchr(where, ':');
    int64_t port;
    char host[64];
    if (!colon || parse_i64(str_of(colon + 1), 0, 65535, &port) ||
        !str_copy(host, sizeof host, (struct str){where, (size_t)(colon - where)}))
        return false;
    size_t n = strlen(host);
    memset(a, 0, sizeof *a);
    if (n > 1 && host[0] == '[' && host[n - 1] == ']') {
        host[n - 1] = 0;
        a->v6.sin6_family = AF_INET6;
        a->v6.sin6_port = htons((uint16_t)port);
        *len = sizeof a->v6;
        return inet_pton(AF_INET6, host + 1, &a->v6.sin6_addr) == 1;
    }
    a->v4.sin_family = AF_INET;
    a->v4.sin_port = htons((uint16_t)port);
    *len = sizeof a->v4;
    const char *text = n == 0 ? "0.0.0.0" : strcmp(host, "localhost") == 0 ? "127.0.0.1" : host;
    return inet_pton(AF_INET, text, &a->v4.sin_addr) == 1;
}

static int port_of(int fd)
{
    union address a;
    socklen_t len = sizeof a;
    if (getsockname(fd, &a.any, &len))
        return 0;
    return ntohs(a.any.sa_family == AF_INET6 ? a.v6.sin6_port : a.v4.sin_port);
}

int http_listen(const char *where, bool reuse_port, int *port, char *err, size_t err_cap)
{
    union address a;
    socklen_t len;
    if (!parse_address(where, &a, &len)) {
        snprintf(err, err_cap, "%s: not an address to listen on (host:port, [v6]:port or :port)",
                 where);
        return -1;
    }
    int fd = socket(a.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int on = 1;
    /* Accepted sockets inherit TCP_NODELAY: one call less for each. */
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) ||
        (reuse_port && setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on)) ||
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) || bind(fd, &a.any, len) ||
        listen(fd, BACKLOG)) {
        snprintf(err, err_cap, "%s: %s", where, strerror(errno));
        if (fd >= 0)
            close(fd);
        return -1;
    }
    *port = port_of(fd);
    return fd;
}

void http_listen_quiet(int fd)
{
    /* On the TCP header: byte 13 is the flags. A SYN without ACK is dropped, all else passes. */
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 13),          BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0x12),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0x02, 0, 1), BPF_STMT(BPF_RET | BPF_K, 0),
        BPF_STMT(BPF_RET | BPF_K, 0xffffffff),
    };
    struct sock_fprog program = {.len = sizeof code / sizeof code[0], .filter = code};
    /* Where it is refused, a connection that begins in the last microseconds may be reset. */
    (void)setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program);
}
