/* The life of one data loop: everything is made and freed on the main thread while the loop does
 * not run; in between all of it belongs to the loop's thread. */
#include "adapter/jwt/jwt.h"
#include "daemon/common/bearer.h"
#include "daemon/common/crew_jobs.h"
#include "daemon/common/program.h"
#include "daemon/common/store.h"
#include "daemon/query/query.h"
#include <stdio.h>

/* --- drain --- */

static void on_http_drained(struct http_server *s, void *arg)
{
    struct query_loop *d = arg;
    (void)s;
    /* A look-up without a viewer has nothing to finish. */
    loop_post(d->query->control.loop, &d->drained);
}

static void on_drain(struct loop_post *p)
{
    struct query_loop *d = container_of(p, struct query_loop, drain);
    /* What still comes on open connections is served: reads are cheap and harm nothing. */
    http_server_drain(d->server, loop_now_us(d->loop) + d->query->settings.drain.http_us,
                      on_http_drained, d);
}

void query_loop_drain(struct query_loop *d)
{
    loop_post(d->loop, &d->drain);
}

/* --- life --- */

static int no_memory(char *err, size_t err_cap)
{
    snprintf(err, err_cap, "no memory or descriptors for a loop");
    return ERR_OVERLOAD;
}

static int init_pool(struct query_loop *d)
{
    const struct settings *s = &d->query->settings;
    d->reporter = (struct reporter){
        .stock = d->stock, .sched = loop_sched(d->loop), .call_us = s->redis.reply_us};
    reporter_init(&d->reporter);
    d->pool = (struct lookup_pool){
        .stock = d->stock,
        .jobs = d->jobs,
        .sched = loop_sched(d->loop),
        .timeout_us = s->query.timeout_us,
        .redis_us = s->redis.reply_us,
        .fallback_after_us = s->query.fallback_after_us,
        .pg_us = s->query.pg_timeout_us,
        .pg_reads = (int)(s->query.pg_queue + s->query.pg_connections),
        .reporter = &d->reporter,
        .on_answer = requests_on_answer,
    };
    int rc = lookup_pool_init(&d->pool, serve_share(s->query.max_inflight, d->query->n_loops));
    d->pool_ready = rc == 0;
    return rc;
}

int query_loop_init(struct query_loop *d, struct query *q, int number, const char *listen,
                    char *err, size_t err_cap)
{
    const struct settings *s = &q->settings;
    d->query = q;
    d->loop = loop_new();
    if (!d->loop)
        return no_memory(err, err_cap);
    d->thread = (struct serve_thread){.loop = d->loop, .number = number};
    d->drain = (struct loop_post){.on_run = on_drain};
    d->drained = (struct loop_post){.on_run = control_on_drained};
    struct redis_stock_config stock = {.redis = store_redis_config(s, "stock")};
    d->stock = redis_stock_new(d->loop, &stock, err, err_cap);
    if (!d->stock)
        return ERR_INVALID;
    d->auth = bearer_verifier(q->keys, s);
    d->jobs = crew_jobs_share(d->loop, q->crew, q->n_orders);
    if (!d->auth || !d->jobs || init_pool(d) < 0)
        return no_memory(err, err_cap);
    d->service = (struct http_service){requests_routes, requests_n_routes};
    d->server = serve_listen(d->loop, listen, s, q->n_loops, &d->service, err, err_cap);
    return d->server ? 0 : ERR_UNAVAIL;
}

void query_loop_stop(struct query_loop *d)
{
    if (!d->loop)
        return;
    serve_thread_stop(&d->thread);
    /* First the viewers, then what they looked at: flows and loads end with the port. */
    if (d->server)
        http_server_free(d->server);
    if (d->stock)
        redis_stock_free(d->stock);
}

void query_loop_deinit(struct query_loop *d)
{
    if (!d->loop)
        return;
    loop_free(d->loop); /* takes back what the crew had */
    if (d->pool_ready)
        lookup_pool_deinit(&d->pool);
    if (d->auth)
        jwt_free(d->auth);
    crew_jobs_free(d->jobs);
}
