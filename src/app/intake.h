/* The receive loop: slots first, then at most that many messages (architecture 6).
 *
 *   LOOK → RECEIVE → LOOK …      happy path; a long poll each time
 *   LOOK → WAIT                  no slot is free, PostgreSQL's breaker is not closed, or suspects
 *                                are in hand (rule 23): intake_poke looks again
 *   RECEIVE → BACKOFF → LOOK     the receive failed, or brought more than was asked for
 *   any → STOPPED                worker_stop; what a cancelled receive brings is kept
 *
 * Invariant: a receive is under way only in RECEIVE, with `asked` slots reserved for it. */
#pragma once

#include "base/flow.h"
#include "base/sched.h"
#include "port/queue.h"

struct worker;

struct intake {
    struct flow flow;
    struct queue_receive op;
    struct timer timer;
    int rc, asked, want, failures;
    bool receiving, usable;     /* usable: the last receive was answered */
    int64_t started_us;         /* of the receive under way */
    int64_t last_full_round_us; /* when the last answered receive had started; -1: none yet */
};

void intake_start(struct worker *w);
void intake_poke(struct worker *w);
void intake_stop(struct worker *w);
bool intake_stopped(const struct worker *w);
