/* What the stock's contract suite needs from the thing it runs on: stock_backend_mem.c or
 * stock_backend_redis.c. */
#pragma once

#include "backend_time.h"
#include "port/stock.h"
#include <stdbool.h>

/* streams: Redis Streams is the queue, so that a reservation begins as MQ_SENT with a queue id. */
void backend_start(bool streams);
void backend_stop(void);
struct stock *backend_stock(void);
struct item backend_item(void); /* one nobody used yet: nothing of it is there */
/* Whether somebody reported it and no worker has seen to it. */
bool backend_reported(struct item item);
/* Above 1: as at the beginning of a rebuild, reservations keep theirs; 1: as if there was none. */
void backend_set_epoch(struct item item, int64_t epoch);
/* Somebody's hand: free units come or go, a buyers entry goes or comes, a reservation does not wait
 * any more. */
void backend_add_free(struct item item, int64_t by);
void backend_remove_buyer(struct item item, int64_t user);
void backend_put_buyer(struct item item, const struct reservation *r);
void backend_forget_pending(struct item item, const struct reservation *r);
