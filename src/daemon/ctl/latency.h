/* A histogram of durations in fixed memory: exact up to 127 µs, then within 1 %, up to 2 h. One
 * thread. */
#pragma once

#include <stdint.h>

#define LATENCY_SUB_BITS 7 /* 128 steps for each doubling */
#define LATENCY_BUCKETS ((33 - LATENCY_SUB_BITS + 1) << LATENCY_SUB_BITS)

struct latency {
    uint64_t n;
    int64_t max_us;
    uint32_t count[LATENCY_BUCKETS];
};

/* Starts zeroed. Negative counts as 0; above the range as its end (max_us stays exact). */
void latency_add(struct latency *l, int64_t us);
/* The least duration that at least a share q (0 < q <= 1) of the values does not exceed; -1
 * without values. */
int64_t latency_quantile_us(const struct latency *l, double q);
