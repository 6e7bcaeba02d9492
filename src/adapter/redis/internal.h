/* What the files of the connection share; nobody else includes it.
 *
 *   link      DOWN → RESOLVING → DIALING → GREETING (AUTH SELECT TIME) → UP, and from each back to
 * DOWN pipeline  waiting calls → encoded (a slot of the ring, bytes in `out`) → replied, in order
 *
 * Invariant: the ring holds one slot per reply that this connection still owes, in order. A slot
 * whose call is NULL is a tombstone: its reply is read and dropped. */
#pragma once

#include "adapter/redis/metrics.h"
#include "adapter/redis/redis.h"
#include "adapter/redis/reply.h"
#include "adapter/redis/url.h"
#include "base/rng.h"

enum link_phase { LINK_DOWN, LINK_RESOLVING, LINK_DIALING, LINK_GREETING, LINK_UP };
enum call_state { CALL_IDLE, CALL_WAITING, CALL_SENT, CALL_DONE /* on_reply is due, with rc */ };
enum slot_kind { SLOT_CALL, SLOT_GREETING, SLOT_TIME, SLOT_LOAD };

struct slot {
    struct redis_call *call; /* NULL: tombstone, or not a call's */
    uint64_t end;            /* of its bytes, as redis.written counts */
    int64_t sent_us;
    enum slot_kind kind;
};

#define SCRIPTS_MAX 32
/* Encoded and not yet taken by the kernel, at most: a peer that does not read leaves calls waiting,
 * where their deadline means "not done". */
#define OUT_SOFT_MAX (256 << 10)
#define OUT_MAX (8 << 20)

struct redis {
    struct loop *loop;
    struct redis_url url;
    struct redis_config config; /* numbers only */
    struct redis_metrics metrics;
    struct rng rng;
    bool closing, reading;

    /* link.c */
    enum link_phase phase;
    int fd;
    struct loop_io io;
    struct loop_resolve resolve;
    struct timer dial_timer; /* dial deadline, or the wait before the next one */
    struct timer stall_timer;
    int attempt;
    int64_t up_us, heard_us;
    bool failed_before; /* log the first failure of an outage, not each */

    /* pipeline.c */
    struct list waiting; /* of redis_call.link */
    struct list done;    /* completions that are due */
    struct loop_task done_task;
    struct loop_flush flush;
    int waiting_n;
    struct slot *ring;
    size_t ring_mask;
    uint64_t head, tail; /* oldest reply owed, next slot; never reset */
    struct strbuf out;
    size_t out_at;    /* bytes of out already written */
    uint64_t written; /* bytes that the kernel took on this connection */
    struct {
        const struct redis_script *script;
        uint64_t seq; /* its last SCRIPT LOAD */
    } loads[SCRIPTS_MAX];
    int loads_n;

    struct reply_reader reader;
    struct redis_time time;

    /* subscribe.c: replies are not matched, they go there */
    void (*on_push)(struct redis *r, const struct redis_reply *reply);
    void (*on_link)(struct redis *r, bool up);
    void *owner;
};

/* --- link.c --- */
void link_start(struct redis *r);
void link_stop(struct redis *r); /* closes, cancels timers; calls are untouched */
void link_fail(struct redis *r,
               const char *why); /* the connection is given up; another is tried after a while */
void link_greeted(struct redis *r, const struct slot *s, const struct redis_reply *reply);
void link_write(struct redis *r); /* writes `out` as far as the kernel takes it */

/* --- pipeline.c --- */
void pipeline_init(struct redis *r);
void pipeline_deinit(struct redis *r);
void pipeline_words(struct redis *r, enum slot_kind kind, const struct str *words, int n);
void pipeline_up(struct redis *r);                                     /* send what waits */
void pipeline_lost(struct redis *r);                                   /* the connection is gone */
void pipeline_reply(struct redis *r, const struct redis_reply *reply); /* may fail the link */
void pipeline_cancel_all(struct redis *r);
static inline size_t pipeline_owed(const struct redis *r)
{
    return (size_t)(r->tail - r->head);
}
