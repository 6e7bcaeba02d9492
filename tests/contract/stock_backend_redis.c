#include "adapter/redis_stock/redis_stock.h"
#include "backend_loop.h"
#include "base/panic.h"
#include "stock_backend.h"
#include "support/private_topology.h"
#include <stdio.h>
#include <stdlib.h>

#ifndef REDIS_TOPOLOGY
#define REDIS_TOPOLOGY TOPOLOGY_ALONE
#endif

static struct private_redis redis;
static struct stock *stock;
static int64_t next_sku;

void backend_start(bool streams)
{
    static const char *const more[] = {"--appendonly", "no", NULL};
    char err[128] = "";
    if (!redis.pid) {
        private_topology_start(&redis, REDIS_TOPOLOGY, more);
    }
    struct redis_stock_config c = {.redis = {.url = redis.url,
                                             .dial_us = 5000000,
                                             .stall_us = 4000000,
                                             .backoff_min_us = 10000,
                                             .backoff_max_us = 100000,
                                             .max_pending = 1024,
                                             .metric_link = "stock"},
                                   .stream_queue = streams};
    backend_loop_open();
    stock = redis_stock_new(backend_loop(), &c, err, sizeof err);
    if (!stock)
        panic("redis_stock_new: %s", err);
    /* More than one server takes more than one dial. */
    for (int i = 0; i < 1000 && !redis_stock_ready(stock); i++)
        backend_run(&(bool){false}, 10000);
}

void backend_stop(void)
{
    redis_stock_free(stock);
    backend_loop_close();
}

struct stock *backend_stock(void)
{
    return stock;
}

struct item backend_item(void)
{
    return (struct item){5, ++next_sku};
}

bool backend_reported(struct item item)
{
    redisReply *r = private_redis_command(&redis, "SISMEMBER sec:suspect %lld:%lld",
                                          (long long)item.activity_id, (long long)item.sku_id);
    bool is = r->integer == 1;
    freeReplyObject(r);
    return is;
}

void backend_set_epoch(struct item item, int64_t epoch)
{
    freeReplyObject(private_redis_command(
        &redis,
        epoch > 1 ? "HSET sec:{%lld:%lld}:meta epoch %lld rebuild 2"
                  : "HSET sec:{%lld:%lld}:meta epoch %lld",
        (long long)item.activity_id, (long long)item.sku_id, (long long)epoch));
    if (epoch == 1)
        freeReplyObject(private_redis_command(&redis, "HDEL sec:{%lld:%lld}:meta rebuild",
                                              (long long)item.activity_id, (long long)item.sku_id));
}

#define KEY "sec:{%lld:%lld}:"
#define OF(item) (long long)(item).activity_id, (long long)(item).sku_id

static struct str text_of(const struct uuid *u, char *dst)
{
    uuid_format(u, dst);
    return (struct str){dst, UUID_TEXT};
}

void backend_add_free(struct item item, int64_t by)
{
    freeReplyObject(
        private_redis_command(&redis, "INCRBY " KEY "stock %lld", OF(item), (long long)by));
}

void backend_remove_buyer(struct item item, int64_t user)
{
    freeReplyObject(
        private_redis_command(&redis, "HDEL " KEY "buyers %lld", OF(item), (long long)user));
}

void backend_put_buyer(struct item item, const struct reservation *r)
{
    char entry[128], a[UUID_TEXT], b[UUID_TEXT];
    struct str reservation = text_of(&r->reservation_id, a), request = text_of(&r->request_id, b);
    snprintf(entry, sizeof entry, STR_FMT " %lld " STR_FMT, STR_ARG(reservation),
             (long long)r->order_id, STR_ARG(request));
    freeReplyObject(private_redis_command(&redis, "HSET " KEY "buyers %lld %s", OF(item),
                                          (long long)r->user_id, entry));
}

void backend_forget_pending(struct item item, const struct reservation *r)
{
    char a[UUID_TEXT];
    text_of(&r->request_id, a);
    freeReplyObject(private_redis_command(&redis, "ZREM " KEY "pending %lld:%b", OF(item),
                                          (long long)r->user_id, a, (size_t)UUID_TEXT));
}
