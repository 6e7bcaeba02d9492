#include "daemon/common/store.h"

#include "adapter/redis_stock/redis_stock.h"
#include "base/clock.h"
#include "base/log.h"
#include <time.h>

#define WAIT_FOR_REDIS_US 30000000

struct redis_config store_redis_config(const struct settings *s, const char *link)
{
    return (struct redis_config){
        .url = s->redis.url,
        .dial_us = s->redis.dial_us,
        .stall_us = s->redis.stall_us,
        .backoff_min_us = s->redis.backoff_min_us,
        .backoff_max_us = s->redis.backoff_max_us,
        .slot_us = s->redis.slot_us,
        .max_pending = (int)s->redis.max_pending,
        .metric_link = link,
    };
}

int store_check_durability(const struct settings *s)
{
    char err[1024];
    int64_t until = clock_mono_us() + WAIT_FOR_REDIS_US;
    for (;;) {
        int rc = redis_check_durability(s->redis.url, s->redis.dial_us, err, sizeof(err));
        if (rc == 0)
            return 0;
        if (rc == ERR_DENIED && s->redis.allow_unsafe) {
            log_warn("UNSAFE: this Redis may lose orders that were confirmed; going on because of "
                     "redis.allow_unsafe",
                     LOG_Z("why", err));
            return 0;
        }
        if (rc != ERR_UNAVAIL || clock_mono_us() >= until) {
            log_error(rc == ERR_DENIED ? "refusing to start on a Redis that may lose what it "
                                         "confirmed (redis.allow_unsafe overrides)"
                                       : "Redis cannot be used",
                      LOG_Z("why", err));
            return 1;
        }
        log_warn("waiting for Redis", LOG_Z("why", err));
        nanosleep(&(struct timespec){.tv_nsec = 500000000}, NULL);
    }
}
