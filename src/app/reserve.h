/* The reserve flow: one buyer's request for one unit (architecture 7, rules 8, 13–15, 32).
 *
 *   reserve_submit ─ sold out by the hint, no slot, no ids, no time ──► refused at once, no flow
 *        │
 *      ADMIT ──► HOLD ──────── every result but unknown ─────────► ANSWER
 *                 │ └─ unknown ─► HOLD_AGAIN ──────────────────────►┤
 *                 │               the same ids, once, if time and   │
 *                 │               retry budget allow                │
 *                 └─ held, by either, and the queue is not the      │
 *                    store's                                        │
 *                      ├─► PUBLISH ─ refused, `strict` ─► RELEASE ─►┤
 *                      │      └─ else ─► MARK ─► END                │
 *                      │         (the viewer is told first)         │
 *                      └ `strict`, met what another flow may yet    │
 *                        RELEASE ─► PIN ───────────────────────────►┘
 *
 * ADMIT takes a slot and mints the ids. HOLD and HOLD_AGAIN each wait for one call of the stock
 * port. Where the queue is the store's (Redis Streams, pool->queue NULL), that call publishes the
 * event, too, so one try may take hold_timeout + publish_timeout, and ANSWER tells the viewer. On a
 * queue of its own the confirmed hold is followed by PUBLISH, even if the answer came so late that
 * the buyer was told 504. What then becomes of it, and what the buyer is told when:
 * reserve_publish.c.
 *
 * The viewer (an HTTP exchange) only looks on: before the hold is confirmed its leaving cancels the
 * call; after that the flow runs on budgets of its own until stock and message agree, whoever is
 * still there, and keeps its slot until then.
 *
 * Invariant: however often it asks, a flow asks for one unit: both tries carry the same request,
 * reservation, message and order id. The stock port has the operation exactly in HOLD, HOLD_AGAIN,
 * MARK, PIN and RELEASE, the queue port in PUBLISH. ACCEPTED is answered only after a record was
 * seen; a refusal only if no try can have taken a unit or still take one (rule 14), or if the unit
 * was taken back; everything else is TIMEOUT.
 *
 * One pool a loop, with a fixed number of flows: the admission semaphore, which never waits. How
 * many of them may hold at once follows how long holds take (core/admission.h): what could not be
 * served before its deadline is refused at once. No allocation per request. One thread. */
#pragma once

#include "app/hint.h"
#include "app/past.h"
#include "app/reporter.h"
#include "base/flow.h"
#include "base/flow_pool.h"
#include "base/metric.h"
#include "base/sched.h"
#include "core/admission.h"
#include "core/order_id.h"
#include "core/retry.h"
#include "port/queue.h"
#include "port/stock.h"

/* A second try with less time than this is not made. */
#define RESERVE_LEAST_TRY_US 1000
#define RESERVE_TRACEPARENT_MAX 64

enum reserve_state {
    RESERVE_ADMIT,
    RESERVE_HOLD,
    RESERVE_HOLD_AGAIN,
    RESERVE_PUBLISH,
    RESERVE_MARK,
    RESERVE_PIN,
    RESERVE_RELEASE,
    RESERVE_ANSWER,
    RESERVE_END,
    RESERVE_STATES
};

struct reserve_request {
    struct item item;
    int64_t user_id;
    struct uuid request_id; /* the Idempotency-Key */
    int64_t received_us;    /* monotonic: the budget runs from here */
    int64_t wall_us;
    struct str traceparent, tracestate; /* copied; what is too long is dropped */
};

/* What the buyer is told. */
struct reserve_answer {
    enum answer answer;
    struct item item;
    int64_t user_id;
    bool replayed; /* an earlier request's result: Idempotent-Replayed: true */
    /* ANSWER_ACCEPTED: what state the request is in; a released replay: what it came to. */
    struct verdict verdict;
    /* With ACCEPTED and DUPLICATE_ORDER (there: of the unit that the buyer holds); order_id 0:
     * there is nothing to tell. */
    struct uuid request_id, reservation_id;
    int64_t order_id;
    int64_t epoch; /* with ACCEPTED: of the reservation */
};

struct reserve;

struct reserve_pool {
    /* set by the owner before reserve_pool_init; all borrowed */
    struct stock *stock;
    struct queue *queue; /* NULL: the store publishes within the hold */
    struct sched *sched;
    struct order_id_source *ids;
    struct rng *rng;
    struct retry_budget *budget;
    struct hints *hints;
    struct past *past;
    struct reporter *reporter;
    int64_t submit_us; /* the whole budget */
    /* One try of the hold takes a unit only within it; with Redis Streams, where it publishes, too,
     * hold + publish timeout. */
    int64_t try_us;
    int64_t target_us; /* holds that take longer than this let fewer in */
    /* With a queue: */
    bool strict;        /* a refused publish takes the unit back; else recovery publishes it */
    int64_t publish_us; /* the buyer waits for the publish so long at most; strict: its budget */
    int64_t send_us;    /* its budget, and a hold's, where the buyer does not wait for the end */
    int64_t store_us;   /* MARK, PIN, RELEASE */
    void (*on_answer)(struct reserve_pool *p, void *viewer, const struct reserve_answer *a);
    void (*on_idle)(struct reserve_pool *p); /* the last flow ended; may be NULL */

    /* internal */
    struct flow_pool flows;
    struct admission admission;
    int limit_shown;
    struct {
        struct metric *created, *replayed, *duplicate, *sold_out, *overloaded, *late, *again,
            *created_late, *unknown, *limit, *sent, *send_unknown, *send_refused, *patience,
            *unmarked, *released, *stands, *release_unknown;
    } count;
};

/* Takes the memory for n flows: 0, or ERR_OVERLOAD without it. */
int reserve_pool_init(struct reserve_pool *p, int n);
void reserve_pool_deinit(struct reserve_pool *p); /* no flow may be under way */
static inline int reserve_pool_busy(const struct reserve_pool *p)
{
    return flow_pool_busy(&p->flows);
}

enum { RESERVE_STARTED = 0, RESERVE_HINTED_SOLD_OUT = 1 };
/* Starts a flow; *out (may be NULL) is it. on_answer comes later, exactly once unless the viewer
 * left. Otherwise nothing was started: RESERVE_HINTED_SOLD_OUT; ERR_OVERLOAD (no free flow),
 * ERR_UNAVAIL (no order ids, rule 38), ERR_DEADLINE (no time left). */
int reserve_submit(struct reserve_pool *p, const struct reserve_request *q, void *viewer,
                   struct reserve **out);
/* The viewer left before it was answered: on_answer will not come. */
void reserve_gone(struct reserve *r);

/* What a replay of a request answers (the one table of it). */
enum answer reserve_answer_of_record(const struct reservation *found);

/* For tests and logs. */
extern struct flow_kind reserve_kind;
