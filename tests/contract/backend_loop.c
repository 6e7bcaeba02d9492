#include "backend_loop.h"

static struct loop *loop;
static struct timer limit;

static void on_limit(struct timer *t)
{
    (void)t;
    loop_stop(loop);
}

void backend_loop_open(void)
{
    loop = loop_new();
    limit.on_fire = on_limit;
}

void backend_loop_close(void)
{
    /* Connections that were freed have their last deferred work in the loop's next turn. */
    const bool never = false;
    backend_run(&never, 1000);
    loop_free(loop);
}

struct loop *backend_loop(void)
{
    return loop;
}

int64_t backend_now_us(void)
{
    return loop_now_us(loop);
}

bool backend_run(const bool *flag, int64_t us)
{
    sched_set_in(loop_sched(loop), &limit, us);
    while (!*flag && limit.slot)
        loop_run(loop);
    sched_clear(loop_sched(loop), &limit);
    return *flag;
}

void backend_wake(void)
{
    loop_stop(loop);
}
