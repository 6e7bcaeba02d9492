/* A buyer's cancel, or a payment: from the request to the queue (rule 27).
 *
 *   send_command ─ no slot, no time ──► refused at once, no flow
 *        │
 *     LOOKUP ─┬─ found ───────────────► PUBLISH ─┐
 *             │                                  ├─ accepted ─► REMEMBER ─┐
 *             ├─ cancel of what is over ────────►┤                        │
 *             ├─ not there ─► ITEM ─┬────────────► ANSWER ◄───────────────┘
 *             │                     └─ payment ─► PUBLISH
 *             └─ failed ────────────────────────►┘
 *
 * LOOKUP reads the request's own record: its key holds the user, which is the authorisation of a
 * cancel. Its answer carries the store's time, which is a payment's accepted_at. ITEM tells a
 * request that nobody made from one that the store has lost (rule 34). A payment of an item that is
 * there is taken even if its request is not found: the money has moved, and who has it gets an
 * order or a refund.
 *
 * PUBLISH waits for the queue's word: 202 only when it accepted; 503 when it certainly did not; 504
 * when nobody knows: the same command again is the same message.
 *
 * REMEMBER keeps what was accepted beside the queue, so that a 202 outlives either of them
 * (docs/decisions/0026). Not remembered, or unknown: 504, since it may be carried out and may get
 * lost.
 *
 * Invariant: nothing was published before PUBLISH, and one message at most from then on. The viewer
 * may leave at any time; what is being published then still is.
 *
 * One pool a loop and kind, with a fixed number of flows, which is the admission bound, so that
 * buyers' cancels never keep payments out. No allocation per request. One thread. */
#pragma once

#include "base/flow.h"
#include "base/flow_pool.h"
#include "base/metric.h"
#include "base/rng.h"
#include "base/sched.h"
#include "port/queue.h"
#include "port/stock.h"

#define SEND_TRACEPARENT_MAX 64

enum send_state { SEND_LOOKUP, SEND_ITEM, SEND_PUBLISH, SEND_REMEMBER, SEND_ANSWER, SEND_STATES };

struct send_request {
    enum event_command command; /* EVENT_CANCEL or EVENT_PAY */
    struct item item;
    int64_t user_id;
    struct uuid request_id;
    struct str payment_id; /* of a payment: copied */
    int64_t order_id;      /* of a payment: the one it names */
    int64_t received_us;   /* monotonic: the budget runs from here */
    int64_t wall_us;
    struct str traceparent, tracestate; /* copied; what is too long is dropped */
};

struct send_answer {
    enum answer answer;
    struct item item;
    int64_t user_id;
    int64_t epoch;                          /* of the reservation; 0: not known */
    struct uuid request_id, reservation_id; /* nil: not known */
    int64_t order_id;
    struct str payment_id;
    int64_t accepted_at_ms;
    struct verdict verdict; /* the request's state, as the record says */
};

struct send_command;

struct send_pool {
    /* set by the owner before send_pool_init; all borrowed */
    const char *label; /* of the metrics: "cancel" or "pay" */
    struct stock *stock;
    struct queue *queue;
    struct sched *sched;
    int64_t budget_us; /* the whole */
    int64_t store_us;  /* one call of the stock port */
    int most;          /* commands remembered of an item: beyond it none is accepted */
    void (*on_answer)(struct send_pool *p, void *viewer, const struct send_answer *a);
    void (*on_idle)(struct send_pool *p); /* the last flow ended; may be NULL */

    /* internal */
    struct flow_pool flows;
    struct {
        struct metric *sent, *refused, *unknown, *unkept, *declined, *overloaded;
    } count;
};

/* Takes the memory for n flows: 0, or ERR_OVERLOAD without it. */
int send_pool_init(struct send_pool *p, int n);
/* No flow may be under way; harmless on a pool that is zeroed. */
void send_pool_deinit(struct send_pool *p);
static inline int send_pool_busy(const struct send_pool *p)
{
    return flow_pool_busy(&p->flows);
}

/* 0: *out is the flow; on_answer comes later, exactly once unless the viewer left. ERR_OVERLOAD: no
 * flow is free; ERR_DEADLINE: no time is left. */
int send_command_submit(struct send_pool *p, const struct send_request *q, void *viewer,
                        struct send_command **out);
/* The viewer left: on_answer will not come. */
void send_command_gone(struct send_command *s);
