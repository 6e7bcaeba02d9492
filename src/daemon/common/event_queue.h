/* The queue of order events, of whatever kind the settings say: the one place that knows the kinds.
 * Belongs to one loop. */
#pragma once

#include "daemon/settings.h"
#include "loop/loop.h"
#include "port/queue.h"

enum event_queue_use {
    EVENT_QUEUE_PUBLISH, /* publish, to whatever topic the settings name */
    EVENT_QUEUE_CONSUME, /* everything */
    EVENT_QUEUE_INSPECT, /* publish, lag: an operator's, who can wait. It receives nothing */
};

struct event_queue_config {
    enum event_queue_use use;
    const char *consumer; /* unique per life of a process; borrowed for the call */
    int max_in_hand;      /* CONSUME: messages in memory at most, the caller's slots */
};

/* Zero it first: then close, deinit, ready and complaint are harmless before and after. */
struct event_queue {
    struct queue *port; /* NULL: there is none */
    int kind;           /* enum settings_queue */
};

/* The kind's queue is the store's own: reserve publishes in the same call
 * (redis_stock_config.stream_queue), and nothing has to be published beside it. */
bool event_queue_is_stores(const struct settings *s);
int64_t event_queue_lease_us(const struct settings *s);

/* 0, or an error with what is wrong in err. Connects in the background. */
int event_queue_init(struct event_queue *q, struct loop *l, const struct settings *s,
                     const struct event_queue_config *c, char *err, size_t err_cap);
/* The clean end, after the last receive and publish: op.on_done, rc 0 at the end or at its
 * deadline. Only with a port. */
void event_queue_close(struct event_queue *q, struct op *op);
/* Calls under way complete first, inside this call. Without _close it is as if the process had
 * died. */
void event_queue_deinit(struct event_queue *q);
/* It can be used, as far as is known: asked of kinds that are more than the store's connection. */
bool event_queue_ready(const struct event_queue *q);
/* While a program's start waits for it: says so, at most each few seconds. Zero it first. */
struct event_queue_wait {
    int64_t next_us;
    bool said;
};
void event_queue_log_waiting(struct event_queue_wait *w, int64_t now_us, const char *why);
/* What is wrong now, for people, with what mends it; NULL: nothing. Valid until the next turn of
 * the loop. */
const char *event_queue_complaint(const struct event_queue *q);
/* It stays until somebody puts it right (credentials, a topic), unlike a broker that is away. */
bool event_queue_complaint_lasts(const struct event_queue *q);
