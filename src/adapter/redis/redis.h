/* Redis for one loop: one pipelined connection to each server that is written to. One write per
 * turn, replies matched in order, deadlines per call without cost to the connection (a late reply
 * meets a tombstone), reconnect with jittered backoff, NOSCRIPT repaired in place. hiredis only
 * reads and formats RESP; replies live in an arena until on_reply returns: no allocation per reply.
 *
 * The server is one that stands alone, the master that sentinels name, or each master of a cluster
 * (docs/decisions/0018): then a call goes by its key's slot, and MOVED and ASK are followed. */
#pragma once

#include "base/err.h"
#include "base/op.h"
#include "base/str.h"
#include "core/redis_time.h"
#include "loop/loop.h"

struct redis;

/* What is 0 takes the default. The struct and its strings are borrowed for the call only. */
struct redis_config {
    const char *url;                        /* url.h */
    int64_t dial_us;                        /* connecting and greeting: 500 ms */
    int64_t stall_us;                       /* calls waiting, no reply at all for so long: 2 s */
    int64_t backoff_min_us, backoff_max_us; /* 20 ms, 1 s */
    int64_t slot_us;         /* a call waits at most so long for a connection that is down: 30 ms */
    int max_pending;         /* calls in the pipeline, tombstones included: 16384 */
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
 * when a script has to be repaired or the connection broke before it was written: so its arguments
 * need no copy, and on_encode does nothing but redis_put. Zero it before the first redis_send. */
struct redis_call {
    struct list link;
    const struct redis_script *script; /* NULL: a plain command, its name is the first redis_put */
    const char *name; /* plain command: its metrics' label, a static string; NULL: "command" */
    int keys;         /* script: number of keys */
    /* Plain command: which of its words is a key; 0: none. A cluster looks no further for its
     * server; without, any may answer, or `server` does. */
    int key_at;
    int server; /* of redis_servers, from 1; 0: that of the key */
    int args;   /* how many redis_put calls on_encode makes */
    /* Before each encoding, `connection` being known: may set keys and args. NULL: they stay. */
    void (*on_begin)(struct redis_call *c);
    void (*on_encode)(struct redis_call *c, struct redis_writer *w);
    /* Exactly once, never inside redis_send; the call may be sent again from inside. rc 0: reply
     * (valid during the call). REDIS_ERROR that mean "not done" – OOM MISCONF READONLY LOADING BUSY
     * NOREPLICAS TRYAGAIN CLUSTERDOWN … – come as ERR_UNAVAIL with the reply; other error replies
     * as ERR_INTERNAL with the reply. Without a reply: ERR_UNAVAIL, ERR_DEADLINE, ERR_CANCELED,
     * ERR_OVERLOAD = not done; ERR_UNCERTAIN = sent, no answer. */
    void (*on_reply)(struct redis_call *c, int rc, const struct redis_reply *reply);
    int64_t deadline_us;
    int64_t sent_us;     /* monotonic: when it was last encoded, just before the write */
    int64_t received_us; /* monotonic: when its reply was read */
    uint64_t connection; /* that it was encoded for, no two alike; 0: none */
    /* internal */
    struct redis_conn *conn;
    struct timer timer;
    int64_t queued_us;
    uint64_t seq;
    int rc;
    uint8_t state, repairs, hops;
    bool asking;
};

/* Connects in the background. NULL: the URL is wrong, or no memory. */
struct redis *redis_new(struct loop *l, const struct redis_config *c);
/* Calls waiting complete with ERR_CANCELED or ERR_UNCERTAIN first, inside this call; what they send
 * then is cancelled too. Not from inside an on_reply. */
void redis_free(struct redis *r);
/* Of a cluster: at first when every master is connected, later as long as one is. */
bool redis_ready(const struct redis *r);
/* How many servers are written to: 1, or the masters that a cluster is known to have (0: not yet).
 */
int redis_servers(const struct redis *r);
bool redis_is_cluster(const struct redis *r);
/* False: a call with this key would wait for a connection. */
bool redis_reaches(const struct redis *r, struct str key);
/* Which server a call with this key goes to, as far as is known: the same number for the keys of
 * one, -1: not known. */
int redis_server(const struct redis *r, struct str key);
/* Waits for a connection that is not up only until the call's deadline (ERR_DEADLINE) or slot_us
 * (ERR_UNAVAIL), whichever is first. */
void redis_send(struct redis *r, struct redis_call *c);
/* Its on_reply comes, deferred: ERR_CANCELED, or ERR_UNCERTAIN if it was sent. Harmless on a call
 * that is not on its way. */
void redis_cancel(struct redis *r, struct redis_call *c);
/* Rule 15: the clock of the server that the call is being written to, or was answered by; started
 * anew with each connection. Callers give it the TIME of their answers. */
struct redis_time *redis_clock(const struct redis_call *c);

/* A connection in subscriber mode, on the same machinery: messages of one channel. Of a cluster: to
 * any of its servers, which tell one another what is published. */
struct redis_subscription {
    void (*on_message)(struct redis_subscription *s, struct str payload);
    void (*on_link)(struct redis_subscription *s, bool up);
    void *impl;
};
int redis_subscribe(struct loop *l, const struct redis_config *c, const char *channel,
                    struct redis_subscription *s);
void redis_unsubscribe(struct redis_subscription *s);
