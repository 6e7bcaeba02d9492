#include "backend_sched.h"

struct sched backend_sched;

int64_t backend_now_us(void)
{
    return backend_sched.now_us;
}

bool backend_run(const bool *flag, int64_t us)
{
    return mem_clock_run_while(&backend_sched, flag, backend_sched.now_us + us);
}

/* mem_clock_run_while looks at the flag itself. */
void backend_wake(void) {}
