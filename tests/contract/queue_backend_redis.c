#include "queue_backend_redis.h"

#include "adapter/redis_stream/redis_stream.h"
#include "base/panic.h"
#include "support/private_topology.h"
#include <stdio.h>
#include <stdlib.h>

#ifndef REDIS_TOPOLOGY
#define REDIS_TOPOLOGY TOPOLOGY_ALONE
#endif

const int64_t backend_lease_us = 400000;
const bool backend_virtual = false;
const struct backend_traits backend_traits = {
    .ordered = true,
    .per_item = true,
    .locates = true,
    .sees_others = true,
    .tells_stale = true,
    .redelivery_slack_us = 3000000, /* a machine that stalls */
    .latency_us = 20000,            /* architecture 6 */
};

struct private_redis backend_redis;
static int64_t next_sku;
static int alive; /* consumers */

void backend_start(void)
{
    /* What the disk does is not this suite's subject. */
    static const char *const more[] = {"--appendonly", "no", NULL};
    if (!backend_redis.pid) {
        private_topology_start(&backend_redis, REDIS_TOPOLOGY, more);
    }
    backend_loop_open();
}

void backend_stop(void)
{
    if (alive) { /* a failed test: its operations lived on a stack that is gone, so nothing is freed
                  */
        alive = 0;
        return;
    }
    backend_loop_close();
}

const char *backend_key(struct item item, char *key)
{
    snprintf(key, 72, "sec:{%lld:%lld}:events", (long long)item.activity_id,
             (long long)item.sku_id);
    return key;
}

struct item backend_item(void)
{
    struct item item = {1, ++next_sku};
    char key[72];
    freeReplyObject(private_redis_command(&backend_redis, "XGROUP CREATE %s %s 0 MKSTREAM",
                                          backend_key(item, key), EVENT_GROUP));
    return item;
}

struct queue *backend_consumer(const char *name, int max_in_hand)
{
    char err[128] = "";
    struct redis_stream_config c = {.redis = {.url = backend_redis.url,
                                              .dial_us = 5000000,
                                              .stall_us = 4000000,
                                              .backoff_min_us = 10000,
                                              .backoff_max_us = 100000,
                                              .max_pending = 1024,
                                              .metric_link = "queue"},
                                    .group = EVENT_GROUP,
                                    .consumer = name,
                                    .lease_us = backend_lease_us,
                                    .trim_interval_us = 50000,
                                    .max_in_hand = max_in_hand};
    struct queue *q = redis_stream_new(backend_loop(), &c, err, sizeof err);
    if (!q)
        panic("redis_stream_new: %s", err);
    alive++;
    return q;
}

void backend_kill(struct queue *q)
{
    redis_stream_free(q);
    alive--;
}

void backend_append(struct item item, struct str body, char *queue_id)
{
    char key[72];
    redisReply *r = private_redis_command(&backend_redis, "XADD %s NOMKSTREAM * b %b",
                                          backend_key(item, key), body.ptr, body.len);
    if (r->type != REDIS_REPLY_STRING)
        panic("XADD: %s", r->str ? r->str : "nil");
    if (queue_id)
        str_copy(queue_id, 32, (struct str){r->str, r->len});
    freeReplyObject(r);
}
