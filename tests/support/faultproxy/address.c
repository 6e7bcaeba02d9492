#include "address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

enum { BACKLOG = 1024 };

static bool fail(char *err, size_t cap, const char *text, const char *why)
{
    snprintf(err, cap, "%.200s: %s", text, why);
    return false;
}

static bool parse_unix(struct address *a, const char *path)
{
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    if (!*path || strlen(path) >= sizeof un.sun_path)
        return false;
    strcpy(un.sun_path, path);
    memcpy(&a->sa, &un, sizeof un);
    a->len = sizeof un;
    return true;
}

bool address_parse(struct address *a, const char *text, char *err, size_t err_cap)
{
    memset(a, 0, sizeof *a);
    if (strlen(text) >= sizeof a->text)
        return fail(err, err_cap, text, "too long");
    strcpy(a->text, text);
    if (strncmp(text, "unix:", 5) == 0)
        return parse_unix(a, text + 5) || fail(err, err_cap, text, "not a path for a socket");
    char host[sizeof a->text];
    strcpy(host, text);
    char *colon = strrchr(host, ':');
    if (!colon)
        return fail(err, err_cap, text, "missing port in address");
    *colon = 0;
    const char *name = host;
    size_t n = strlen(host);
    if (n > 2 && host[0] == '[' && host[n - 1] == ']') {
        host[n - 1] = 0;
        name = host + 1;
    }
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV | AI_PASSIVE};
    struct addrinfo *found = NULL;
    int rc = getaddrinfo(*name ? name : NULL, colon + 1, &hints, &found);
    if (rc)
        return fail(err, err_cap, text, gai_strerror(rc));
    memcpy(&a->sa, found->ai_addr, found->ai_addrlen);
    a->len = found->ai_addrlen;
    freeaddrinfo(found);
    return true;
}

static void set_nodelay(const struct address *a, int fd)
{
    int on = 1;
    if (a->sa.ss_family != AF_UNIX)
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

/* The address as it became, with the host in the caller's words. */
static void tell_port(struct address *a, int fd)
{
    a->len = sizeof a->sa;
    if (a->sa.ss_family == AF_UNIX || getsockname(fd, (struct sockaddr *)&a->sa, &a->len))
        return;
    in_port_t port = a->sa.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&a->sa)->sin6_port
                                                 : ((struct sockaddr_in *)&a->sa)->sin_port;
    char *colon = strrchr(a->text, ':');
    snprintf(colon + 1, sizeof a->text - (size_t)(colon + 1 - a->text), "%d", ntohs(port));
}

/* A file that no process listens at. */
static void remove_stale(const struct address *a)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (const struct sockaddr *)&a->sa, a->len) && errno == ECONNREFUSED)
        address_unlink(a);
    if (fd >= 0)
        close(fd);
}

int address_listen(struct address *a, char *err, size_t err_cap)
{
    int on = 1;
    int fd = socket(a->sa.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (a->sa.ss_family == AF_UNIX)
        remove_stale(a);
    else if (fd >= 0)
        (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (fd < 0 || bind(fd, (struct sockaddr *)&a->sa, a->len) || listen(fd, BACKLOG)) {
        fail(err, err_cap, a->text, strerror(errno));
        if (fd >= 0)
            close(fd);
        return -1;
    }
    set_nodelay(a, fd); /* what it accepts inherits it */
    if (a->sa.ss_family != AF_UNIX)
        tell_port(a, fd);
    return fd;
}

void address_unlink(const struct address *a)
{
    if (a->sa.ss_family == AF_UNIX)
        (void)unlink(((const struct sockaddr_un *)&a->sa)->sun_path);
}

int address_connect(const struct address *a)
{
    int fd = socket(a->sa.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    set_nodelay(a, fd);
    if (connect(fd, (const struct sockaddr *)&a->sa, a->len) && errno != EINPROGRESS) {
        int saved = errno;
        close(fd);
        errno = saved;
        return -1;
    }
    return fd;
}
