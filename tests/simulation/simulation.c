#include "simulation.h"

#include "worker_defaults.h"
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* --- telling --- */

void sim_say(struct sim *x, const char *format, ...)
{
    if (!x->talk)
        return;
    int64_t at = x->sched.now_us - MEM_CLOCK_START_US;
    va_list args;
    va_start(args, format);
    printf("%4lld.%03lld  ", (long long)(at / S), (long long)(at % S / MS));
    vprintf(format, args);
    putchar('\n');
    va_end(args);
}

void sim_wrong(struct sim *x, const char *format, ...)
{
    char text[sizeof x->wrong_text];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    sim_say(x, "WRONG: %s", text);
    if (*x->wrong)
        return;
    memcpy(x->wrong_text, text, sizeof text);
    x->wrong = x->wrong_text;
}

/* --- APIs --- */

static void on_sold_out(struct hints *h, struct item item, struct item_version v)
{
    hint_loader_sold_out(&container_of(h, struct sim_api, hints)->loader, item, v);
}

static void on_set(struct hint_loader *l, struct hint_set *set)
{
    struct sim_api *a = container_of(l, struct sim_api, loader);
    hints_install(&a->hints, set, a->x->sched.now_us);
}

static void on_news(struct hint_loader *l, struct item item, struct item_version v)
{
    struct sim_api *a = container_of(l, struct sim_api, loader);
    hints_heard(&a->hints, item, v);
    past_heard(&a->past, item, v);
}

static void on_off(struct hint_loader *l)
{
    hints_off(&container_of(l, struct sim_api, loader)->hints);
}

static void init_pools(struct sim_api *a)
{
    struct sim *x = a->x;
    a->pool = (struct reserve_pool){.stock = a->stock,
                                    .queue = x->plan.own_broker ? a->queue : NULL,
                                    .sched = &x->sched,
                                    .ids = &a->ids,
                                    .rng = &a->rng,
                                    .budget = &a->budget,
                                    .hints = &a->hints,
                                    .past = &a->past,
                                    .reporter = &a->reporter,
                                    .submit_us = 90 * MS,
                                    .try_us = x->plan.own_broker ? 25 * MS : 65 * MS,
                                    .target_us = S,
                                    .strict = x->plan.strict,
                                    .publish_us = 40 * MS,
                                    .send_us = 500 * MS,
                                    .store_us = 60 * MS,
                                    .on_answer = sim_on_reserved};
    struct send_pool send = {.stock = a->stock,
                             .queue = a->queue,
                             .sched = &x->sched,
                             .budget_us = 200 * MS,
                             .store_us = 60 * MS,
                             .most = 1000};
    a->cancels = a->payments = send;
    a->cancels.label = "cancel";
    a->cancels.on_answer = sim_on_cancel;
    a->payments.label = "pay";
    a->payments.on_answer = sim_on_payment;
    if (reserve_pool_init(&a->pool, 32) || send_pool_init(&a->cancels, 8) ||
        send_pool_init(&a->payments, 8))
        abort();
}

void sim_start_api(struct sim *x, int i)
{
    struct sim_api *a = &x->apis[i];
    char name[32];
    snprintf(name, sizeof name, "api-%d", ++x->api_lives);
    *a = (struct sim_api){.x = x, .alive = true};
    a->stock = mem_stock_another(x->stock);
    a->control = mem_stock_another(x->stock);
    a->queue = mem_queue_new(x->broker, name, 1);
    order_id_init(&a->ids);
    order_id_grant(&a->ids, x->api_lives % ORDER_ID_INSTANCES, 0, INT64_MAX);
    rng_init_seed(&a->rng, x->plan.seed * 1000 + (uint64_t)x->api_lives);
    retry_budget_init(&a->budget, 5, 10, x->sched.now_us);
    a->hints.on_sold_out = on_sold_out;
    hints_init(&a->hints);
    past_init(&a->past);
    a->reporter = (struct reporter){.stock = a->stock, .sched = &x->sched, .call_us = 60 * MS};
    reporter_init(&a->reporter);
    a->loader = (struct hint_loader){.stock = a->control,
                                     .sched = &x->sched,
                                     .rng = &a->rng,
                                     .call_us = 60 * MS,
                                     .max_buyers = 100000,
                                     .on_set = on_set,
                                     .on_news = on_news,
                                     .on_off = on_off};
    hint_loader_init(&a->loader);
    mem_stock_news_start(a->control, &a->loader.news);
    a->catalogue =
        (struct catalogue_watch){.stock = a->control, .sched = &x->sched, .call_us = 60 * MS};
    catalogue_watch_start(&a->catalogue);
    init_pools(a);
    sim_say(x, "%s starts", name);
}

/* From now on nothing of its calls has an effect, or is heard of. */
static void cut_off(struct stock *s, struct queue *q)
{
    for (int op = 0; op < MEM_STOCK_OPS; op++)
        mem_faults_add(mem_stock_faults(s), op, 0, MEM_FAULT_REQUEST_LOST, 0);
    for (int op = 0; q && op < MEM_QUEUE_OPS; op++) {
        if (op != MEM_QUEUE_RECEIVE)
            mem_faults_add(mem_queue_faults(q), op, 0, MEM_FAULT_REQUEST_LOST, 0);
    }
}

void sim_kill_api(struct sim *x, int i)
{
    struct sim_api *a = &x->apis[i];
    sim_say(x, "api %d is killed", i);
    a->alive = false;
    mem_faults_clear(mem_stock_faults(a->stock), -1);
    mem_faults_clear(mem_stock_faults(a->control), -1);
    mem_faults_clear(mem_queue_faults(a->queue), -1);
    cut_off(a->stock, a->queue);
    cut_off(a->control, NULL);
    mem_stock_news_stop(a->control, &a->loader.news);
    hint_loader_stop(&a->loader);
    catalogue_watch_stop(&a->catalogue);
    mem_queue_free(a->queue);
    mem_stock_free(a->stock);
    mem_stock_free(a->control);
    reserve_pool_deinit(&a->pool);
    send_pool_deinit(&a->cancels);
    send_pool_deinit(&a->payments);
    hint_loader_deinit(&a->loader);
    hints_deinit(&a->hints);
}

/* --- workers --- */

static int64_t wall_us(struct worker *w)
{
    return mem_clock_wall_us(w->sched);
}

void sim_start_worker(struct sim *x, int i)
{
    struct sim_worker *k = &x->workers[i];
    struct worker *w = calloc(1, sizeof *w);
    char name[32];
    snprintf(name, sizeof name, "life-%d", ++x->lives);
    *k = (struct sim_worker){.x = x, .w = w};
    w->cfg = worker_defaults();
    w->cfg.poll_us = 700 * MS;
    w->cfg.recover_after_us = 2 * S;
    w->cfg.max_hold_us = SIM_MAX_HOLD_US;
    w->cfg.reconcile_interval_us = 2 * S;
    w->cfg.rebuild_drain_us = 2 * S;
    k->stock = mem_stock_another(x->stock);
    k->queue = mem_queue_new(x->broker, name, w->cfg.workers + w->cfg.queue);
    k->jobs = mem_jobs_new(x->db, &x->sched, 3, 16);
    w->sched = &x->sched;
    w->wall_us = wall_us;
    w->queue = k->queue;
    w->stock = k->stock;
    w->jobs = k->jobs;
    snprintf(w->life, sizeof w->life, "%s", name);
    worker_init(w);
    rng_init_seed(&w->rng, x->plan.seed * 1000 + 500 + (uint64_t)x->lives);
    worker_start(w);
    sim_say(x, "worker %s starts", name);
}

static struct sim *stopping; /* whose workers are: on_idle has no room for more */

static void on_idle(struct worker *w)
{
    for (int i = 0; i < SIM_WORKERS; i++) {
        if (stopping->workers[i].w == w)
            stopping->workers[i].idle = true;
    }
}

void sim_kill_worker(struct sim *x, int i)
{
    struct sim_worker *k = &x->workers[i];
    sim_say(x, "worker %d is killed", i);
    mem_faults_clear(mem_stock_faults(k->stock), -1);
    mem_faults_clear(mem_queue_faults(k->queue), -1);
    cut_off(k->stock, k->queue);
    mem_jobs_clear_faults(k->jobs);
    for (int op = 0; op < MEM_ORDERS_OPS; op++)
        mem_jobs_fault_all(k->jobs, op, 0, MEM_FAULT_REQUEST_LOST, 0);
    stopping = x;
    k->idle = false;
    worker_stop(k->w, on_idle);
    worker_cancel(k->w);
    if (!mem_clock_run_while(&x->sched, &k->idle, x->sched.now_us + 30 * S))
        sim_wrong(x, "a worker that is killed does not come to rest");
    worker_deinit(k->w);
    free(k->w);
    k->w = NULL;
    mem_jobs_free(k->jobs);
    mem_queue_free(k->queue);
    mem_stock_free(k->stock);
}

/* --- the world --- */

struct sim_plan sim_plan_of(uint64_t seed)
{
    struct rng r;
    rng_init_seed(&r, seed);
    return (struct sim_plan){.seed = seed,
                             .own_broker = rng_below(&r, 2),
                             .strict = rng_below(&r, 3) == 0,
                             .redis_loses = rng_below(&r, 3) == 0,
                             .pg_loses = rng_below(&r, 4) == 0,
                             .queue_loses = rng_below(&r, 3) == 0,
                             .steps = 100 + (int)rng_below(&r, 300),
                             .units = 1 + (int64_t)rng_below(&r, 12)};
}

void sim_init(struct sim *x, const struct sim_plan *plan)
{
    *x = (struct sim){.plan = *plan, .wrong = "", .items = {{1001, 2001}, {1001, 2002}}};
    rng_init_seed(&x->rng, plan->seed ^ 0x5eed);
    sched_init(&x->sched, MEM_CLOCK_START_US);
    x->broker = mem_broker_new(&(struct mem_broker_config){
        .sched = &x->sched, .lease_us = 3 * S, .shared = plan->own_broker});
    x->stock = mem_stock_new(&(struct mem_stock_config){
        .sched = &x->sched, .stream = plan->own_broker ? NULL : x->broker});
    x->db = mem_db_new(&x->sched, 0);
    for (int i = 0; i < SIM_ITEMS; i++) {
        mem_stock_put_item(x->stock, x->items[i], plan->units);
        mem_db_put_item(x->db, x->items[i], plan->units, 1);
    }
    for (int i = 0; i < SIM_APIS; i++)
        sim_start_api(x, i);
    for (int i = 0; i < SIM_WORKERS; i++)
        sim_start_worker(x, i);
    x->query.stock = mem_stock_another(x->stock);
    x->query.jobs = mem_jobs_new(x->db, &x->sched, 2, 16);
    x->query.reporter =
        (struct reporter){.stock = x->query.stock, .sched = &x->sched, .call_us = 60 * MS};
    reporter_init(&x->query.reporter);
    x->query.pool = (struct lookup_pool){.stock = x->query.stock,
                                         .jobs = x->query.jobs,
                                         .sched = &x->sched,
                                         .timeout_us = 500 * MS,
                                         .redis_us = 60 * MS,
                                         .fallback_after_us = 2000 * MS,
                                         .pg_us = 400 * MS,
                                         .pg_reads = 16,
                                         .reporter = &x->query.reporter,
                                         .on_answer = sim_on_lookup};
    if (lookup_pool_init(&x->query.pool, 64))
        abort();
    sim_run(x, 50 * MS);
}

void sim_deinit(struct sim *x)
{
    for (int i = 0; i < SIM_WORKERS; i++) {
        if (x->workers[i].w)
            sim_kill_worker(x, i);
    }
    for (int i = 0; i < SIM_APIS; i++) {
        if (x->apis[i].alive)
            sim_kill_api(x, i);
    }
    sim_run(x, 2 * S); /* what the query-api has under way */
    mem_stock_free(x->query.stock);
    lookup_pool_deinit(&x->query.pool);
    mem_jobs_free(x->query.jobs);
    mem_stock_snapshot_free(x->backup);
    mem_stock_free(x->stock);
    mem_broker_free(x->broker);
    mem_db_free(x->db);
    sched_deinit(&x->sched);
}

void sim_run(struct sim *x, int64_t us)
{
    mem_clock_run_for(&x->sched, us);
}
