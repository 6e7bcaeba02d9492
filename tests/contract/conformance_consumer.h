/* A worker of the conformance suite: receives into free slots, asks the model what to do with each
 * message, acks, gives back, prolongs the leases of what takes long, and dies now and then, before
 * it worked, before it acked, or with its ack on the way. Callbacks only note; all else happens in
 * consumer_turn. */
#pragma once

#include "conformance_model.h"
#include "queue_faulty.h"

#define CONSUMER_SLOTS 128

struct sending;

struct held {
    struct queue_message *m;
    int64_t due_us;
    struct sending *extension; /* under way */
    bool given_up;             /* the extension failed: it is on its own now */
};
struct consumer {
    const char *name;
    struct model *model;
    const struct faulty_odds *odds;
    struct faulty_counts *counts;
    struct rng rng;
    uint32_t kills; /* percent of the receives that brought something */
    struct queue *q;
    int lives;
    struct queue_receive receive;
    bool receiving, received;
    int rc;
    struct held held[CONSUMER_SLOTS];
    int n_held, in_hand;
    struct list sendings;
    int64_t pause_until_us, last_brought_us;
    int failed_receives;
};

void consumer_start(struct consumer *c);
void consumer_turn(struct consumer *c);
/* Nothing in hand, nothing under way but the receive. */
bool consumer_idle(const struct consumer *c);
void consumer_kill(struct consumer *c);
/* In callbacks: the suite's loop looks at everything again. */
void conformance_wake(void);
