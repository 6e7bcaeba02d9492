/* An item whose keys are gone from Redis leaves the catalogue, if PostgreSQL says that their time
 * was over. If not, they were lost: it stays listed, so that buyers hear 503 and not 404 (rule 34).
 * Embedded in recover, whose rotation comes by each item; loop thread. */
#pragma once

#include "app/share.h"
#include "base/ctx.h"
#include "port/orders.h"
#include "port/stock.h"

struct worker;

struct retire {
    struct worker *w;
    struct item item;
    int64_t now_ms; /* the store's clock */
    void (*on_end)(struct retire *r);
    struct share_job job;
    struct ctx ctx;
    struct orders_inventory inventory;
    struct stock_unlist op;
};

/* The item is listed and has no keys. on_end once, never inside. */
void retire_start(struct retire *r, struct worker *w, struct item item, int64_t now_ms,
                  void (*on_end)(struct retire *r));
