/* "unix:///path/redis.sock" and "redis://[user:password@]host[:port][/db]"; user and password may
 * be %-encoded. */
#pragma once

#include "base/str.h"

struct redis_url {
    char path[108]; /* unix socket; "" for TCP */
    char host[256];
    int port, db;
    char user[128], password[256]; /* "" when none */
};

int redis_url_parse(const char *text, struct redis_url *out); /* 0 or ERR_INVALID */
