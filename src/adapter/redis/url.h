/* Where Redis is:
 *
 *   unix:///path/redis.sock
 *   redis://[user:password@]host[:port][/db]
 *   redis+sentinel://[user:password@]host[:port],host[:port]…/master[/db]   (the sentinels', 26379)
 *   redis+cluster://[user:password@]host[:port],host[:port]…               (some of its servers)
 *
 * User and password may be %-encoded. Sentinels are asked without them. */
#pragma once

#include "base/str.h"

enum { REDIS_ADDRESSES_MAX = 16 };

enum redis_topology { REDIS_ALONE, REDIS_SENTINEL, REDIS_CLUSTER };

struct redis_address {
    char host[256];
    int port;
};

struct redis_url {
    enum redis_topology topology;
    char path[108]; /* unix socket; "" for TCP */
    struct redis_address at[REDIS_ADDRESSES_MAX];
    int n;
    char master[64]; /* what the sentinels call it */
    int db;
    char user[128], password[256]; /* "" when none */
};

int redis_url_parse(const char *text, struct redis_url *out); /* 0 or ERR_INVALID */
/* "host:port", the last ':' before the port, as in "::1:6379". 0 or ERR_INVALID. */
int redis_address_parse(struct str s, struct redis_address *out);
bool redis_address_eq(const struct redis_address *a, const struct redis_address *b);
