/* Of the commands about one item. */
#pragma once

#include "adapter/pg/pg_admin.h"
#include "daemon/ctl/ctl.h"

struct item_args {
    struct item item;
    bool json;
};
extern const struct args_option item_options[];
#define ITEM_OPTIONS 3

/* The item in PostgreSQL. 0; or complained: CTL_FAILED. */
int item_in_pg(const struct ctl *c, const char *what, struct item item, struct pg_activity *out);
/* The item in Redis: 0 there, 1 not; or complained: -1. */
int item_in_redis(struct ctl *c, const char *what, struct item item, struct stock_item_info *out);

const char *item_state_name(enum stock_state s);
/* Writes both sides as one record. info NULL: not in Redis. */
void item_print(struct out *o, const struct pg_activity *a, const struct stock_item_info *info);
