/* The stock adapter on a private Redis, one operation at a time. */
#pragma once

#include "redis_test.h"

#include "adapter/redis_stock/redis_stock.h"
#include "support/private_redis.h"

extern struct private_redis server;
extern struct loop *loop;
extern struct stock *stock;

/* A fresh database, a fresh connection that is up. */
int stock_setup(void **state);
int stock_teardown(void **state);
int stock_group_setup(void **state);
int stock_group_teardown(void **state);

/* Gives the operation a second, waits for its end, returns its rc. */
#define RUN(member, operation)                                                                     \
    (op_prepare(&(operation)->op), stock->ops->member(stock, (operation)),                         \
     op_wait(&(operation)->op))
void op_prepare(struct op *op);
int op_wait(struct op *op);
extern int op_rc; /* of the operation that ended last */
extern int op_ends;

extern const struct item item;
struct uuid an_id(int n); /* the same for the same n */
void open_item(int64_t total);
/* A reserve of this user with ids made of n; not yet sent. */
struct stock_reserve reserve_of(int64_t user, int n);
int64_t free_units(void);
