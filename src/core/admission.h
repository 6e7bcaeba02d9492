/* How many requests may be under way at once, learnt from how long they take: additive increase,
 * multiplicative decrease. Behind a store that answers n requests a second, more of them under way
 * make none of them faster; above the number that is answered within the target they only wait, and
 * in the end time out with their outcome unknown. Refusing them at once is cheaper and truer. Pure;
 * one owner thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define ADMISSION_LEAST                                                                            \
    64 /* never fewer: a pause of the store is no reason to refuse everybody                       \
        */

struct admission {
    double limit;
    int max, in_flight;
    int64_t target_us;
    int64_t
        shrink_at_us; /* not again before: what is under way now was let in under the old limit */
};

/* max: the hard bound, and where it starts; target_us: how long a request should take at most. */
void admission_init(struct admission *a, int max, int64_t target_us);
/* False: refuse. True: to be followed by one admission_leave. */
bool admission_enter(struct admission *a);
/* It ended after took_us; timed out counts as late, whatever it took. */
void admission_leave(struct admission *a, int64_t now_us, int64_t took_us, bool timed_out);
/* What is allowed now, for the gauge. */
int admission_limit(const struct admission *a);
