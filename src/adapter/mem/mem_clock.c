#include "adapter/mem/mem_clock.h"

void mem_clock_run_until(struct sched *s, int64_t until_us)
{
    static const bool never = false;
    mem_clock_run_while(s, &never, until_us);
}

bool mem_clock_run_while(struct sched *s, const bool *flag, int64_t until_us)
{
    while (!*flag) {
        int64_t next = sched_next_us(s);
        if (next > until_us) {
            if (until_us > s->now_us)
                sched_run(s, until_us);
            break;
        }
        sched_run(s, next > s->now_us ? next : s->now_us);
    }
    return *flag;
}

bool mem_clock_run_idle(struct sched *s, int64_t until_us)
{
    int64_t next;
    while ((next = sched_next_us(s)) <= until_us)
        sched_run(s, next > s->now_us ? next : s->now_us);
    return next == INT64_MAX;
}
