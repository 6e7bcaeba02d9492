#include "core/batch_limit.h"

void batch_limit_init(struct batch_limit *l, int max, int64_t target_us)
{
    *l = (struct batch_limit){.limit = max, .max = max, .target_us = target_us, .by_rows = true};
}

static void set(struct batch_limit *l, int limit)
{
    l->limit = limit < 1 ? 1 : limit > l->max ? l->max : limit;
}

static void in_time(struct batch_limit *l, int n, int64_t took_us)
{
    l->late_n = 0;
    l->by_rows = true;
    l->patience = 0;
    if (n >= l->limit) /* a limit that nobody reached says nothing */
        set(l, took_us * 2 <= l->target_us ? l->limit * 2 : l->limit + 1);
}

static void late(struct batch_limit *l, int n, int64_t took_us)
{
    if (l->late_n > 0 && l->late_n != n) {
        double a_row = (double)(took_us - l->late_us) / (n - l->late_n);
        l->by_rows = a_row * n * 2 > (double)took_us;
        l->patience = BATCH_LIMIT_PATIENCE;
    }
    l->late_n = n;
    l->late_us = took_us;
    if (!l->by_rows) {
        if (n * 2 > l->limit)
            set(l, n * 2);
    } else if (n > 1) {
        set(l, n / 2);
    } else if (l->patience-- > 0) {
        set(l, 1);
    } else {
        l->patience = BATCH_LIMIT_PATIENCE;
        set(l, 2);
    }
}

void batch_limit_took(struct batch_limit *l, int n, int64_t took_us, bool timed_out)
{
    if (timed_out) {
        l->late_n = 0;
        l->by_rows = true;
        l->patience = BATCH_LIMIT_PATIENCE;
        set(l, 1);
    } else if (took_us > l->target_us) {
        late(l, n, took_us);
    } else {
        in_time(l, n, took_us);
    }
}
