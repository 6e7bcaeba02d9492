/* The connection as its owner sees it. */
#include "adapter/redis/internal.h"

#include "base/panic.h"
#include <stdlib.h>

static int64_t or_default(int64_t v, int64_t fallback)
{
    return v > 0 ? v : fallback;
}

struct redis *redis_new(struct loop *l, const struct redis_config *c)
{
    struct redis_url url;
    if (!c->url || redis_url_parse(c->url, &url))
        return NULL;
    struct redis *r = calloc(1, sizeof *r);
    if (!r)
        return NULL;
    r->loop = l;
    r->url = url;
    r->config = (struct redis_config){
        .dial_us = or_default(c->dial_us, 500000),
        .stall_us = or_default(c->stall_us, 2000000),
        .backoff_min_us = or_default(c->backoff_min_us, 20000),
        .backoff_max_us = or_default(c->backoff_max_us, 1000000),
        .slot_us = or_default(c->slot_us, 30000),
        .max_pending = c->max_pending > 0 ? c->max_pending : 16384,
    };
    redis_metrics_init(&r->metrics, c->metric_link);
    rng_init(&r->rng);
    redis_time_init(&r->time);
    pipeline_init(r);
    if (!r->ring) {
        pipeline_deinit(r);
        free(r);
        return NULL;
    }
    link_start(r);
    return r;
}

void redis_free(struct redis *r)
{
    if (!r)
        return;
    if (r->reading)
        panic("redis_free: inside a callback of its own");
    r->closing = true;
    link_stop(r);
    pipeline_cancel_all(r);
    pipeline_deinit(r);
    free(r);
}

bool redis_ready(const struct redis *r)
{
    return r->phase == LINK_UP;
}

struct redis_time *redis_clock(struct redis *r)
{
    return &r->time;
}
