/* The life of one data loop: everything is made and freed on the main thread while the loop does
 * not run; in between all of it belongs to the loop's thread. */
#include "daemon/api/api.h"

#include "adapter/jwt/jwt.h"
#include <signal.h>
#include <stdio.h>

static const struct http_route routes[] = {{"POST", "/v1/orders", "orders", orders_on_request}};

/* A share of a bound of the process. */
static int share(int64_t whole, int n)
{
    return (int)((whole + n - 1) / n);
}

/* --- hints --- */

static void on_sold_out(struct hints *h, struct item item, struct item_version v)
{
    struct data_loop *d = container_of(h, struct data_loop, hints);
    hint_mailbox_put(&d->api->control.mailbox,
                     &(struct hint_mail){.kind = HINT_MAIL_SOLD_OUT, .item = item, .version = v});
}

static void on_mail(struct hint_mailbox *m, const struct hint_mail *mail)
{
    struct data_loop *d = container_of(m, struct data_loop, mailbox);
    switch (mail->kind) {
    case HINT_MAIL_NEWS:
        hints_heard(&d->hints, mail->item, mail->version);
        break;
    case HINT_MAIL_SET:
        hints_install(&d->hints, mail->set, loop_now_us(d->loop));
        break;
    case HINT_MAIL_OFF:
        hints_off(&d->hints);
        break;
    case HINT_MAIL_SOLD_OUT:
        break;
    }
}

/* --- drain --- */

static void report_if_drained(struct data_loop *d)
{
    if (!d->cut || reserve_pool_busy(&d->pool))
        return;
    d->cut = false; /* once */
    loop_post(d->api->control.loop, &d->drained);
}

static void on_http_drained(struct http_server *s, void *arg)
{
    struct data_loop *d = arg;
    (void)s;
    d->cut = true;
    report_if_drained(d);
}

static void on_pool_idle(struct reserve_pool *p)
{
    report_if_drained(container_of(p, struct data_loop, pool));
}

static void on_drain(struct loop_post *p)
{
    struct data_loop *d = container_of(p, struct data_loop, drain);
    d->draining = true;
    http_server_drain(d->server, loop_now_us(d->loop) + d->api->settings.drain.http_us,
                      on_http_drained, d);
}

void data_loop_drain(struct data_loop *d)
{
    loop_post(d->loop, &d->drain);
}

/* --- life --- */

static int init_http(struct data_loop *d, const char *listen, char *err, size_t err_cap)
{
    const struct settings *s = &d->api->settings;
    struct http_limits limits = {
        .header_us = s->http.header_us,
        .read_us = s->http.read_us,
        .write_us = s->http.write_us,
        .idle_us = s->http.idle_us,
        .max_connections = share(s->http.max_connections, d->api->n_loops),
        .max_header = (int)s->http.max_header,
        .max_body = (int)s->http.max_body,
    };
    d->service = (struct http_service){routes, sizeof(routes) / sizeof(routes[0])};
    d->server =
        http_server_new(d->loop, listen, true, &limits, &d->service, "seckill_http", err, err_cap);
    return d->server ? 0 : ERR_UNAVAIL;
}

static int init_pool(struct data_loop *d)
{
    const struct settings *s = &d->api->settings;
    int64_t floor = s->api.retry_floor / d->api->n_loops;
    if (d->number < s->api.retry_floor % d->api->n_loops)
        floor++;
    retry_budget_init(&d->budget, (int)s->api.retry_percent, (int)floor, loop_now_us(d->loop));
    d->pool = (struct reserve_pool){
        .stock = d->stock,
        .sched = loop_sched(d->loop),
        .ids = &d->api->ids,
        .rng = &d->rng,
        .budget = &d->budget,
        .hints = &d->hints,
        .submit_us = s->api.submit_us,
        /* with Redis Streams the publish is part of the hold */
        .try_us = s->api.hold_us + s->api.publish_us,
        .on_answer = orders_on_answer,
        .on_idle = on_pool_idle,
    };
    int rc = reserve_pool_init(&d->pool, share(s->api.max_inflight, d->api->n_loops));
    d->pool_ready = rc == 0;
    return rc;
}

static int no_memory(char *err, size_t err_cap)
{
    snprintf(err, err_cap, "no memory or descriptors for a loop");
    return ERR_OVERLOAD;
}

int data_loop_init(struct data_loop *d, struct api *api, int number, const char *listen, char *err,
                   size_t err_cap)
{
    const struct settings *s = &api->settings;
    d->api = api;
    d->number = number;
    d->loop = loop_new();
    if (!d->loop)
        return no_memory(err, err_cap);
    rng_init(&d->rng);
    d->drain = (struct loop_post){.on_run = on_drain};
    d->drained = (struct loop_post){.on_run = control_on_drained};
    d->hints.on_sold_out = s->api.hint ? on_sold_out : NULL;
    hints_init(&d->hints);
    d->mailbox.loop = d->loop;
    d->mailbox.on_mail = on_mail;
    hint_mailbox_init(&d->mailbox);
    static const char name[] = "seckill_admission_rejected_total";
    static const char help[] = "requests refused before any work, by reason";
    d->refused_draining = metric_counter(name, help, "reason=\"draining\"");
    d->refused_no_ids = metric_counter(name, help, "reason=\"no_order_ids\"");

    struct redis_stock_config stock = {.redis = api_redis_config(api, "stock"),
                                       .stream_queue = true};
    d->stock = redis_stock_new(d->loop, &stock, err, err_cap);
    if (!d->stock)
        return ERR_INVALID;
    struct jwt_config jwt = {.keys = api->keys,
                             .issuer = s->auth.issuer,
                             .audience = s->auth.audience,
                             .leeway_s = s->auth.leeway_us / 1000000,
                             .cache_entries = (size_t)s->api.token_cache};
    d->auth = jwt_new(&jwt);
    if (!d->auth || init_pool(d) < 0)
        return no_memory(err, err_cap);
    return init_http(d, listen, err, err_cap);
}

static void *run(void *arg)
{
    struct data_loop *d = arg;
    char name[16];
    snprintf(name, sizeof(name), "data-%d", d->number);
    pthread_setname_np(pthread_self(), name);
    loop_run(d->loop);
    return NULL;
}

int data_loop_start(struct data_loop *d)
{
    /* Signals are the control loop's. */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = pthread_create(&d->thread, NULL, run, d);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    d->running = rc == 0;
    return rc == 0 ? 0 : ERR_OVERLOAD;
}

void data_loop_deinit(struct data_loop *d)
{
    if (!d->loop)
        return;
    if (d->running) {
        loop_stop(d->loop);
        pthread_join(d->thread, NULL);
    }
    /* First the viewers, then what they looked at: their flows end with the port. */
    if (d->server)
        http_server_free(d->server);
    if (d->stock)
        redis_stock_free(d->stock);
    if (d->pool_ready)
        reserve_pool_deinit(&d->pool);
    if (d->auth)
        jwt_free(d->auth);
    hint_mailbox_close(&d->mailbox);
    hints_deinit(&d->hints);
    loop_free(d->loop);
    hint_mailbox_deinit(&d->mailbox);
}
