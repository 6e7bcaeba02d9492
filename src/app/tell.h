/* Tells the result topic what was settled just now, so that one update marks it as settled and as
 * published, and nobody has to look for it (rule 9, docs/decisions/0017). One try each, within
 * worker.store_timeout. What is not known to have arrived goes to its mark all the same and is told
 * by project; so does everything while the topic is away, and what finds no room.
 *
 *   added … → after a moment: a call per item, a few at a time → marks_add
 *
 * Bounded. Loop thread. */
#pragma once

#include "base/sched.h"
#include "port/results.h"

#define TELL_MAX 4096
#define TELL_CALLS 8 /* under way */
/* Calls that go together cost the topic's server one fsync. With MARKS_WAIT_US it is far below
 * worker.relay_after. */
#define TELL_WAIT_US 50000
#define TELL_AWAY_US 2000000 /* so long after a call that failed nothing is told here */

struct worker;

struct tell_call {
    struct worker *w;
    struct results_publish publish;
    struct results_row rows[RESULTS_MAX];
    bool busy;
};
struct tell {
    struct result *waiting; /* [TELL_MAX] */
    int n;
    struct tell_call *calls; /* [TELL_CALLS]; NULL: there is no topic */
    int under_way;
    int64_t away_until_us;
    struct timer timer;
};

void tell_init(struct worker *w);
void tell_deinit(struct worker *w);
/* Copies it. Its outbox row is marked in the end, whatever becomes of it. */
void tell_add(struct worker *w, const struct result *result);
void tell_flush(struct worker *w); /* without waiting for more: at the end */
bool tell_idle(const struct worker *w);
