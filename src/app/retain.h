/* Retention: the books of items that are long over are taken away, a small batch at a time.
 *
 *   IDLE → BATCH → IDLE     after retention.interval while there is something to take, else after
 *                           retention.idle
 *
 * What may go, PostgreSQL decides (sql/, seckill_retain): never anything of an item whose keys in
 * Redis may still be there. It has a connection of its own (worker.upkeep), so no order waits for
 * it; at most retention.batch rows in each interval and worker. Several workers take different
 * items. What fails comes again. Loop thread; the calls run on the crew. */
#pragma once

#include "base/ctx.h"
#include "base/flow.h"
#include "base/sched.h"
#include "port/jobs.h"

#define RETAIN_CALL_US 5000000 /* patience: a batch has its own, smaller bound of time */

struct worker;

struct retain {
    struct flow flow;
    struct timer timer;
    bool stopped;
    struct job job;
    struct ctx ctx;
    int rc;
    struct orders_retained taken;
};

/* Does nothing without worker.upkeep, or with a batch of 0. */
void retain_start(struct worker *w);
void retain_stop(struct worker *w);
bool retain_idle(const struct worker *w);
