/* queue show: how far behind the workers are, for each item. */
#include "base/clock.h"
#include "base/err.h"
#include "daemon/ctl/ctl_queue.h"
#include <stdio.h>
#include <stdlib.h>

bool ctl_queue_open(struct ctl *c, const struct settings *s, enum event_queue_use use,
                    int64_t wait_us)
{
    char err[512], consumer[64];
    if (!ctl_loop(c))
        return false;
    snprintf(consumer, sizeof(consumer), "seckillctl-%.40s", c->settings.instance);
    struct event_queue_config config = {.use = use, .consumer = consumer};
    if (event_queue_init(&c->queue, c->loop, s, &config, err, sizeof(err)) < 0) {
        ctl_complain("%s", err);
        return false;
    }
    int64_t give_up_us = clock_mono_us() + wait_us;
    while (!event_queue_ready(&c->queue) && clock_mono_us() < give_up_us)
        ctl_sleep(c, 2000);
    const char *why = event_queue_complaint(&c->queue);
    if (!event_queue_ready(&c->queue))
        ctl_complain("the queue cannot be used: %s", why ? why : "no answer in time");
    return event_queue_ready(&c->queue);
}

struct queue *ctl_queue(struct ctl *c, enum event_queue_use use)
{
    if (!c->queue.port && !ctl_queue_open(c, &c->settings, use, CTL_CALL_US))
        return NULL;
    return c->queue.port;
}

struct show_args {
    struct item item;
    bool json;
};
static const struct args_option options[] = {
    {"activity", ARGS_I64, offsetof(struct show_args, item.activity_id), false, 1, INT64_MAX,
     "only this item"},
    {"sku", ARGS_I64, offsetof(struct show_args, item.sku_id), false, 1, INT64_MAX,
     "only this item"},
    ARGS_JSON(struct show_args, json),
};

static int ask(struct ctl *c, struct queue *queue, struct queue_lag *lag)
{
    ctl_op(c, &lag->op, CTL_CALL_US);
    queue->ops->lag(queue, lag);
    return ctl_await(c);
}

/* False: it is not known. */
static bool put(struct out *o, int rc, const struct queue_lag *l)
{
    struct queue_lag lag = *l;
    out_record(o);
    if (lag.of_all_items) {
        out_str(o, "items", STR("all"));
    } else {
        out_i64(o, "activity_id", lag.item.activity_id);
        out_i64(o, "sku_id", lag.item.sku_id);
    }
    if (rc == 0) {
        out_i64(o, "waiting", lag.waiting);
        out_i64(o, "in_hand", lag.in_hand);
        out_i64(o, "oldest_age_ms", lag.oldest_age_ms);
    } else { /* rule 26: never taken for zero */
        out_unknown(o, "waiting");
        out_unknown(o, "in_hand");
        out_unknown(o, "oldest_age_ms");
    }
    return rc == 0;
}

static int told(bool known)
{
    if (!known)
        ctl_complain("queue show: what is unknown could not be found out; it is not zero");
    return known ? CTL_OK : CTL_UNKNOWN;
}

static int show_all(struct ctl *c, struct queue *queue, bool json)
{
    struct queue_lag lag = {0};
    struct out o;
    int rc = ask(c, queue, &lag);
    lag.of_all_items = true; /* also when nothing is known */
    out_begin(&o, json, true);
    bool known = put(&o, rc, &lag);
    return out_end(&o) ? told(known) : CTL_UNKNOWN;
}

static int run(struct ctl *c, const struct ctl_command *self, int argc, char **argv)
{
    struct show_args a = {0};
    int rc = ctl_args(self, &a, argc, argv, NULL, NULL);
    if (rc >= 0)
        return rc;
    if (!a.item.activity_id != !a.item.sku_id) {
        ctl_complain("queue show: --activity and --sku go together");
        return CTL_USAGE;
    }
    struct queue *queue = ctl_queue(c, EVENT_QUEUE_INSPECT);
    if (!queue)
        return CTL_FAILED;
    /* A queue that cannot tell items apart is asked once, whatever items there are. */
    if (!event_queue_is_stores(&c->settings))
        return show_all(c, queue, a.json);
    struct stock *stock = ctl_stock(c);
    struct item items[STOCK_ITEMS_PAGE];
    if (!stock)
        return CTL_FAILED;
    struct stock_items list = {.cursor = "0", .items = items, .max = STOCK_ITEMS_PAGE};
    bool known = true;
    struct out o;
    out_begin(&o, a.json, true);
    do {
        if (a.item.sku_id) {
            items[list.n++] = a.item;
        } else {
            ctl_op(c, &list.op, CTL_CALL_US);
            stock->ops->items(stock, &list);
            rc = ctl_await(c);
            if (rc < 0)
                break;
        }
        for (int i = 0; i < list.n; i++) {
            struct queue_lag lag = {.item = items[i]};
            int got = ask(c, queue, &lag);
            known &= put(&o, got, &lag);
        }
    } while (strcmp(list.cursor, "0") != 0);
    if (!out_end(&o))
        return CTL_UNKNOWN;
    if (rc < 0 && !a.item.sku_id)
        return ctl_stock_failed(c, "queue show", rc);
    return told(known);
}

const struct ctl_command queue_show_command = {
    .group = "queue",
    .verb = "show",
    .options = options,
    .n_options = sizeof(options) / sizeof(options[0]),
    .words = "",
    .help = "the backlog of each item; with RocketMQ, of all items together\n"
            "waiting: not delivered yet. in_hand: delivered, not acknowledged. 3: some of it is "
            "unknown, which is not zero.\n",
    .run = run,
};
