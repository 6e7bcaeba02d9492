/* What goes wrong, as the seed has it. */
#include "simulation.h"

static const enum mem_fault_kind kinds[] = {MEM_FAULT_NOT_DONE,     MEM_FAULT_REPLY_LOST,
                                            MEM_FAULT_REQUEST_LOST, MEM_FAULT_REPLY_LATE,
                                            MEM_FAULT_HELD_BACK,    MEM_FAULT_TWICE};

static void add(struct sim *x, struct mem_faults *f, int ops)
{
    enum mem_fault_kind kind = kinds[rng_below(&x->rng, sizeof kinds / sizeof kinds[0])];
    int op = (int)rng_below(&x->rng, (uint64_t)ops), k = (int)rng_below(&x->rng, 5);
    int64_t delay_us = (int64_t)rng_below(&x->rng, sim_chance(x, 100) ? 8 * S : 300 * MS);
    if (f->n == MEM_FAULTS_MAX)
        mem_faults_clear(f, -1);
    mem_faults_add(f, op, k, kind, delay_us); /* k 0: until it is healed */
}

static struct mem_faults *orders_of(struct sim *x, struct jobs *j)
{
    return mem_orders_faults(mem_jobs_orders(j, (int)rng_below(&x->rng, (uint64_t)j->threads)));
}

static void a_call_goes_wrong(struct sim *x)
{
    struct sim_api *api = &x->apis[rng_below(&x->rng, SIM_APIS)];
    struct sim_worker *k = &x->workers[rng_below(&x->rng, SIM_WORKERS)];
    switch (rng_below(&x->rng, 8)) {
    case 0:
    case 1:
        if (api->alive)
            add(x, mem_stock_faults(api->stock), MEM_STOCK_OPS);
        break;
    case 2:
        if (api->alive)
            add(x, mem_queue_faults(api->queue), MEM_QUEUE_OPS);
        break;
    case 3:
        if (k->w)
            add(x, mem_stock_faults(k->stock), MEM_STOCK_OPS);
        break;
    case 4:
        if (k->w)
            add(x, mem_queue_faults(k->queue), MEM_QUEUE_OPS);
        break;
    case 5:
    case 6:
        if (k->w)
            add(x, orders_of(x, k->jobs), MEM_ORDERS_OPS);
        break;
    default:
        if (sim_chance(x, 500))
            add(x, mem_stock_faults(x->query.stock), MEM_STOCK_OPS);
        else
            add(x, orders_of(x, x->query.jobs), MEM_ORDERS_OPS);
    }
}

void sim_heal(struct sim *x)
{
    for (int i = 0; i < SIM_APIS; i++) {
        if (!x->apis[i].alive)
            continue;
        mem_faults_clear(mem_stock_faults(x->apis[i].stock), -1);
        mem_faults_clear(mem_stock_faults(x->apis[i].control), -1);
        mem_faults_clear(mem_queue_faults(x->apis[i].queue), -1);
    }
    for (int i = 0; i < SIM_WORKERS; i++) {
        struct sim_worker *k = &x->workers[i];
        if (!k->w)
            continue;
        mem_faults_clear(mem_stock_faults(k->stock), -1);
        mem_faults_clear(mem_queue_faults(k->queue), -1);
        mem_jobs_clear_faults(k->jobs);
    }
    mem_faults_clear(mem_stock_faults(x->query.stock), -1);
    mem_jobs_clear_faults(x->query.jobs);
}

static void redis_is_flushed(struct sim *x)
{
    sim_say(x, "Redis is flushed");
    x->redis_lost = true;
    for (int i = 0; i < SIM_ITEMS; i++) {
        mem_stock_lose_item(x->stock, x->items[i]);
        if (!x->plan.own_broker)
            mem_broker_wipe(x->broker, x->items[i]);
    }
    mem_stock_unlist_all(x->stock);
}

/* A snapshot comes back, or the replica that lacks the last writes. Where the queue is Redis's, it
 * is left as it is: it only knows more than it should. */
static void redis_goes_back(struct sim *x)
{
    if (!x->backup)
        return;
    sim_say(x, "Redis goes back to an older state");
    x->redis_lost = true;
    mem_stock_restore(x->stock, x->backup);
    for (int i = 0; i < SIM_APIS; i++) {
        if (x->apis[i].alive)
            mem_stock_reconnect(x->apis[i].stock);
    }
}

/* A standby that lacks some of the last orders is promoted. */
static void postgresql_loses(struct sim *x)
{
    x->pg_lost = true;
    for (int i = 0; i < x->n_asks; i++) {
        struct sim_ask *a = &x->asks[i];
        if (a->order_id && sim_chance(x, 300) && mem_db_lose_order(x->db, a->order_id) == 0)
            sim_say(x, "PostgreSQL loses the order of user %lld sku %lld", (long long)a->user,
                    (long long)a->item.sku_id);
    }
    mem_db_promote(x->db);
}

static void something_dies_or_comes(struct sim *x)
{
    int i = (int)rng_below(&x->rng, SIM_WORKERS), j = (int)rng_below(&x->rng, SIM_APIS);
    if (sim_chance(x, 200)) { /* nobody works for a while */
        for (int k = 0; k < SIM_WORKERS; k++) {
            if (x->workers[k].w)
                sim_kill_worker(x, k);
        }
    } else if (sim_chance(x, 500)) {
        if (x->workers[i].w)
            sim_kill_worker(x, i);
        else
            sim_start_worker(x, i);
    } else if (x->apis[j].alive) {
        sim_kill_api(x, j);
    } else {
        sim_start_api(x, j);
    }
}

static void something_is_lost(struct sim *x)
{
    if (x->plan.queue_loses && sim_chance(x, 400)) {
        sim_say(x, "the queue loses what it has");
        x->queue_lost = true;
        for (int i = 0; i < SIM_ITEMS; i++)
            mem_broker_wipe(x->broker, x->items[i]);
    } else if (x->plan.redis_loses && sim_chance(x, 400)) {
        redis_is_flushed(x);
    } else if (x->plan.redis_loses && sim_chance(x, 600)) {
        redis_goes_back(x);
    } else if (x->plan.pg_loses && sim_chance(x, 500)) {
        postgresql_loses(x);
    }
}

void sim_chaos_step(struct sim *x)
{
    int what = (int)rng_below(&x->rng, 1000);
    if (what < 250) {
        a_call_goes_wrong(x);
    } else if (what < 330) {
        sim_heal(x);
    } else if (what < 380) {
        something_dies_or_comes(x);
    } else if (what < 405) {
        something_is_lost(x);
    } else if (what < 415) {
        mem_stock_snapshot_free(x->backup);
        x->backup = mem_stock_snapshot(x->stock);
    } else if (what < 430) {
        mem_broker_expire_all(x->broker); /* whoever has something in hand slept too long */
    }
}
