#include "adapter/pg/pg.h"
#include "adapter/redis_stock/redis_stock.h"
#include "base/clock.h"
#include "base/streams.h"
#include "daemon/common/crew_jobs.h"
#include "daemon/common/program.h"
#include "daemon/common/store.h"
#include "daemon/worker/daemon.h"
#include <signal.h>
#include <stdio.h>
#include <time.h>

#define PROGRAM "order-worker"
#define WAIT_FOR_PG_US 30000000
#define FOREIGN_MARGIN_US 2000000

static const char usage[] =
    "usage: order-worker [--config FILE] [--ports-file FILE] [--SETTING VALUE…]\n"
    "Writes the accepted requests' orders; recovers what got lost on the way.\n"
    "  --ports-file FILE  writes \"admin=PORT\" there when it listens\n";

static int64_t wall_us(struct worker *w)
{
    return loop_wall_us(container_of(w, struct daemon, worker)->loop);
}

/* The database may still be starting, or be migrated just now. */
static int check_schema(const struct settings *s)
{
    char err[1024];
    int64_t until = clock_mono_us() + WAIT_FOR_PG_US;
    for (;;) {
        int rc = pg_check_schema(s->pg.conninfo, err, sizeof err);
        if (rc == 0)
            return 0;
        if (clock_mono_us() >= until)
            return program_fail("PostgreSQL cannot be used", err);
        log_warn("waiting for PostgreSQL", LOG_Z("why", err));
        nanosleep(&(struct timespec){.tv_nsec = 500000000}, NULL);
    }
}

/* A message may be worked on until its lease ends, less this. Where another clock than ours judges
 * the lease, two seconds are the least. */
static void fit_lease_margin(struct worker_config *c, const struct settings *s)
{
    int64_t lease_us = event_queue_lease_us(s);
    if (!event_queue_is_stores(s) && c->lease_margin_us < FOREIGN_MARGIN_US)
        c->lease_margin_us = FOREIGN_MARGIN_US;
    if (c->lease_margin_us > lease_us / 2) {
        c->lease_margin_us = lease_us / 4;
        log_warn("worker.lease_margin is more than half of the queue's lease: a quarter is used",
                 LOG_I("margin_ms", c->lease_margin_us / 1000));
    }
}

static struct worker_config config_of(const struct settings *s)
{
    struct worker_config c = {
        .workers = (int)s->worker.workers,
        .queue = (int)s->worker.queue,
        .receive_max = (int)s->worker.receive_max,
        .batch_max = (int)s->worker.batch_max,
        .batch_target_us = s->worker.batch_target_us,
        .max_attempts = (int)s->worker.max_attempts,
        .poll_us = s->worker.poll_us,
        .backoff_min_us = s->worker.backoff_min_us,
        .backoff_max_us = s->worker.backoff_max_us,
        .tx_budget_us = s->worker.tx_budget_us,
        .retry_base_us = s->worker.retry_base_us,
        .retry_max_us = s->worker.retry_max_us,
        .tx_attempts = (int)s->worker.tx_attempts,
        .retry_percent = (int)s->worker.retry_percent,
        .retry_floor = (int)s->worker.retry_floor,
        .ack_attempts = (int)s->worker.ack_attempts,
        .ack_base_us = s->worker.ack_base_us,
        .ack_max_us = s->worker.ack_max_us,
        .store_us = s->worker.store_us,
        .redeliver_base_us = s->worker.redeliver_base_us,
        .redeliver_max_us = s->worker.redeliver_max_us,
        .lease_margin_us = s->worker.lease_margin_us,
        .breaker_threshold = (int)s->worker.breaker_threshold,
        .breaker_cooldown_us = s->worker.breaker_cooldown_us,
        .probe_us = s->pg.ping_us,
        .relay_after_us = s->worker.relay_after_us,
        .relay_interval_us = s->worker.relay_interval_us,
        .relay_batch = (int)s->worker.relay_batch,
        .recover_after_us = s->worker.recover_after_us,
        .recover_interval_us = s->worker.recover_interval_us,
        .recover_unknown_age_us = s->worker.recover_unknown_age_us,
        .reconcile_interval_us = s->reconcile.interval_us,
        .reconcile_rate = (int)s->reconcile.rate,
        .reconcile_mend = s->reconcile.mend,
        .recover_rate = (int)s->worker.recover_rate,
        .max_republish = (int)s->worker.max_republish,
        .max_hold_us = s->worker.max_hold_us,
        .quarantine_hold_us = s->worker.quarantine_hold_us,
        .unpaid_us = s->order.unpaid_us,
        .parked_give_up_us = s->order.parked_give_up_us,
        .results_interval_us = s->results.interval_us,
        .results_batch = (int)s->results.batch,
        .retain_after_us = s->retention.after_us,
        .retain_strays_us = s->retention.strays_us,
        .retain_interval_us = s->retention.interval_us,
        .retain_idle_us = s->retention.idle_us,
        .retain_batch = s->retention.enabled ? (int)s->retention.batch : 0,
        .items_refresh_us = s->worker.items_refresh_us,
        .rebuild_drain_us = s->worker.rebuild_drain_us,
        .max_items = (int)s->worker.max_items,
    };
    fit_lease_margin(&c, s);
    if (c.batch_target_us > c.tx_budget_us / 2)
        c.batch_target_us = c.tx_budget_us / 2;
    return c;
}

static void name_life(struct worker *w)
{
    unsigned char random[16];
    rng_secret(random, sizeof random);
    for (int i = 0; i < 16; i++)
        snprintf(w->life + 2 * i, 3, "%02x", random[i]);
}

static int open_ports(struct daemon *d)
{
    const struct settings *s = &d->settings;
    struct worker *w = &d->worker;
    char err[1024] = "no memory", consumer[128];
    struct redis_stock_config stock = {.redis = store_redis_config(s, "stock"),
                                       .stream_queue = event_queue_is_stores(s)};
    w->stock = redis_stock_new(d->loop, &stock, err, sizeof err);
    if (!w->stock)
        return program_fail("the stock cannot be opened", err);
    snprintf(consumer, sizeof consumer, "%.90s-%.12s", s->instance, w->life);
    struct event_queue_config queue = {.use = EVENT_QUEUE_CONSUME,
                                       .consumer = consumer,
                                       .max_in_hand = (int)(s->worker.workers + s->worker.queue)};
    if (event_queue_init(&d->queue, d->loop, s, &queue, err, sizeof err) < 0)
        return program_fail("the queue cannot be opened", err);
    w->queue = d->queue.port;
    if (result_topic_init(&d->results, d->loop, s, err, sizeof err) < 0)
        return program_fail("the result topic cannot be opened", err);
    w->results = d->results.port;
    struct pg_config pg = {.conninfo = s->pg.conninfo,
                           .connect_us = s->pg.connect_us,
                           .lifetime_us = s->pg.lifetime_us,
                           .lifetime_jitter_us = s->pg.lifetime_jitter_us,
                           .application = PROGRAM};
    int n = (int)s->pg.connections < DAEMON_CREW_MAX ? (int)s->pg.connections : DAEMON_CREW_MAX;
    while (d->n_orders < n) {
        struct orders *o = pg_orders_new(&pg);
        if (!o)
            return program_fail("the orders cannot be opened", "no memory");
        d->orders[d->n_orders++] = o;
    }
    if (w->results || s->retention.enabled) {
        d->upkeep = pg_orders_new(&pg);
        w->upkeep = crew_jobs_new(d->loop, &d->upkeep, 1);
        if (!w->upkeep)
            return program_fail("the crew cannot start", "no threads");
    }
    w->jobs = crew_jobs_new(d->loop, d->orders, n);
    return w->jobs ? 0 : program_fail("the crew cannot start", "no threads");
}

static int start(struct daemon *d)
{
    char err[1024] = "no descriptors or memory";
    const struct settings *s = &d->settings;
    struct worker *w = &d->worker;
    if (store_check_durability(s) || check_schema(s))
        return 1;
    d->loop = loop_new();
    if (!d->loop)
        return program_fail("the loop cannot start", err);
    w->cfg = config_of(s);
    w->sched = loop_sched(d->loop);
    w->wall_us = wall_us;
    name_life(w);
    int rc = open_ports(d);
    if (rc == 0 && control_init(d, err, sizeof err) < 0)
        rc = program_fail("the admin port cannot be opened", err);
    if (rc)
        return rc;
    int port = admin_port(d->admin);
    struct program_port ports[] = {{"admin", port}};
    log_info("listening", LOG_I("admin_port", port), LOG_I("connections", d->n_orders),
             LOG_I("in_hand_max", w->cfg.workers + w->cfg.queue), LOG_Z("life", w->life));
    if (d->ports_file && program_write_ports(d->ports_file, ports, 1, err, sizeof err) < 0)
        return program_fail("the ports file cannot be written", err);
    worker_init(w);
    return 0;
}

/* Clients first, the admin port last. */
static void end(struct daemon *d)
{
    event_queue_deinit(&d->queue);
    result_topic_deinit(&d->results);
    if (d->worker.stock)
        redis_stock_free(d->worker.stock);
    crew_jobs_free(d->worker.jobs);
    crew_jobs_free(d->worker.upkeep);
    pg_orders_free(d->upkeep);
    for (int i = 0; i < d->n_orders; i++)
        pg_orders_free(d->orders[i]);
    if (d->loop) {
        control_deinit(d);
        loop_free(d->loop);
    }
    conf_deinit(&d->conf);
}

int main(int argc, char **argv)
{
    static struct daemon daemon; /* large: the flows' pages */
    streams_hold();
    signal(SIGPIPE, SIG_IGN);
    daemon.ports_file = program_take_option(&argc, argv, "--ports-file");
    int rc = settings_load(&daemon.settings, &daemon.conf, &argc, argv, PROGRAM, usage);
    if (rc >= 0) {
        conf_deinit(&daemon.conf);
        return rc;
    }
    rc = program_no_more(argc, argv, PROGRAM);
    if (rc == 0)
        rc = start(&daemon);
    if (rc == 0)
        control_run(&daemon);
    end(&daemon);
    if (rc == 0)
        log_info("stopped");
    return rc;
}
