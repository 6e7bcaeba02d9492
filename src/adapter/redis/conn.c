/* One connection: its life. */
#include "adapter/redis/internal.h"

#include "base/panic.h"
#include <stdlib.h>

static int64_t or_default(int64_t v, int64_t fallback)
{
    return v > 0 ? v : fallback;
}

struct redis_conn *conn_new(struct loop *l, const struct redis_config *c,
                            const struct redis_url *url)
{
    struct redis_conn *r = calloc(1, sizeof *r);
    if (!r)
        return NULL;
    r->loop = l;
    r->url = *url;
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
    /* So that not everybody asks the same server at first. */
    r->turn = (unsigned)rng_below(&r->rng, REDIS_ADDRESSES_MAX);
    link_start(r);
    return r;
}

void conn_close(struct redis_conn *r)
{
    if (r->reading)
        panic("redis_free: inside a callback of its own");
    r->closing = true;
    link_stop(r);
    pipeline_cancel_all(r);
}

void conn_free(struct redis_conn *r)
{
    pipeline_cancel_all(r);
    pipeline_deinit(r);
    free(r);
}

bool conn_idle(const struct redis_conn *r)
{
    return !r->reading && r->waiting_n == 0 && pipeline_owed(r) == 0 && list_empty(&r->done);
}
