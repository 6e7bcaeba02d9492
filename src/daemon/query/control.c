/* The control loop: what the process does once, however many data loops it has. */
#include "base/log.h"
#include "daemon/common/crew_jobs.h"
#include "daemon/common/store.h"
#include "daemon/query/query.h"
#include <stdio.h>

static struct control *of_life(struct lifecycle *l)
{
    return container_of(l, struct control, life);
}

/* --- readiness, on the real path --- */

static const char *how(int rc)
{
    return rc < 0 ? err_name(rc) : "ok";
}

static void on_probed(struct control *c)
{
    char why[96] = "";
    if (--c->probing)
        return;
    bool redis = c->redis_rc >= 0, pg = c->pg_rc >= 0;
    c->answered |= redis || pg;
    metric_set(c->redis_up, redis);
    metric_set(c->pg_up, pg);
    if (!redis || !pg)
        snprintf(why, sizeof why, "redis: %s, postgresql: %s", how(c->redis_rc), how(c->pg_rc));
    if (c->check.running)
        admin_check_done(&c->check, redis || pg ? 0 : ERR_UNAVAIL, why);
}

static void on_redis_probed(struct op *op, int rc)
{
    struct control *c = container_of(op, struct control, redis_probe.op);
    c->redis_rc = rc;
    on_probed(c);
}

static void run_pg_probe(struct job *j, struct orders *o)
{
    struct control *c = container_of(j, struct control, pg_probe);
    c->pg_rc = o->ops->probe(o, &c->pg_ctx);
}

static void on_pg_probed(struct job *j)
{
    on_probed(container_of(j, struct control, pg_probe));
}

static void on_pg_refused(struct loop_task *t)
{
    struct control *c = container_of(t, struct control, pg_refused);
    c->pg_rc = ERR_OVERLOAD;
    on_probed(c);
}

static void probe(struct control *c)
{
    const struct settings *s = &c->query->settings;
    if (c->probing)
        return;
    c->probing = 2;
    c->redis_probe.op = (struct op){on_redis_probed, loop_now_us(c->loop) + s->redis.reply_us};
    c->stock->ops->probe(c->stock, &c->redis_probe);
    ctx_init(&c->pg_ctx, NULL, loop_now_us(c->loop) + s->pg.ping_us);
    if (c->jobs->ops->submit(c->jobs, &c->pg_probe) < 0)
        loop_defer(c->loop, &c->pg_refused);
}

static void start_check(struct admin_check *check)
{
    probe(container_of(check, struct control, check));
}

/* --- phases --- */

static bool is_started(struct lifecycle *l)
{
    struct control *c = of_life(l);
    if (!c->answered)
        probe(c);
    return c->answered;
}

static void begin_drain(struct lifecycle *l)
{
    struct query *q = of_life(l)->query;
    for (int i = 0; i < q->n_loops; i++)
        query_loop_drain(&q->loops[i]);
}

void control_on_drained(struct loop_post *p)
{
    struct query_loop *d = container_of(p, struct query_loop, drained);
    lifecycle_drained(&d->query->control.life);
}

/* --- life --- */

static int init_admin(struct control *c, char *err, size_t err_cap)
{
    const struct settings *s = &c->query->settings;
    c->check = (struct admin_check){.name = "stores", .start = start_check};
    c->checks[0] = &c->check;
    struct admin_config config = {.listen = s->query.admin_listen,
                                  .token_file = s->admin.token_file,
                                  .conf = &c->query->conf,
                                  .checks = c->checks,
                                  .n_checks = 1};
    c->admin = admin_new(c->loop, &config, err, err_cap);
    return c->admin ? 0 : ERR_UNAVAIL;
}

int control_init(struct control *c, struct query *q, char *err, size_t err_cap)
{
    static const char name[] = "seckill_query_store_up";
    static const char help[] = "whether the store answered the last readiness check";
    c->query = q;
    c->redis_up = metric_gauge(name, help, "store=\"redis\"");
    c->pg_up = metric_gauge(name, help, "store=\"postgresql\"");
    c->pg_probe = (struct job){.run = run_pg_probe, .on_done = on_pg_probed};
    list_init(&c->pg_refused.link);
    c->pg_refused.on_run = on_pg_refused;
    c->loop = loop_new();
    if (c->loop)
        c->jobs = crew_jobs_share(c->loop, q->crew, q->n_orders);
    if (!c->jobs) {
        snprintf(err, err_cap, "no memory or descriptors for a loop");
        return ERR_OVERLOAD;
    }
    struct redis_stock_config stock = {.redis = store_redis_config(&q->settings, "control")};
    c->stock = redis_stock_new(c->loop, &stock, err, err_cap);
    if (!c->stock)
        return ERR_INVALID;
    int rc = init_admin(c, err, err_cap);
    if (rc < 0)
        return rc;
    c->life = (struct lifecycle){.loop = c->loop,
                                 .admin = c->admin,
                                 .endpoints_us = q->settings.drain.endpoints_us,
                                 .n_loops = q->n_loops,
                                 .is_started = is_started,
                                 .begin_drain = begin_drain};
    return lifecycle_init(&c->life);
}

void control_run(struct control *c)
{
    lifecycle_start(&c->life);
    loop_run(c->loop);
}

void control_stop(struct control *c)
{
    if (!c->loop)
        return;
    lifecycle_deinit(&c->life);
    ctx_cancel(&c->pg_ctx);
    if (c->stock)
        redis_stock_free(c->stock);
}

void control_deinit(struct control *c)
{
    if (!c->loop)
        return;
    /* The crew has ended, so the probe has too: its completion waits in the loop's mail. */
    if (c->check.running)
        admin_check_done(&c->check, ERR_CANCELED, "stopping");
    if (c->admin)
        admin_free(c->admin);
    loop_free(c->loop);
    crew_jobs_free(c->jobs);
}
