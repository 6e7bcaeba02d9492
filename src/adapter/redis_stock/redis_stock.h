/* The stock port on Redis: lua/ scripts over one pipelined connection. Keys: architecture 3. */
#pragma once

#include "adapter/redis/redis.h"
#include "port/stock.h"

struct redis_stock_config {
    struct redis_config redis;
    bool stream_queue; /* Redis Streams is the queue: reserve appends the event in the same call, as
                          MQ_SENT */
};
struct stock *redis_stock_new(struct loop *l, const struct redis_stock_config *c, char *err,
                              size_t err_cap);
void redis_stock_free(struct stock *s);
bool redis_stock_ready(const struct stock *s);

/* The news of items: subscribes; calls come on the loop. */
int redis_stock_news_start(struct loop *l, const struct redis_config *c, struct stock_news *news);
void redis_stock_news_stop(struct stock_news *news);

/* Whether this Redis keeps what it confirms: AOF on with appendfsync always, maxmemory-policy
 * noeviction. Blocking, at start-up only. 0; ERR_DENIED with what is wrong and how to set it;
 * ERR_UNAVAIL when it cannot be asked. */
int redis_check_durability(const char *url, int64_t timeout_us, char *err, size_t err_cap);
