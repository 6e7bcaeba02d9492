/* A worker on the virtual clock with the fakes of every port, and a trace of the calls that change
 * something: "progress 3 | place 1,2,3 | settle 3 | ack 3 | mark 3". A result other than 0 follows
 * as "=ERR_…". Calls repeated by the clock alone (items, lag, pending, beat, empty sweeps) are not
 * in it. */
#pragma once

/* cmocka wants these first */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "adapter/mem/mem_clock.h"
#include "adapter/mem/mem_jobs.h"
#include "adapter/mem/mem_queue.h"
#include "adapter/mem/mem_results.h"
#include "adapter/mem/mem_stock.h"
#include "app/worker.h"

#define MS INT64_C(1000)
#define S (1000 * MS)
#define ITEM ((struct item){1001, 2001})
#define ITEM_2 ((struct item){1001, 2002})

struct world {
    struct sched sched;
    struct mem_broker *broker;
    struct stock *stock, *buyers; /* the worker's port; the test's own */
    struct mem_db *db;
    struct queue *queue;
    struct jobs *jobs;
    struct results *results; /* of a worker with cfg.results_batch */
    struct jobs *upkeep;     /* the same */
    struct worker *w;
    struct worker_config cfg; /* of the next worker; results_batch 0: neither results nor upkeep */
    int lives;
    bool idle;
    struct strbuf trace;
    int most_in_hand;
    int64_t again_for; /* the order function says AGAIN for this user, that often */
    int again_times;
    int lags;    /* how often the backlog was asked for */
    int surplus; /* receive is asked for that many more than the worker asked */
};

void world_init(struct world *x, int64_t units); /* ITEM and ITEM_2 with as many units; no worker */
/* On another queue; its sched is filled in. */
void world_init_on(struct world *x, int64_t units, struct mem_broker_config queue);
void world_start_now(struct world *x);
void world_start(struct world *x); /* a worker, by x->cfg */
/* The drain: stops the worker and waits until all in hand is finished. */
void world_stop(struct world *x);
/* The process dies: nothing it does from now on has an effect; its leases stay until they end. */
void world_die(struct world *x);
void world_deinit(struct world *x); /* after world_stop or world_die */
void world_run(struct world *x, int64_t us);
/* A user reserves a unit of the item; the event goes to its stream in the same call. */
void world_reserve(struct world *x, struct item item, int64_t user);
/* An event without a reservation, straight to the stream; its ids derive from the user. */
void world_post(struct world *x, struct item item, int64_t user);
/* The body of the user's event, for posting it again. */
void world_post_again(struct world *x, struct item item, int64_t user);
/* Reserves, and half a second later has the order; the trace is empty then. */
void world_buy(struct world *x, struct item item, int64_t user);
/* The user's cancel (EVENT_CANCEL) or payment to the item's stream. */
void world_command(struct world *x, struct item item, int64_t user, enum event_command command);
/* What the API leaves in Redis of a command that the queue accepted; and some body there. */
void world_accepted(struct world *x, struct item item, int64_t user, enum event_command command);
void world_remember(struct world *x, struct item item, struct str body);
int64_t world_order_id(struct item item, int64_t user); /* of the order that the user gets */
struct event world_event(struct world *x, struct item item, int64_t user);
struct uuid world_message_id(struct world *x, struct item item, int64_t user);
/* What the buyer sees: "SUCCEEDED", "REJECTED/VOID"… */
const char *world_state(struct world *x, struct item item, int64_t user);
/* The trace since the last call of it. */
const char *world_trace(struct world *x);
/* Nothing waits, nothing in hand, nothing unsettled, the database is right, stock + held = total.
 */
void world_assert_clean(struct world *x);
/* Two seconds later all is clean, and the world ends. */
void world_end_clean(struct world *x);
/* A consumer takes everything `times` times and dies with it. */
void world_deliver_in_vain(struct world *x, int times);
