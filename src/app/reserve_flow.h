/* The reserve flow's struct, shared by its files: reserve.c (the hold, the pool), reserve_answer.c
 * (what the buyer is told) and reserve_publish.c (from the confirmed hold to the end, on a queue
 * that is not the store's).
 */
#pragma once

#include "app/reserve.h"

/* What became of a strict release. */
enum reserve_release { RESERVE_STANDS, RESERVE_RELEASED, RESERVE_RELEASE_UNKNOWN };

struct reserve {
    struct flow flow;
    struct reserve_pool *pool;
    void *viewer;
    struct reserve_answer answer;
    struct stock_reserve hold;
    int64_t started_us, deadline_us, first_give_up_us;
    int rc; /* the last try's */
    int tries;
    bool watched; /* the viewer is there, and was told nothing yet */
    bool decided; /* what it is told */
    bool unknown; /* a try may have taken a unit without saying so */

    struct timer patience; /* the buyer waits no longer: for the hold; `recover`: for the publish */
    struct event event;
    int publish_rc;
    enum reserve_release release;
    int pin_rc; /* of PIN; 0: it stands, or there was nothing to pin */
    union {     /* one after the other */
        struct queue_publish publish;
        struct stock_mark mark;
        struct stock_release release;
    } call;

    char traceparent[RESERVE_TRACEPARENT_MAX];
    char tracestate[EVENT_TRACE_MAX];
};

static inline struct reserve *reserve_of(struct flow *f)
{
    return container_of(f, struct reserve, flow);
}

/* --- reserve_answer.c --- */
/* Fills r->answer. */
void reserve_decide(struct reserve *r);
/* Whether the record that was found is this flow's own. */
bool reserve_is_own(const struct reserve *r);

/* --- reserve.c --- */
/* Tells the viewer, unless it left or was told; never a second time. */
void reserve_tell(struct reserve *r);
/* The fields of seed 000 §12.1 that every line of a request has. */
#define RESERVE_LOG_FIELDS(r)                                                                      \
    LOG_UUID("request_id", &(r)->hold.request_id),                                                 \
        LOG_UUID("reservation_id", &(r)->hold.reservation_id),                                     \
        LOG_UUID("message_id", &(r)->hold.message_id), LOG_I("order_id", (r)->hold.order_id),      \
        LOG_I("user_id", (r)->hold.user_id), LOG_I("activity_id", (r)->hold.item.activity_id),     \
        LOG_I("sku_id", (r)->hold.item.sku_id),                                                    \
        LOG_S("trace_id", event_trace_id((r)->hold.traceparent))

/* --- reserve_publish.c --- */
enum flow_result reserve_step_publish(struct flow *f);
enum flow_result reserve_step_mark(struct flow *f);
enum flow_result reserve_step_release(struct flow *f);
enum flow_result reserve_step_pin(struct flow *f);
void reserve_publish_metrics(struct reserve_pool *p);
