/* "host:port", "[v6]:port", ":port" and "unix:/path". */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

struct address {
    char text[256];
    struct sockaddr_storage sa;
    socklen_t len;
};

/* Names are looked up here and now (this is a test's tool: localhost). False with a message. */
bool address_parse(struct address *a, const char *text, char *err, size_t err_cap);
/* A listening, non-blocking socket; a port 0 is replaced in *a by what it became. A unix socket
 * that nobody listens at any more is replaced. -1 with a message. */
int address_listen(struct address *a, char *err, size_t err_cap);
void address_unlink(const struct address *a); /* the file of a unix socket */
/* A socket that is connecting (or connected); -1 with errno. */
int address_connect(const struct address *a);
