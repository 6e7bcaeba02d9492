/* Timers of one thread, and its "now". The loop advances it with the real clock, a flow test with a
 * virtual one. One thread; a timer may be set or cleared from inside any callback. */
#pragma once

#include "base/list.h"
#include <stddef.h>
#include <stdint.h>

struct timer {
    size_t slot; /* place in the heap + 1; 0 when not set. Zero-initialise before the first use. */
    int64_t at_us; /* monotonic */
    uint64_t seq;  /* equal times fire in the order in which they were set */
    void (*on_fire)(struct timer *t);
};

struct sched {
    int64_t now_us; /* monotonic time of this turn */
    struct timer **heap;
    size_t n, cap;
    uint64_t seq;
    bool running;
};

void sched_init(struct sched *s, int64_t now_us);
void sched_deinit(struct sched *s); /* asserts that no timer is set */
/* (Re)sets. A time in the past fires at the next sched_run, never inside this call. Cannot fail:
 * aborts without memory. */
void sched_set(struct sched *s, struct timer *t, int64_t at_us);
static inline void sched_set_in(struct sched *s, struct timer *t, int64_t delay_us)
{
    sched_set(s, t, s->now_us + delay_us);
}
void sched_clear(struct sched *s, struct timer *t); /* harmless when not set */
/* The earliest timer's time; INT64_MAX when there is none. */
int64_t sched_next_us(const struct sched *s);
/* Sets now (which never goes back) and fires, in order of time, every timer that was due when the
 * call began. */
void sched_run(struct sched *s, int64_t now_us);
