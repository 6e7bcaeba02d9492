/* Inside the adapter: the items, the messages in hand, and who does what.
 *
 *   stream_read.c   receive: which stream next, and for how long to wait
 *   stream_fetch.c  one XREADGROUP, takeover of ended leases, XINFO or XGROUP CREATE at a time; of
 * a cluster's servers one each stream_bell.c   the doorbell: XREAD BLOCK on a connection of its
 * own, which consumes nothing stream_batch.c  ack, extend, retry_later stream_state.c  publish,
 * lag, locate stream_tidy.c   trimming, consumers of dead lives, the clean end */
#pragma once

#include "adapter/redis_stream/redis_stream.h"
#include "base/metric.h"

#define STREAM_BODY_MAX                                                                            \
    8192 /* a longer body is kept cut: it cannot be decoded and becomes a dead letter */

#define STREAM_FETCHES 8 /* under way: of a cluster's servers one each, elsewhere one */

/* A message in hand: preallocated, so that what is received is bounded by configuration. */
struct stream_slot {
    struct queue_message m;
    struct list free_link;
    char body[STREAM_BODY_MAX];
};

struct stream_item {
    struct list link, hot_link;
    struct item item;
    char key[72];
    char pos[32]; /* everything up to here was delivered to somebody; the bell rings for what comes
                     after */
    bool pos_known;          /* else XINFO has to tell */
    bool hot;                /* there may be something undelivered */
    bool rung;               /* the bell rang while it was being read */
    bool gone;               /* no longer among the items; freed when refs is 0 */
    bool used;               /* something was received: our consumer exists there */
    int refs;                /* calls under way that point here */
    uint64_t bell;           /* serial of the bell call that listens to it */
    int64_t reclaim_at_us;   /* when to look for ended leases */
    int64_t not_before_us;   /* no such stream, or a broken one: not asked before */
    int64_t waiting, age_ms; /* of the last lag; -1: unknown */
};

struct stream {
    struct queue port;
    struct loop *loop;
    struct redis *redis, *bell;
    bool cluster; /* the streams are on several servers: polled, there is no bell */
    struct redis_stream_config c;
    char group[64], consumer[128];
    bool ending; /* inside redis_stream_free */

    struct list items, hot;
    int n_items, n_hot;

    struct stream_slot *slots;
    struct list free_slots;
    int n_free;

    /* receiving */
    struct list receives; /* queue_receive, by their op_space */
    struct list ready;    /* received, and nobody to give it to yet */
    int n_ready, visits;  /* visits: items read for the first receive in its present round */
    bool reclaimed_last;
    bool position_turn; /* something was read since the last look at a position */
    struct timer tick;
    struct loop_task pump;
    int64_t poll_at_us; /* next look at items that no bell listens to */
    struct stream_fetch {
        struct redis_call call;
        struct stream *s;
        struct stream_item *item;
        enum { FETCH_READ, FETCH_RECLAIM, FETCH_POSITION, FETCH_CREATE } kind;
        int count;  /* messages that it may bring: their slots are spoken for */
        int server; /* of redis_server */
        bool busy;
    } fetches[STREAM_FETCHES];
    int n_fetches; /* that are busy */
    int promised;  /* slots that they may fill */
    int poll_turn;

    struct stream_bell {
        struct redis_call call;
        uint64_t serial;
        bool busy;
        int n, cap, block_ms;
        int64_t not_before_us, busy_from_us;
        struct stream_item **items; /* [cap], each with a ref */
    } ring;

    struct stream_tidy {
        struct redis_call call;
        struct timer timer;
        struct stream_item *item;
        bool busy;
        struct op *wanted, *closing; /* the clean end: asked for, under way */
    } tidy;

    struct list calls; /* struct stream_call under way */

    struct metric *batch_size, *receive_failures, *lag, *age, *trimmed, *reclaimed, *cut_bodies,
        *in_hand;
};

static inline struct stream *stream_of(struct queue *q)
{
    return container_of(q, struct stream, port);
}
/* Slots that nobody speaks for. */
static inline int stream_room(const struct stream *s)
{
    return s->n_free - s->promised;
}
static inline int64_t stream_lease_ms(const struct stream *s)
{
    return (s->c.lease_us + 999) / 1000;
}

extern struct redis_script stream_script_lease, stream_script_reclaim, stream_script_backlog,
    stream_script_locate, stream_script_tidy;

/* items (redis_stream.c) */
struct stream_item *stream_find(const struct stream *s,
                                struct item item); /* NULL: not received from */
void stream_key(struct item item, char key[72]);
void stream_heat(struct stream *s,
                 struct stream_item *it); /* may have something: to the end of the rotation */
void stream_cool(struct stream *s, struct stream_item *it);
static inline struct stream_item *stream_ref(struct stream_item *it)
{
    it->refs++;
    return it;
}
void stream_unref(struct stream *s, struct stream_item *it);
/* True for an error reply that begins with this word. */
bool stream_says(const struct redis_reply *reply, const char *word);

/* stream_fetch.c */
/* Whether its turn may be now: its server has none under way, and there is room for one more. */
bool stream_may_fetch(const struct stream *s, const struct stream_item *it);
void stream_fetch(struct stream *s, struct stream_item *it, int kind, int count); /* only then */

/* Its server does not answer: it is left alone for a moment. */
void stream_away(struct stream_item *it, int64_t now_us);

/* stream_read.c */
void stream_pump(struct stream *s);                 /* what is to be done next is begun */
void stream_fetch_failed(struct stream *s, int rc); /* ends the first receive with it */
void stream_receive(struct queue *q, struct queue_receive *r);
bool stream_receive_cancel(struct stream *s, struct op *op);
void stream_pump_later(struct stream *s);
void stream_read_init(struct stream *s);
void stream_read_end(struct stream *s); /* completes what waits; after the connections are gone */

/* stream_bell.c */
void stream_bell_arm_idle(struct stream *s);
void stream_bell_arm_busy(struct stream *s); /* if something is hot, and not too often */
bool stream_bell_hears(const struct stream *s, const struct stream_item *it);

/* An operation that is one call, in its op_space. */
struct stream_call {
    struct redis_call call; /* first */
    struct stream *s;
    struct op *op;
    struct list link;
};
void stream_call_start(struct stream *s, struct stream_call *c, struct op *op);
/* First thing in on_reply. */
static inline struct stream_call *stream_call_end(struct redis_call *c)
{
    struct stream_call *sc = container_of(c, struct stream_call, call);
    list_remove(&sc->link);
    return sc;
}

/* stream_batch.c */
void stream_ack(struct queue *q, struct queue_batch *b);
void stream_extend(struct queue *q, struct queue_batch *b);
void stream_retry_later(struct queue *q, struct queue_batch *b);

/* stream_state.c */
void stream_publish(struct queue *q, struct queue_publish *p);
void stream_locate(struct queue *q, struct queue_locate *l);
void stream_lag(struct queue *q, struct queue_lag *l);

/* stream_tidy.c */
void stream_tidy_init(struct stream *s);
void stream_tidy_end(struct stream *s);
