/* The messages in hand: one slot each, workers + queue of them, taken before anything is received
 * (architecture 6). The slot is the work itself, so that there is no way to hold more. Loop thread.
 */
#pragma once

#include "base/list.h"
#include "core/event.h"
#include "port/queue.h"

struct worker;

enum work_suspect { WORK_HEALTHY, WORK_UNASKED, WORK_KNOWN }; /* which list of suspects it is in */

/* One message in hand. It is in exactly one place: waiting in a lane, among the suspects or the
 * returned (link), or being worked on. */
struct work {
    struct list link;
    struct worker *w;
    struct queue_message *m;
    struct event e; /* views into m->body */
    int64_t received_us;
    /* Operations that still borrow m. The slot is free when none is left and it was put back. */
    int pins;
    bool put;
    bool untold;  /* PROCESSING may still have to be told */
    bool waiting; /* in a lane, among the suspects or the returned, nothing has started with it */
    enum work_suspect suspect;
    bool returned; /* among the returned */
    int again;     /* how often the order function said AGAIN */
    int extended;  /* how often the lease was prolonged */
};

/* The ids of the event in hand, for logs: the seed's fields (000 §12.1). */
#define LOG_EVENT(k)                                                                               \
    LOG_Z("consumer_group", EVENT_GROUP), LOG_UUID("request_id", &(k)->e.request_id),              \
        LOG_UUID("reservation_id", &(k)->e.reservation_id),                                        \
        LOG_UUID("message_id", &(k)->e.message_id), LOG_Z("broker_message_id", (k)->m->id),        \
        LOG_I("order_id", (k)->e.order_id), LOG_I("activity_id", (k)->e.item.activity_id),         \
        LOG_I("sku_id", (k)->e.item.sku_id), LOG_I("user_id", (k)->e.user_id),                     \
        LOG_S("trace_id", event_trace_id((k)->e.traceparent))

struct hand {
    struct work *works;
    int size, used, reserved, waiting; /* used + reserved <= size, always; waiting: part of used */
    struct list free;
};

void hand_init(struct worker *w, int size);
void hand_deinit(struct worker *w); /* nothing may be in hand */
/* Takes up to max slots for a receive; how many. */
int hand_reserve(struct worker *w, int max);
void hand_unreserve(struct worker *w, int n);
/* A received message takes one of the reserved slots. */
struct work *hand_take(struct worker *w, struct queue_message *m);
/* The worker is done with it: the message is released (without an ack: that is disposal's) and the
 * slot is free, as soon as nothing borrows it. */
void hand_put(struct work *k);
void hand_pin(struct work *k);
void hand_unpin(struct work *k);
/* Nothing may start with it any more from here on: its lease is over, or nearly. */
int64_t hand_deadline_us(const struct work *k);
/* By enqueue time, of first deliveries; 0: nothing is in hand (rule 26). */
int64_t hand_oldest_age_ms(struct worker *w);
void hand_set_waiting(struct work *k, bool waiting);
/* How many are being worked on, not waiting. */
static inline int hand_active(const struct hand *h)
{
    return h->used - h->waiting;
}
