/* The virtual clock of flow tests: a struct sched that only these functions advance. Wall time =
 * MEM_CLOCK_WALL_US + monotonic time, so that both are readable in a failing test. */
#pragma once

#include "base/sched.h"
#include <stdbool.h>

#define MEM_CLOCK_START_US INT64_C(1000000000)
#define MEM_CLOCK_WALL_US INT64_C(1780000000000000)

static inline int64_t mem_clock_wall_us(const struct sched *s)
{
    return MEM_CLOCK_WALL_US + s->now_us;
}
static inline int64_t mem_clock_wall_ms(const struct sched *s)
{
    return mem_clock_wall_us(s) / 1000;
}

/* Fires everything due up to until_us, each at its own instant, and stands at until_us afterwards.
 */
void mem_clock_run_until(struct sched *s, int64_t until_us);
static inline void mem_clock_run_for(struct sched *s, int64_t us)
{
    mem_clock_run_until(s, s->now_us + us);
}
/* Runs until *flag or until_us; the clock stands at the instant that set it. Whether it was set. */
bool mem_clock_run_while(struct sched *s, const bool *flag, int64_t until_us);
/* Runs until no timer is left or until_us. True when none is left. */
bool mem_clock_run_idle(struct sched *s, int64_t until_us);
