/* A Redis of the test's own on a Unix socket below /tmp; it ends with the test, however that ends.
 * And a plain blocking connection to look at it. */
#pragma once

#include <hiredis/hiredis.h>

struct contract_redis {
    char dir[64], url[128];
    int pid;
    redisContext *c;
};

void contract_redis_start(struct contract_redis *r); /* aborts when it cannot */
void contract_redis_stop(struct contract_redis *r);
/* One command; aborts without an answer. The caller frees the reply, an error reply included. */
redisReply *contract_redis_do(struct contract_redis *r, const char *format, ...);
/* The same for an integer answer; aborts on any other. */
long long contract_redis_int(struct contract_redis *r, const char *format, ...);
