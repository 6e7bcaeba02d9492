/* The seed's Redis metrics (000 §12.2) and some of our own; registered once per connection. */
#pragma once

#include "base/metric.h"

#include "adapter/redis/redis.h"

enum { OPERATIONS_MAX = 32 };

struct redis_metrics {
    char link[32];
    struct metric *pool_wait, *pool_timeouts, *active, *late, *reconnects, *reloads, *overload;
    struct metric *redirects_moved, *redirects_ask, *redirects_refused, *maps_ok, *maps_failed;
    struct operation {
        const void *key; /* script, or the static name of a plain command */
        struct metric *ok, *refused, *error, *unknown;
    } operations[OPERATIONS_MAX];
    int n;
};

void redis_metrics_init(struct redis_metrics *m, const char *link);
/* A call ended with its reply (rc 0, ERR_UNAVAIL, ERR_INTERNAL) or without one (ERR_UNCERTAIN). */
void redis_metrics_call(struct redis_metrics *m, const struct redis_call *c, int rc,
                        int64_t now_us);
