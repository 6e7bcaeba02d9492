/* The queue port on Redis Streams: one stream per item, one consumer group, a doorbell connection
 * (XREAD BLOCK, consumes nothing) so that an idle worker costs nothing and a new event is seen at
 * once. architecture 6. */
#pragma once

#include "adapter/redis/redis.h"
#include "port/queue.h"

struct redis_stream_config {
    struct redis_config redis;
    const char *group;    /* EVENT_GROUP */
    const char *consumer; /* unique per life of a process */
    int64_t lease_us;
    int64_t trim_interval_us;
    int max_in_hand;   /* messages in memory at most: the caller's slots */
    bool publish_only; /* nothing is received: no doorbell, no housekeeping */
};
struct queue *redis_stream_new(struct loop *l, const struct redis_stream_config *c, char *err,
                               size_t err_cap);
/* The clean end: where nothing is pending for our consumer it is deleted; where something is,
 * another life removes it later. After the last receive; op.on_done, rc 0 at the end or at its
 * deadline. */
void redis_stream_close(struct queue *q, struct op *op);
/* Calls under way complete first, inside this call; messages in hand go with it (and are delivered
 * to somebody else after their lease). Without redis_stream_close it is as if the process had died.
 */
void redis_stream_free(struct queue *q);
