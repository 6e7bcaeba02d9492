/* PROCESSING, told to the buyers whose message is in hand for a while and has no end yet (rule 6).
 * Nearly every message ends sooner, and a hint that is overwritten at once is not worth a write per
 * order (docs/decisions/0005). One call per item, fire and forget; when too many are under way it
 * is left out. Loop thread. */
#pragma once

#include "base/sched.h"

#define PROGRESS_AFTER_US 100000
#define PROGRESS_TICK_US 50000
#define PROGRESS_MAX 256
#define PROGRESS_UNDER_WAY_MAX 16

struct worker;
struct work;

struct progress {
    struct timer timer;
    int calls; /* under way */
};
void progress_init(struct worker *w);
/* A decoded message has come into hand. */
void progress_received(struct work *k);
/* Nothing is told any more from here on. */
void progress_stop(struct worker *w);
