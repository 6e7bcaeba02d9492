/* The whole system on the fakes of every port and a virtual clock: APIs, workers, a query-api, one
 * Redis, one queue, one PostgreSQL, some dozens of buyers. Everything that happens follows from the
 * seed: who asks what and when, which call meets which fault, what dies, what is lost. In the end
 * all is healed, and the books of all sides are compared (inquest.c). One thread. */
#pragma once

#include "adapter/mem/mem_clock.h"
#include "adapter/mem/mem_jobs.h"
#include "adapter/mem/mem_queue.h"
#include "adapter/mem/mem_stock.h"
#include "app/catalogue_watch.h"
#include "app/hint_loader.h"
#include "app/lookup.h"
#include "app/reserve.h"
#include "app/send_command.h"
#include "app/worker.h"
#include "base/rng.h"
#include <stdio.h>

#define MS INT64_C(1000)
#define S (1000 * MS)
#define SIM_APIS 2
#define SIM_WORKERS 2
#define SIM_ITEMS 2
#define SIM_BUYERS 24
#define SIM_KEYS 3    /* of a buyer and item */
#define SIM_EXTRA 256 /* buyers of the last rush, one key each */
#define SIM_ASKS (SIM_BUYERS * SIM_ITEMS * SIM_KEYS + SIM_EXTRA)
#define SIM_MAX_HOLD_US (30 * S)

struct sim;

/* The furthest state that its buyer was told. */
struct sim_known {
    bool accepted, heard, from_pg;
    struct verdict told;
};

/* One buyer's request under one key, and all that its buyer heard of it. */
struct sim_ask {
    struct sim *x;
    struct item item;
    int64_t user;
    struct uuid key;
    bool posting, polling, commanding; /* an answer is awaited */
    bool posted;
    bool maybe; /* an answer was 202, unknown or none: it may have been carried out */
    int64_t epoch, order_id;
    struct sim_known known, at_post, at_poll, at_command; /* now; when it last asked */
    bool cancel_accepted, cancel_maybe, pay_accepted, pay_maybe;
    char payment_id[40];
    struct verdict end; /* in the end, as query-api tells it */
    bool ended;
};

struct sim_api {
    struct sim *x;
    bool alive;
    struct stock *stock, *control;
    struct queue *queue;
    struct order_id_source ids;
    struct rng rng;
    struct retry_budget budget;
    struct hints hints;
    struct past past;
    struct reporter reporter;
    struct hint_loader loader;
    struct catalogue_watch catalogue;
    struct reserve_pool pool;
    struct send_pool cancels, payments;
};

struct sim_worker {
    struct sim *x;
    struct worker *w; /* NULL: dead */
    struct stock *stock;
    struct queue *queue;
    struct jobs *jobs;
    bool idle;
};

/* What may be lost is the seed's: what is checked in the end depends on it. */
struct sim_plan {
    uint64_t seed;
    bool own_broker; /* a queue beside Redis that does not tell items apart (RocketMQ) */
    bool strict;
    bool redis_loses, pg_loses, queue_loses;
    int steps;
    int64_t units;
};

struct sim {
    struct sim_plan plan;
    struct rng rng;
    struct sched sched;
    struct mem_broker *broker;
    struct stock *stock; /* the test's own port */
    struct mem_db *db;
    struct item items[SIM_ITEMS];
    struct sim_api apis[SIM_APIS];
    struct sim_worker workers[SIM_WORKERS];
    int lives, api_lives;
    struct {
        struct stock *stock;
        struct jobs *jobs;
        struct reporter reporter;
        struct lookup_pool pool;
    } query;
    struct sim_ask asks[SIM_ASKS];
    int n_asks;
    struct mem_stock_snapshot *backup;
    bool redis_lost, pg_lost, queue_lost; /* it came to that */
    bool talk;                            /* tells what happens, on standard output */
    const char *wrong;                    /* the first thing that is; "": nothing */
    char wrong_text[512];
};

/* simulation.c */
struct sim_plan sim_plan_of(uint64_t seed);
void sim_init(struct sim *x, const struct sim_plan *plan);
void sim_deinit(struct sim *x);
void sim_run(struct sim *x, int64_t us);
void sim_start_api(struct sim *x, int i);
void sim_kill_api(struct sim *x, int i);
void sim_start_worker(struct sim *x, int i);
void sim_kill_worker(struct sim *x, int i);
void sim_say(struct sim *x, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Notes the first thing that must not be; the run goes on to its end. */
void sim_wrong(struct sim *x, const char *format, ...) __attribute__((format(printf, 2, 3)));
static inline bool sim_chance(struct sim *x, int of_1000)
{
    return (int)rng_below(&x->rng, 1000) < of_1000;
}

/* buyers.c */
struct sim_ask *sim_new_ask(struct sim *x, struct item item, int64_t user);
void sim_post(struct sim *x, struct sim_ask *a);
void sim_poll(struct sim *x, struct sim_ask *a);
void sim_cancel(struct sim *x, struct sim_ask *a);
void sim_pay(struct sim *x, struct sim_ask *a);
void sim_buyers_step(struct sim *x);
void sim_on_reserved(struct reserve_pool *p, void *viewer, const struct reserve_answer *a);
void sim_on_cancel(struct send_pool *p, void *viewer, const struct send_answer *a);
void sim_on_payment(struct send_pool *p, void *viewer, const struct send_answer *a);
void sim_on_lookup(struct lookup_pool *p, void *viewer, const struct lookup_answer *a);

/* chaos.c */
void sim_chaos_step(struct sim *x);
void sim_heal(struct sim *x);

/* inquest.c: everything is healed, the rest of the stock is sold, and nothing may be wrong. */
void sim_inquest(struct sim *x);
