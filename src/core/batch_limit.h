/* How many messages go into one transaction, learnt from how long transactions take. As a TCP
 * sender learns its window: twice as many while twice as many would still be in time, one more
 * where that is near the target, half as many when one was late, a single one after one that never
 * ended (of a large batch that timed out nothing is known, least of all which half would do).
 *
 * Late ones shrink the batch only while its rows are what takes the time: with a commit that waits
 * for a distant replica small batches take as long as large ones, and only make less of it. Two
 * late ones of different sizes tell. Pure; one owner thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* So many late single ones until two are tried again. */
#define BATCH_LIMIT_PATIENCE 16

struct batch_limit {
    int limit, max;
    int64_t target_us;
    int late_n; /* the last late one's size and time; 0: none since one was in time */
    int64_t late_us;
    bool by_rows; /* more than half of that time was its rows' */
    int patience;
};

/* max: the hard bound, from 1, and where it starts. target_us: how long one should take at most. */
void batch_limit_init(struct batch_limit *l, int max, int64_t target_us);
/* A transaction of n took so long; timed_out: it was given up after that time. */
void batch_limit_took(struct batch_limit *l, int n, int64_t took_us, bool timed_out);
static inline int batch_limit_now(const struct batch_limit *l)
{
    return l->limit;
}
