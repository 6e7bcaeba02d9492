/* The life of one data loop: everything is made and freed on the main thread while the loop does
 * not run; in between all of it belongs to the loop's thread. */
#include "daemon/api/api.h"

#include "adapter/jwt/jwt.h"
#include "daemon/common/bearer.h"
#include "daemon/common/store.h"
#include <stdio.h>

#define CLOSE_US 1000000

static const struct http_route routes[] = {
    {"POST", "/v1/orders", "orders", orders_on_request},
    {"POST", "/v1/activities/{}/skus/{}/requests/{}/cancel", "cancel", commands_on_cancel},
    {"POST", "/v1/payments", "payments", commands_on_payment},
};

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
        past_heard(&d->past, mail->item, mail->version);
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

static void on_queue_closed(struct op *op, int rc)
{
    struct data_loop *d = container_of(op, struct data_loop, queue_closing);
    (void)rc;
    loop_post(d->api->control.loop, &d->drained);
}

static void report_if_drained(struct data_loop *d)
{
    if (!d->cut || reserve_pool_busy(&d->pool) || send_pool_busy(&d->cancels) ||
        send_pool_busy(&d->payments))
        return;
    d->cut = false; /* once */
    d->queue_closing = (struct op){on_queue_closed, loop_now_us(d->loop) + CLOSE_US};
    event_queue_close(&d->queue, &d->queue_closing);
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

static void on_cancels_idle(struct send_pool *p)
{
    report_if_drained(container_of(p, struct data_loop, cancels));
}

static void on_payments_idle(struct send_pool *p)
{
    report_if_drained(container_of(p, struct data_loop, payments));
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

static int init_pool(struct data_loop *d)
{
    const struct settings *s = &d->api->settings;
    struct queue *queue = event_queue_is_stores(s) ? NULL : d->queue.port;
    int64_t floor = s->api.retry_floor / d->api->n_loops;
    if (d->thread.number < s->api.retry_floor % d->api->n_loops)
        floor++;
    retry_budget_init(&d->budget, (int)s->api.retry_percent, (int)floor, loop_now_us(d->loop));
    past_init(&d->past);
    d->reporter = (struct reporter){
        .stock = d->stock, .sched = loop_sched(d->loop), .call_us = s->redis.reply_us};
    reporter_init(&d->reporter);
    d->pool = (struct reserve_pool){
        .stock = d->stock,
        .queue = queue,
        .sched = loop_sched(d->loop),
        .ids = &d->api->ids,
        .rng = &d->rng,
        .budget = &d->budget,
        .hints = &d->hints,
        .past = &d->past,
        .reporter = &d->reporter,
        .submit_us = s->api.submit_us,
        /* where the store publishes, that is part of the hold */
        .try_us = s->api.hold_us + (queue ? 0 : s->api.publish_us),
        .target_us = s->api.hold_target_us,
        .strict = s->api.publish_refused == SETTINGS_REFUSED_STRICT,
        .publish_us = s->api.publish_us,
        .send_us = s->rocketmq.send_us,
        .store_us = s->redis.reply_us,
        .on_answer = orders_on_answer,
        .on_idle = on_pool_idle,
    };
    int rc = reserve_pool_init(&d->pool, serve_share(s->api.max_inflight, d->api->n_loops));
    d->pool_ready = rc == 0;
    return rc;
}

static int init_commands(struct data_loop *d)
{
    const struct settings *s = &d->api->settings;
    int n = serve_share(s->api.max_commands, d->api->n_loops);
    struct send_pool pool = {.stock = d->stock,
                             .queue = d->queue.port,
                             .sched = loop_sched(d->loop),
                             .budget_us = s->api.command_us,
                             .store_us = s->redis.reply_us,
                             .most = (int)s->api.commands_remembered};
    d->cancels = d->payments = pool;
    d->cancels.label = "cancel";
    d->cancels.on_answer = commands_on_cancel_answer;
    d->cancels.on_idle = on_cancels_idle;
    d->payments.label = "pay";
    d->payments.on_answer = commands_on_payment_answer;
    d->payments.on_idle = on_payments_idle;
    int rc = send_pool_init(&d->cancels, n);
    return rc < 0 ? rc : send_pool_init(&d->payments, n);
}

static int open_queue(struct data_loop *d, char *err, size_t err_cap)
{
    const struct settings *s = &d->api->settings;
    char name[CONF_STRING_MAX + 16];
    snprintf(name, sizeof(name), "%s-%d", s->instance, d->thread.number);
    struct event_queue_config c = {.use = EVENT_QUEUE_PUBLISH, .consumer = name};
    return event_queue_init(&d->queue, d->loop, s, &c, err, err_cap);
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
    d->loop = loop_new();
    if (!d->loop)
        return no_memory(err, err_cap);
    d->thread = (struct serve_thread){.loop = d->loop, .number = number};
    rng_init(&d->rng);
    d->drain = (struct loop_post){.on_run = on_drain};
    d->drained = (struct loop_post){.on_run = control_on_drained};
    d->hints.on_sold_out = s->api.hint ? on_sold_out : NULL;
    hints_init(&d->hints);
    queue_report_init(d);
    d->mailbox.loop = d->loop;
    d->mailbox.on_mail = on_mail;
    hint_mailbox_init(&d->mailbox);
    static const char name[] = "seckill_admission_rejected_total";
    static const char help[] = "requests refused before any work, by reason";
    d->refused_draining = metric_counter(name, help, "reason=\"draining\"");
    d->refused_no_ids = metric_counter(name, help, "reason=\"no_order_ids\"");
    d->refused_no_catalogue = metric_counter(name, help, "reason=\"no_catalogue\"");

    struct redis_stock_config stock = {.redis = store_redis_config(s, "stock"),
                                       .stream_queue = event_queue_is_stores(s)};
    d->stock = redis_stock_new(d->loop, &stock, err, err_cap);
    if (!d->stock)
        return ERR_INVALID;
    int rc = open_queue(d, err, err_cap);
    if (rc < 0)
        return rc;
    d->auth = bearer_verifier(api->keys, s);
    if (!d->auth || init_pool(d) < 0 || init_commands(d) < 0)
        return no_memory(err, err_cap);
    d->service = (struct http_service){routes, sizeof(routes) / sizeof(routes[0])};
    d->server = serve_listen(d->loop, listen, s, api->n_loops, &d->service, err, err_cap);
    return d->server ? 0 : ERR_UNAVAIL;
}

void data_loop_deinit(struct data_loop *d)
{
    if (!d->loop)
        return;
    serve_thread_stop(&d->thread);
    /* First the viewers, then what they looked at: their flows end with the ports. The queue before
     * the stock: what it cuts off is still marked, or taken back. */
    if (d->server)
        http_server_free(d->server);
    event_queue_deinit(&d->queue);
    if (d->stock)
        redis_stock_free(d->stock);
    if (d->pool_ready)
        reserve_pool_deinit(&d->pool);
    send_pool_deinit(&d->cancels);
    send_pool_deinit(&d->payments);
    if (d->auth)
        jwt_free(d->auth);
    hint_mailbox_close(&d->mailbox);
    hints_deinit(&d->hints);
    loop_free(d->loop);
    hint_mailbox_deinit(&d->mailbox);
}
