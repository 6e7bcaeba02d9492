/* The look-up flow: what became of a buyer's request, an order, an item (architecture 2).
 *
 *   lookup_request ► REDIS ─ final, or open for less than fallback_after ─► ANSWER
 *                      └─ absent, open for longer, or Redis failed ─┐          ▲
 *   lookup_order ──────────────────────────────────────────────────►PG ────────┤
 *                                                                   └─ neither │
 *                                                            Redis nor PG knows│
 *                                        with a token: EPOCH ◄──────────┤───────┤
 *   lookup_item ────────────────────────────────────────────────► ITEM ◄┘───────┘
 *
 * REDIS waits for one call of the stock port, PG and EPOCH for a read that may be shared (reads.h),
 * ITEM for a view that may be shared or at hand (item_views.h). ITEM stands before every "no such
 * request": an item that is listed and has lost its state says that Redis lost something (rule 34),
 * so the answer is "not available", never "not found" to somebody who was told 202.
 *
 * EPOCH is for who proves that the request was accepted (core/location_token.h): it is lost, or on
 * its way, but never "not found" while the item's records live. An epoch older than the item's in
 * PostgreSQL, whose rebuild's time is over: FAILED/LOST_RESERVATION (rule 37). Else QUEUED, to be
 * asked again; of the current epoch the item is reported (rule 34c), since something must be there.
 *
 *   Redis ╲ PostgreSQL   final          open or absent              failed, refused
 *   final                (not asked)    (not asked)                 (not asked)
 *   open                 PostgreSQL's   the higher rank of the two  Redis's
 *   absent               PostgreSQL's   open: that; absent: EPOCH   503
 *                                       with a token, else ITEM
 *   failed               PostgreSQL's   open: that; absent: 503     503
 *
 * Between an order's commit and its settling an end is known to PostgreSQL alone: where that fails
 * just then, whoever heard of the end hears Redis's open state once more, as all who wait do.
 *
 * A final record is believed, but not of a store that has gone back, nor one that a rebuild did not
 * find: PostgreSQL is asked, and the higher rank wins. Of the latter EPOCH also says, without a
 * token, whether it is lost; an order that a rebuild did not find is as absent as in PostgreSQL.
 *
 * Invariant: the record's key holds the user, and an order is compared with the user, so that
 * nobody hears of what is somebody else's: it is absent to them. NOT_FOUND is said only after every
 * store that may know was asked and answered. Within one answer the higher rank wins.
 *
 * The viewer may leave at any time: nothing is written, so nothing has to be finished. One pool a
 * loop, with a fixed number of flows, which is the admission bound. No allocation per request. One
 * thread. */
#pragma once

#include "app/item_views.h"
#include "app/past.h"
#include "app/reads.h"
#include "app/reporter.h"
#include "base/flow.h"
#include "base/flow_pool.h"

enum lookup_state {
    LOOKUP_REDIS,
    LOOKUP_PG,
    LOOKUP_EPOCH,
    LOOKUP_ITEM,
    LOOKUP_ANSWER,
    LOOKUP_STATES
};

enum lookup_kind { LOOKUP_OF_REQUEST, LOOKUP_OF_ORDER, LOOKUP_OF_ITEM };
enum lookup_source {
    LOOKUP_FROM_NOTHING,
    LOOKUP_FROM_REDIS,
    LOOKUP_FROM_PG,
    LOOKUP_FROM_TOKEN,
    LOOKUP_SOURCES
};

struct lookup_answer {
    enum answer answer; /* ANSWER_OK, NOT_FOUND, DEPENDENCY_UNAVAILABLE, INTERNAL_ERROR */
    enum lookup_kind kind;
    enum lookup_source source; /* of what is told */
    /* Request. What is not known is nil, or 0: PostgreSQL keeps no reservation of a request that
     * was refused there, and the time only where the message id tells it. */
    struct item item; /* and item */
    struct uuid request_id;
    struct verdict verdict;
    struct uuid reservation_id;
    int64_t order_id, created_at_ms;
    bool cancel_refused; /* the buyer wanted to cancel, the order was paid (rule 27) */
    bool ask_again;      /* nothing is known yet of what was accepted */
    bool suspect;        /* and something should be: the item is reported */
    /* Order. */
    struct orders_order order;
    /* Item: as of now_ms, the store's clock. */
    struct stock_item_info info;
    int64_t now_ms;
};

struct lookup;

struct lookup_pool {
    /* set by the owner before lookup_pool_init; all borrowed */
    struct stock *stock;
    struct jobs *jobs;
    struct sched *sched;
    int64_t timeout_us;        /* the whole budget */
    int64_t redis_us;          /* one call of the stock port */
    int64_t fallback_after_us; /* an open request older than this is looked up in PostgreSQL */
    int64_t pg_us;             /* one read, waiting for a connection included */
    int pg_reads;              /* in hand at most */
    struct reporter *reporter;
    void (*on_answer)(struct lookup_pool *p, void *viewer, const struct lookup_answer *a);
    void (*on_idle)(struct lookup_pool *p); /* the last flow ended; may be NULL */

    /* internal */
    struct reads reads;
    struct item_views items;
    struct past past; /* what the store said of items' versions */
    struct flow_pool flows;
    struct {
        struct metric *overloaded, *late, *timeouts, *source[LOOKUP_SOURCES];
    } count;
};

/* Takes the memory for n flows: 0, or ERR_OVERLOAD without it. */
int lookup_pool_init(struct lookup_pool *p, int n);
/* No flow, read or load may be under way. */
void lookup_pool_deinit(struct lookup_pool *p);
static inline int lookup_pool_busy(const struct lookup_pool *p)
{
    return flow_pool_busy(&p->flows);
}

enum { LOOKUP_STARTED = 0, LOOKUP_AT_ONCE = 1 };
/* LOOKUP_STARTED: *out is the flow, on_answer comes later, exactly once unless the viewer left.
 * ERR_OVERLOAD: no flow is free; ERR_DEADLINE: no time is left; ERR_UNAVAIL (order): too many reads
 * wait. received_us: monotonic, the budget runs from there. */
/* accepted_epoch: in which the request was accepted, as a token proves; 0: nothing is proved. */
int lookup_request(struct lookup_pool *p, struct item item, int64_t user_id,
                   const struct uuid *request_id, int64_t accepted_epoch, int64_t received_us,
                   void *viewer, struct lookup **out);
int lookup_order(struct lookup_pool *p, int64_t order_id, int64_t user_id, int64_t received_us,
                 void *viewer, struct lookup **out);
/* Also LOOKUP_AT_ONCE: *now is the answer, nothing was started. */
int lookup_item(struct lookup_pool *p, struct item item, int64_t received_us, void *viewer,
                struct lookup **out, struct lookup_answer *now);
/* The viewer left: on_answer will not come. */
void lookup_gone(struct lookup *l);

/* --- between the files of the flow --- */

/* What was seen of a request so far. */
struct lookup_seen {
    int redis_rc; /* 0 found, 1 absent, or an error */
    struct reservation redis;
    bool left_behind; /* its record is of an older epoch than the item */
    bool asked_pg, asked_epoch, asked_item;
    int pg_rc; /* 0 found, 1 absent, or an error */
    struct reads_result pg;
    int64_t accepted_epoch; /* 0: no token */
    int epoch_rc;           /* 0 found, 1 absent, or an error */
    struct orders_inventory inventory;
    struct item_view item;
};
/* The table above: ANSWER, and what is told; or EPOCH or ITEM: it has to be asked first. */
enum lookup_state lookup_decide_request(const struct lookup_seen *seen, struct lookup_answer *out);
void lookup_decide_order(int pg_rc, const struct orders_order *order, int64_t user_id,
                         struct lookup_answer *out);
void lookup_decide_item(const struct item_view *v, int64_t now_us, struct lookup_answer *out);

/* For tests and logs. */
extern struct flow_kind lookup_kind;
