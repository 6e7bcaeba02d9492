#include "results_backend_redis.h"

#include "adapter/redis_results/redis_results.h"
#include "backend_loop.h"
#include "base/panic.h"
#include "results_backend.h"
#include <stdlib.h>
#include <string.h>

struct private_redis backend_redis;
static struct results *results;
static int64_t next_sku;
static redisReply *last;

static const char *const more[] = {"--appendonly", "no", NULL};

static void stop_redis(void)
{
    private_redis_stop(&backend_redis);
}

void backend_start(void)
{
    char err[128] = "";
    if (!backend_redis.pid) {
        private_redis_start(&backend_redis, more);
        atexit(stop_redis);
    }
    struct redis_results_config c = {.redis = {.url = backend_redis.url,
                                               .dial_us = 500000,
                                               .stall_us = 2000000,
                                               .backoff_min_us = 10000,
                                               .backoff_max_us = 50000,
                                               .slot_us = 300000,
                                               .max_pending = 1024},
                                     .max_len = BACKEND_STREAM_MAX,
                                     .keep_us = BACKEND_KEEP_MS * 1000};
    backend_loop_open();
    results = redis_results_new(backend_loop(), &c, err, sizeof err);
    if (!results)
        panic("redis_results_new: %s", err);
}

void backend_stop(void)
{
    redis_results_free(results);
    backend_loop_close();
    if (last)
        freeReplyObject(last);
    last = NULL;
}

struct results *backend_results(void)
{
    return results;
}

struct item backend_item(void)
{
    return (struct item){5, ++next_sku};
}

/* An entry's array of flat objects, in place. */
static int unpack(char *list, const char **bodies, int max)
{
    int n = 0;
    for (char *at = list; (at = strchr(at, '{')); at++) {
        if (n == max)
            panic("more than %d results", max);
        bodies[n++] = at;
        at = strchr(at, '}') + 1;
        if (*at != ',' && *at != ']')
            panic("no array of results: %s", list);
        *at = '\0';
    }
    return n;
}

int backend_read(struct item item, int n, const char **bodies, int max)
{
    int found = 0;
    (void)n;
    if (last)
        freeReplyObject(last);
    last = private_redis_command(&backend_redis, "XRANGE sec:{%lld:%lld}:results - + COUNT %d",
                                 (long long)item.activity_id, (long long)item.sku_id, max);
    for (size_t i = 0; i < last->elements; i++)
        found += unpack(last->element[i]->element[1]->element[1]->str, bodies + found, max - found);
    return found;
}

void backend_down(void)
{
    private_redis_kill(&backend_redis);
}

void backend_up(void)
{
    private_redis_again(&backend_redis, more);
}
