/* The life of the process, in the design's order (section 7, drain):
 *
 *   STARTING → RUNNING ─ SIGTERM, SIGINT ─► ENDPOINTS → FINISHING → CLOSING → the end
 *                                                          └ drain.worker is over ─► CANCELED ─┘
 *
 * Whatever is given up is unacked and will be delivered again. A second signal ends the process at
 * once. */
#include "adapter/redis_stock/redis_stock.h"
#include "base/crashpoint.h"
#include "daemon/worker/daemon.h"
#include <signal.h>
#include <unistd.h>

#define START_POLL_US 20000
#define CLOSE_US 1000000

static void start_pg_probe(struct daemon *d);

/* --- drain --- */

static void end_close(struct daemon *d)
{
    if (--d->closing > 0)
        return;
    log_info("drained", LOG_I("duration_ms", (loop_now_us(d->loop) - d->drain_started_us) / 1000));
    crashpoint("worker_drained");
    loop_stop(d->loop);
}

static void on_queue_closed(struct op *op, int rc)
{
    (void)rc;
    end_close(container_of(op, struct daemon, close_queue));
}

static void on_results_closed(struct op *op, int rc)
{
    (void)rc;
    end_close(container_of(op, struct daemon, close_results));
}

static void on_idle(struct worker *w)
{
    struct daemon *d = container_of(w, struct daemon, worker);
    crashpoint("worker_drain_idle");
    d->phase = DAEMON_CLOSING;
    sched_clear(loop_sched(d->loop), &d->timer);
    worker_deinit(w);
    d->started = false;
    int64_t end_us = loop_now_us(d->loop) + CLOSE_US;
    d->close_queue = (struct op){on_queue_closed, end_us};
    d->close_results = (struct op){on_results_closed, end_us};
    d->closing = 1;
    d->closing += result_topic_close(&d->results, &d->close_results);
    event_queue_close(&d->queue, &d->close_queue);
}

static void begin_finishing(struct daemon *d)
{
    d->phase = DAEMON_FINISHING;
    log_info("draining: nothing is received any more", LOG_I("in_hand", d->worker.hand.used));
    sched_set_in(loop_sched(d->loop), &d->timer, d->settings.drain.worker_us);
    worker_stop(&d->worker, on_idle);
    crashpoint("worker_drain_begun");
}

/* Wrong credentials, a topic that is missing: it says what mends it, again and again. */
static bool queue_ready(struct daemon *d)
{
    if (event_queue_ready(&d->queue))
        return true;
    event_queue_log_waiting(&d->queue_wait, loop_now_us(d->loop), event_queue_complaint(&d->queue));
    return false;
}

static void on_time(struct timer *t)
{
    struct daemon *d = container_of(t, struct daemon, timer);
    switch (d->phase) {
    case DAEMON_STARTING:
        if (redis_stock_ready(d->worker.stock) && d->pg_answered && queue_ready(d)) {
            d->phase = DAEMON_RUNNING;
            admin_set_started(d->admin);
            log_info("started");
            return;
        }
        if (!d->pg_probing && !d->pg_answered)
            start_pg_probe(d);
        sched_set_in(loop_sched(d->loop), t, START_POLL_US);
        return;
    case DAEMON_ENDPOINTS:
        begin_finishing(d);
        return;
    case DAEMON_FINISHING:
        d->phase = DAEMON_CANCELED;
        log_warn("drain deadline exceeded: what is left will be delivered again",
                 LOG_I("in_hand", d->worker.hand.used));
        sched_set_in(loop_sched(d->loop), t, d->settings.drain.after_cancel_us);
        worker_cancel(&d->worker);
        return;
    default:
        log_error("what was cancelled did not end; ending without it");
        _exit(1);
    }
}

static void on_signal(struct loop_signal *s, int signo)
{
    struct daemon *d = signo == SIGINT ? container_of(s, struct daemon, interrupt)
                                       : container_of(s, struct daemon, term);
    if (d->phase >= DAEMON_ENDPOINTS) {
        log_warn("a second signal: ending at once", LOG_I("signal", signo));
        _exit(1);
    }
    log_info("draining: not ready, still working", LOG_I("signal", signo));
    d->drain_started_us = loop_now_us(d->loop);
    crashpoint("worker_drain_asked");
    d->phase = DAEMON_ENDPOINTS;
    admin_set_draining(d->admin);
    sched_set_in(loop_sched(d->loop), &d->timer, d->settings.drain.endpoints_us);
}

/* --- readiness, on the real path --- */

static void on_redis_probed(struct op *op, int rc)
{
    struct daemon *d = container_of(op, struct daemon, redis_probe.op);
    admin_check_done(&d->redis_check, rc, NULL);
}

static void start_redis_check(struct admin_check *check)
{
    struct daemon *d = container_of(check, struct daemon, redis_check);
    d->redis_probe.op =
        (struct op){on_redis_probed, loop_now_us(d->loop) + d->settings.redis.reply_us};
    d->worker.stock->ops->probe(d->worker.stock, &d->redis_probe);
}

static void run_pg_probe(struct share_job *j, struct orders *o)
{
    struct daemon *d = container_of(j, struct daemon, pg_probe);
    j->rc = o->ops->probe(o, &d->pg_ctx);
}

static void on_pg_probed(struct share_job *j)
{
    struct daemon *d = container_of(j, struct daemon, pg_probe);
    d->pg_probing = false;
    d->pg_answered |= j->rc >= 0;
    if (d->pg_check.running)
        admin_check_done(&d->pg_check, j->rc, NULL);
}

static void start_pg_probe(struct daemon *d)
{
    d->pg_probing = true;
    d->pg_probe =
        (struct share_job){.class = SHARE_BACK, .run = run_pg_probe, .on_done = on_pg_probed};
    ctx_init(&d->pg_ctx, &d->worker.root, loop_now_us(d->loop) + d->settings.pg.ping_us);
    share_submit(&d->worker, &d->pg_probe);
}

static void on_pg_refused(struct loop_task *t)
{
    struct daemon *d = container_of(t, struct daemon, pg_refused);
    admin_check_done(&d->pg_check, ERR_CANCELED, "draining");
}

static void start_pg_check(struct admin_check *check)
{
    struct daemon *d = container_of(check, struct daemon, pg_check);
    if (d->phase >= DAEMON_FINISHING)
        loop_defer(d->loop, &d->pg_refused);
    else if (!d->pg_probing)
        start_pg_probe(d);
}

/* Whether all that is for sale is served: degraded if not, since the rest still is. */
static void on_catalog_told(struct loop_task *t)
{
    struct daemon *d = container_of(t, struct daemon, catalog_told);
    admin_check_done(&d->catalog_check, 0, d->started ? catalog_complaint(&d->worker) : NULL);
}

static void start_catalog_check(struct admin_check *check)
{
    struct daemon *d = container_of(check, struct daemon, catalog_check);
    loop_defer(d->loop, &d->catalog_told);
}

/* Without it nothing is received. What it complains of while it works is told as degraded. */
static void on_queue_told(struct loop_task *t)
{
    struct daemon *d = container_of(t, struct daemon, queue_told);
    bool ready = event_queue_ready(&d->queue);
    const char *why = event_queue_complaint(&d->queue);
    admin_check_done(&d->queue_check, ready ? 0 : ERR_UNAVAIL, why);
}

static void start_queue_check(struct admin_check *check)
{
    struct daemon *d = container_of(check, struct daemon, queue_check);
    loop_defer(d->loop, &d->queue_told);
}

/* Nobody waits for it: never more than degraded. */
static void on_results_told(struct loop_task *t)
{
    struct daemon *d = container_of(t, struct daemon, results_told);
    admin_check_done(&d->results_check, 0, result_topic_complaint(&d->results));
}

static void start_results_check(struct admin_check *check)
{
    struct daemon *d = container_of(check, struct daemon, results_check);
    loop_defer(d->loop, &d->results_told);
}

/* --- life --- */

int control_init(struct daemon *d, char *err, size_t err_cap)
{
    d->redis_check = (struct admin_check){.name = "redis", .start = start_redis_check};
    d->pg_check = (struct admin_check){.name = "postgresql", .start = start_pg_check};
    d->checks[0] = &d->redis_check;
    d->catalog_check = (struct admin_check){.name = "catalog", .start = start_catalog_check};
    d->checks[1] = &d->pg_check;
    d->checks[2] = &d->catalog_check;
    d->queue_check = (struct admin_check){.name = "queue", .start = start_queue_check};
    d->checks[3] = &d->queue_check;
    d->results_check = (struct admin_check){.name = "results", .start = start_results_check};
    d->checks[4] = &d->results_check;
    list_init(&d->results_told.link);
    d->results_told.on_run = on_results_told;
    list_init(&d->queue_told.link);
    d->queue_told.on_run = on_queue_told;
    list_init(&d->pg_refused.link);
    d->pg_refused.on_run = on_pg_refused;
    list_init(&d->catalog_told.link);
    d->catalog_told.on_run = on_catalog_told;
    d->timer.on_fire = on_time;
    struct admin_config config = {.listen = d->settings.worker.admin_listen,
                                  .token_file = d->settings.admin.token_file,
                                  .conf = &d->conf,
                                  .checks = d->checks,
                                  /* the store's own queue is asked by the store's check */
                                  .n_checks = event_queue_is_stores(&d->settings) ? 3 : 5};
    d->admin = admin_new(d->loop, &config, err, err_cap);
    if (!d->admin)
        return ERR_UNAVAIL;
    d->term.on_signal = d->interrupt.on_signal = on_signal;
    int rc = loop_signal_add(d->loop, &d->term, SIGTERM);
    return rc < 0 ? rc : loop_signal_add(d->loop, &d->interrupt, SIGINT);
}

void control_run(struct daemon *d)
{
    worker_start(&d->worker);
    d->started = true;
    sched_set_in(loop_sched(d->loop), &d->timer, 0);
    loop_run(d->loop);
}

void control_deinit(struct daemon *d)
{
    if (d->pg_check.running) {
        loop_defer_cancel(&d->pg_refused);
        on_pg_refused(&d->pg_refused);
    }
    if (d->catalog_check.running) {
        loop_defer_cancel(&d->catalog_told);
        on_catalog_told(&d->catalog_told);
    }
    if (d->queue_check.running) {
        loop_defer_cancel(&d->queue_told);
        on_queue_told(&d->queue_told);
    }
    if (d->results_check.running) {
        loop_defer_cancel(&d->results_told);
        on_results_told(&d->results_told);
    }
    if (d->admin)
        admin_free(d->admin);
    loop_signal_remove(d->loop, &d->term);
    loop_signal_remove(d->loop, &d->interrupt);
}
