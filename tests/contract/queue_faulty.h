/* A queue port that loses things, around any other: an ack or an extension that never leaves, or
 * that takes effect and whose answer is lost; and its process dies. The queue under it is real, so
 * whatever follows from that is the queue's own doing. For the conformance suite. */
#pragma once

#include "base/rng.h"
#include "port/queue.h"

/* Percent of the calls. Read at each call: set to 0 to heal. */
struct faulty_odds {
    uint32_t lost_acks, failed_extensions;
};
struct faulty_counts {
    int acks, acks_unsent, acks_unheard, extensions, extensions_failed, kills;
};

/* All of it is borrowed until faulty_kill. */
struct queue *faulty_new(struct queue *under, struct rng *rng, const struct faulty_odds *odds,
                         struct faulty_counts *counts);
/* Answers the calls that never left: call it again and again, never inside one of its operations.
 */
void faulty_turn(struct queue *q);
/* The process dies with what it has in hand (backend_kill). What is under way ends inside this
 * call.
 */
void faulty_kill(struct queue *q);
