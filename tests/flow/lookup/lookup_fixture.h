/* One loop's pool of look-ups on a virtual clock, with the fakes of both stores; every move and
 * answer goes into a trace: "PG@1.0 ANSWER@3.0 200 SUCCEEDED postgresql". Times are ms since the
 * trace began. */
#pragma once

/* cmocka wants these first */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "adapter/mem/mem_clock.h"
#include "adapter/mem/mem_jobs.h"
#include "adapter/mem/mem_stock.h"
#include "app/lookup.h"
#include <stdio.h>

#define MS 1000
#define MAX_HOLD_MS 600000

struct fixture {
    struct sched sched;
    struct stock *stock;
    struct mem_db *db;
    struct orders *orders; /* the worker's */
    struct jobs *jobs;
    struct reporter reporter;
    struct lookup_pool pool;
    int64_t accepted_epoch; /* what the next requests prove; 0: nothing */
    struct item item;
    int answers;
    struct lookup_answer last;
    char trace[4096];
    size_t len;
    int64_t trace_us;
};

struct setup {
    int flows, threads, queue_max, pg_reads;
    int64_t timeout_us;
};
/* 64 flows, one connection, eight waiting, 500 ms. */
#define SETUP ((struct setup){64, 1, 8, 9, 500 * MS})

void fixture_init(struct fixture *f, struct setup s);
/* Asserts that nothing is under way. */
void fixture_deinit(struct fixture *f);
struct uuid fixture_key(unsigned n);
void fixture_run_ms(struct fixture *f, int64_t ms);
void fixture_clear_trace(struct fixture *f);

/* The world: a record in Redis, rows in PostgreSQL, for a user's request under key number `key`. */
void fixture_reserve(struct fixture *f, int64_t user, unsigned key);
void fixture_settle(struct fixture *f, int64_t user, unsigned key, struct verdict v);
int64_t fixture_order_id(int64_t user, unsigned key);
void fixture_place(struct fixture *f, int64_t user, unsigned key); /* as the worker does */
void fixture_quarantine(struct fixture *f, int64_t user, unsigned key);
void fixture_void(struct fixture *f, int64_t user, unsigned key);

int fixture_request(struct fixture *f, int64_t user, unsigned key, struct lookup **out);
int fixture_order(struct fixture *f, int64_t order_id, int64_t user, struct lookup **out);
int fixture_item(struct fixture *f, struct item item, struct lookup **out);
/* Asks and runs until everything came to rest; the trace is that of this request only. */
void fixture_ask(struct fixture *f, int64_t user, unsigned key);
void fixture_ask_order(struct fixture *f, int64_t order_id, int64_t user);
/* At once or later: f->last. */
void fixture_ask_item(struct fixture *f, struct item item);

/* How often the store was called. */
int fixture_stock_calls(struct fixture *f, int op);
int fixture_pg_calls(struct fixture *f, int op);
void fixture_stock_fault(struct fixture *f, int op, int k, enum mem_fault_kind kind,
                         int64_t delay_us);
