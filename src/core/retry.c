#include "core/retry.h"

#define WINDOWS 6
#define WINDOW_US INT64_C(10000000)

int64_t retry_delay_us(struct rng *rng, int64_t base_us, int64_t max_us, int attempt)
{
    int64_t limit = max_us;
    if (attempt < 62 && base_us <= max_us >> attempt)
        limit = base_us << attempt;
    return limit > 0 ? (int64_t)rng_below(rng, (uint64_t)limit + 1) : 0;
}

void retry_budget_init(struct retry_budget *b, int percent, int floor_per_minute, int64_t now_us)
{
    *b = (struct retry_budget){
        .percent = percent, .floor_per_minute = floor_per_minute, .window_start_us = now_us};
}

static void advance(struct retry_budget *b, int64_t now_us)
{
    int64_t passed = (now_us - b->window_start_us) / WINDOW_US;
    if (passed <= 0)
        return;
    for (int64_t i = 0; i < passed && i < WINDOWS; i++) {
        b->at = (b->at + 1) % WINDOWS;
        b->calls[b->at] = b->retries[b->at] = 0;
    }
    b->window_start_us += passed * WINDOW_US;
}

void retry_budget_call(struct retry_budget *b, int64_t now_us)
{
    advance(b, now_us);
    if (b->calls[b->at] < UINT32_MAX)
        b->calls[b->at]++;
}

bool retry_budget_take(struct retry_budget *b, int64_t now_us)
{
    advance(b, now_us);
    uint64_t calls = 0, retries = 0;
    for (int i = 0; i < WINDOWS; i++) {
        calls += b->calls[i];
        retries += b->retries[i];
    }
    uint64_t allowed = calls * (uint64_t)b->percent / 100;
    if (allowed < (uint64_t)b->floor_per_minute)
        allowed = (uint64_t)b->floor_per_minute;
    if (retries >= allowed)
        return false;
    b->retries[b->at]++;
    return true;
}
