/* What the files of the library share; nobody else includes it.
 *
 *   redis     what the owner has: one connection, or a cluster
 *   cluster   one connection for each master; calls go by the slot of their key (cluster.h)
 *   conn      one connection:
 *     link      DOWN → RESOLVING → DIALING → GREETING (AUTH SELECT ROLE TIME) → UP, and from each
 *               back to DOWN; behind sentinels two dials, the first one's greeting asks one of them
 *     pipeline  waiting calls → encoded (a slot of the ring, bytes in `out`) → replied, in order
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
enum slot_kind {
    SLOT_CALL,
    SLOT_GREETING,
    SLOT_MASTER,
    SLOT_ROLE,
    SLOT_TIME,
    SLOT_ASIDE /* SCRIPT LOAD, ASKING: what becomes of it, the call behind it tells */
};

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

struct redis_conn {
    struct loop *loop;
    struct redis_url url;
    struct redis_config config; /* numbers only */
    struct redis_metrics metrics;
    struct rng rng;
    bool closing, reading;
    bool asking;  /* the link is one to a sentinel */
    bool leaving; /* nothing more is sent; given up once what was sent is answered */

    /* link.c */
    enum link_phase phase;
    int fd;
    struct loop_io io;
    struct loop_resolve resolve;
    struct timer dial_timer; /* dial deadline, or the wait before the next one */
    struct timer stall_timer;
    int attempt;
    unsigned turn; /* which of url.at is next */
    int64_t up_us, heard_us;
    uint64_t connection; /* its number, since it is up */
    bool failed_before;  /* log the first failure of an outage, not each */

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
    void (*on_push)(struct redis_conn *r, const struct redis_reply *reply);
    /* cluster.c: an error reply; true: the call is on its way again, elsewhere */
    bool (*on_refused)(struct redis_conn *r, struct redis_call *c, const struct redis_reply *reply);
    void (*on_link)(struct redis_conn *r, bool up);
    void *owner;
};

struct cluster;
struct redis {
    struct redis_conn *conn; /* NULL: a cluster */
    struct cluster *cluster;
};

/* --- conn.c --- */
/* Defaults filled in. NULL: no memory. */
struct redis_conn *conn_new(struct loop *l, const struct redis_config *c,
                            const struct redis_url *url);
/* In two steps, since what completes in the first may send to another connection of the cluster:
 * calls complete with ERR_CANCELED or ERR_UNCERTAIN, later ones too. */
void conn_close(struct redis_conn *r);
void conn_free(struct redis_conn *r);
/* Nothing is waiting or on its way. */
bool conn_idle(const struct redis_conn *r);

/* --- link.c --- */
void link_start(struct redis_conn *r);
void link_stop(struct redis_conn *r); /* closes, cancels timers; calls are untouched */
void link_fail(struct redis_conn *r,
               const char *why); /* the connection is given up; another is tried after a while */
void link_greeted(struct redis_conn *r, const struct slot *s, const struct redis_reply *reply);
/* Another server is to be found, but what was sent is answered here first. */
void link_leave(struct redis_conn *r);
void link_write(struct redis_conn *r); /* writes `out` as far as the kernel takes it */

/* --- pipeline.c --- */
void pipeline_send(struct redis_conn *r, struct redis_call *c);
/* A call that was refused here goes to another connection; its deadline stays. asking: after an
 * ASKING. */
void pipeline_move(struct redis_call *c, struct redis_conn *to, bool asking);
void pipeline_init(struct redis_conn *r);
void pipeline_deinit(struct redis_conn *r);
void pipeline_words(struct redis_conn *r, enum slot_kind kind, const struct str *words, int n);
void pipeline_up(struct redis_conn *r);   /* send what waits */
void pipeline_lost(struct redis_conn *r); /* the connection is gone */
void pipeline_reply(struct redis_conn *r, const struct redis_reply *reply); /* may fail the link */
void pipeline_cancel_all(struct redis_conn *r);
static inline size_t pipeline_owed(const struct redis_conn *r)
{
    return (size_t)(r->tail - r->head);
}
