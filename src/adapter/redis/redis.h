/* One pipelined Redis connection of one loop: one write per turn, replies matched in order,
 * deadlines per call without cost to the connection (a late reply meets a tombstone), reconnect
 * with jittered backoff, NOSCRIPT repaired in place. hiredis only reads and formats RESP; replies
 * live in an arena until on_reply returns: no allocation per reply. */
#pragma once

#include "base/op.h"
#include "base/str.h"
#include "core/redis_time.h"
#include "loop/loop.h"

struct redis;

/* "unix:///path/redis.sock", "redis://[user:password@]host:port[/db]". */
struct redis_config {
    const char *url;
    int64_t dial_us; /* 500 ms */
    int64_t
        stall_us; /* no reply at all for this long with calls waiting: the connection is given up */
    int64_t backoff_min_us, backoff_max_us;
    int max_pending; /* calls in the pipeline at most, tombstones included: ERR_OVERLOAD above */
    const char *metric_link; /* label of this connection's metrics, e.g. "stock" */
};

enum redis_type { REDIS_NIL, REDIS_INT, REDIS_STRING, REDIS_STATUS, REDIS_ERROR, REDIS_ARRAY };
struct redis_reply {
    enum redis_type type;
    int64_t i;                  /* REDIS_INT */
    struct str s;               /* string, status, error */
    struct redis_reply **items; /* REDIS_ARRAY */
    size_t n;
};

/* A script of lua/, embedded at build time. */
struct redis_script {
    const char *name;
    const char *body;
    char sha1[41]; /* filled by redis_script_init */
};
void redis_script_init(struct redis_script *s);

struct redis_writer; /* where a call writes itself */
void redis_put(struct redis_writer *w, struct str arg);
void redis_put_i64(struct redis_writer *w, int64_t arg);

/* One command, embedded in the operation it serves (op_space). Encoded when it is sent, and again
 * when a script has to be repaired: so its arguments need no copy. */
struct redis_call {
    struct list link;
    const struct redis_script
        *script; /* NULL: a plain command, whose name is the first redis_put */
    int keys;    /* script: number of keys */
    int args;    /* how many redis_put calls on_encode makes */
    void (*on_encode)(struct redis_call *c, struct redis_writer *w);
    /* Exactly once, never inside redis_send. rc 0: reply (valid during the call; REDIS_ERROR that
     * mean "not done" – OOM MISCONF READONLY LOADING BUSY NOREPLICAS TRYAGAIN CLUSTERDOWN … – come
     * as ERR_UNAVAIL with the reply; other error replies as ERR_INTERNAL with the reply).
     * ERR_UNAVAIL, ERR_DEADLINE, ERR_CANCELED, ERR_OVERLOAD: not sent. ERR_UNCERTAIN: sent, no
     * reply. */
    void (*on_reply)(struct redis_call *c, int rc, const struct redis_reply *reply);
    int64_t deadline_us;
    int64_t sent_us; /* monotonic, set when written */
    /* internal */
    struct redis *redis;
    struct timer timer;
    uint64_t seq;
    uint8_t state, repairs;
    struct loop_task task;
};

struct redis *
redis_new(struct loop *l,
          const struct redis_config *c); /* connects in the background; NULL: bad url */
void redis_free(struct redis *r); /* calls waiting complete with ERR_CANCELED or ERR_UNCERTAIN
                                     first, inside this call */
bool redis_ready(const struct redis *r);
/* Waits for a connection that is not up only until the call's deadline or `redis.slot` (30 ms),
 * whichever is first. */
void redis_send(struct redis *r, struct redis_call *c);
void redis_cancel(
    struct redis *r,
    struct redis_call *c); /* its on_reply comes: ERR_CANCELED or ERR_UNCERTAIN, deferred */
struct redis_time *redis_clock(struct redis *r);
struct loop *redis_loop(struct redis *r);

/* A connection in subscriber mode, on the same machinery: messages of one channel. */
struct redis_subscription {
    void (*on_message)(struct redis_subscription *s, struct str payload);
    void (*on_link)(struct redis_subscription *s, bool up);
    void *impl;
};
int redis_subscribe(struct loop *l, const struct redis_config *c, const char *channel,
                    struct redis_subscription *s);
void redis_unsubscribe(struct redis_subscription *s);
