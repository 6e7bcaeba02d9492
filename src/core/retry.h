/* Retries: full jitter within bounds, and a budget of a share of the minute's traffic with a floor
 * (rule 32). One owner thread each. */
#pragma once

#include "base/rng.h"
#include <stdbool.h>
#include <stdint.h>

/* Uniform in [0, min(max, base * 2^attempt)]; attempt counts from 0. */
int64_t retry_delay_us(struct rng *rng, int64_t base_us, int64_t max_us, int attempt);

struct retry_budget {
    int percent, floor_per_minute;
    int64_t window_start_us; /* six windows of 10 s */
    uint32_t calls[6], retries[6];
    int at;
};
void retry_budget_init(struct retry_budget *b, int percent, int floor_per_minute, int64_t now_us);
void retry_budget_call(struct retry_budget *b, int64_t now_us); /* a first attempt */
bool retry_budget_take(struct retry_budget *b,
                       int64_t now_us); /* may there be one retry more? counts it */
