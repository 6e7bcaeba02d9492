#include "daemon/ctl/latency.h"

#define SUB (1u << LATENCY_SUB_BITS)
#define RANGE_US ((INT64_C(1) << 33) - 1)

static unsigned bucket_of(int64_t us)
{
    if (us < (int64_t)SUB)
        return (unsigned)us;
    unsigned shift = 63u - (unsigned)__builtin_clzll((unsigned long long)us) - LATENCY_SUB_BITS;
    return (shift << LATENCY_SUB_BITS) + (unsigned)(us >> shift);
}

/* The largest duration of a bucket. */
static int64_t bucket_end(unsigned b)
{
    if (b < 2 * SUB)
        return b;
    unsigned shift = (b >> LATENCY_SUB_BITS) - 1;
    int64_t base = (int64_t)(b - (shift << LATENCY_SUB_BITS));
    return ((base + 1) << shift) - 1;
}

void latency_add(struct latency *l, int64_t us)
{
    us = us < 0 ? 0 : us;
    l->n++;
    l->max_us = us > l->max_us ? us : l->max_us;
    l->count[bucket_of(us > RANGE_US ? RANGE_US : us)]++;
}

int64_t latency_quantile_us(const struct latency *l, double q)
{
    double wanted = q * (double)l->n;
    uint64_t seen = 0;
    if (l->n == 0)
        return -1;
    for (unsigned b = 0; b < LATENCY_BUCKETS; b++) {
        seen += l->count[b];
        if ((double)seen >= wanted && seen > 0) {
            int64_t end = bucket_end(b);
            return end < l->max_us ? end : l->max_us;
        }
    }
    return l->max_us;
}
