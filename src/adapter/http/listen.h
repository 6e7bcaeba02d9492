/* Listening sockets. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* "127.0.0.1:8080", "[::1]:0", "localhost:80", ":8080" (every address). The descriptor,
 * non-blocking, and its port; -1 with a message in err. */
int http_listen(const char *where, bool reuse_port, int *port, char *err, size_t err_cap);
/* No new connection begins: the kernel drops the first packet of each (the client's sends it again,
 * and meets another listener or a clean refusal), while those under way are still completed. */
void http_listen_quiet(int fd);
