/* One loop's reserve pool on a virtual clock and the fake stock; every move and answer goes into a
 * trace: "HOLD@0.0 ANSWER@1.0 202 QUEUED". Times are ms since the fixture began. */
#pragma once

/* cmocka wants these first */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "adapter/mem/mem_clock.h"
#include "adapter/mem/mem_queue.h"
#include "adapter/mem/mem_stock.h"
#include "app/reserve.h"
#include <stdio.h>

#define MS 1000

struct fixture {
    struct sched sched;
    struct stock *stock;
    struct mem_broker *broker; /* NULL: the store publishes */
    struct queue *queue;
    struct order_id_source ids;
    struct rng rng;
    struct retry_budget budget;
    struct hints hints;
    struct past past;
    struct reporter reporter;
    struct reserve_pool pool;
    struct item item;
    int answers, idles;
    struct reserve_answer last;
    int64_t answered_us; /* when, since the fixture began */
    char trace[32768];
    size_t len;
};

void fixture_init(struct fixture *f, int64_t units, int flows);
/* With a queue that is not the store's. */
void fixture_init_queue(struct fixture *f, int64_t units, int flows, bool strict);
void fixture_deinit(struct fixture *f);
/* The request of a user under key number `key`. */
struct reserve_request fixture_request(const struct fixture *f, int64_t user, unsigned key);
int fixture_submit(struct fixture *f, int64_t user, unsigned key, struct reserve **out);
/* Submits it and runs until everything came to rest; the trace is that of this request only. */
void fixture_buy(struct fixture *f, int64_t user, unsigned key);
void fixture_run_ms(struct fixture *f, int64_t ms);
void fixture_clear_trace(struct fixture *f);
/* Settles the user's request as the worker would. */
void fixture_settle(struct fixture *f, int64_t user, unsigned key, struct verdict v,
                    bool give_back);
/* The record of the user's request; NULL: there is none. */
const struct reservation *fixture_record(const struct fixture *f, int64_t user, unsigned key);
int64_t fixture_held(const struct fixture *f);
