/* queue show: how far behind the workers are, for each item. */
#include "adapter/redis_stream/redis_stream.h"
#include "base/err.h"
#include "daemon/ctl/ctl_queue.h"
#include <stdio.h>
#include <stdlib.h>

struct queue *ctl_queue(struct ctl *c)
{
    char err[256], consumer[64];
    if (c->queue || !ctl_loop(c))
        return c->queue;
    snprintf(consumer, sizeof(consumer), "seckillctl-%.40s", c->settings.instance);
    struct redis_stream_config config = {.redis = ctl_redis_config(c, "queue"),
                                         .group = EVENT_GROUP,
                                         .consumer = consumer,
                                         .lease_us = c->settings.queue.lease_us,
                                         .trim_interval_us = c->settings.queue.trim_interval_us,
                                         .max_in_hand = 1};
    c->queue = redis_stream_new(c->loop, &config, err, sizeof(err));
    if (!c->queue)
        ctl_complain("%s", err);
    return c->queue;
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

/* False: some item's backlog is not known. */
static bool put(struct ctl *c, struct queue *queue, struct out *o, struct item item)
{
    struct queue_lag lag = {.item = item};
    ctl_op(c, &lag.op, CTL_CALL_US);
    queue->ops->lag(queue, &lag);
    int rc = ctl_await(c);
    out_record(o);
    out_i64(o, "activity_id", item.activity_id);
    out_i64(o, "sku_id", item.sku_id);
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
    struct stock *stock = ctl_stock(c);
    struct queue *queue = ctl_queue(c);
    struct item items[STOCK_ITEMS_PAGE];
    if (!stock || !queue)
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
        for (int i = 0; i < list.n; i++)
            known &= put(c, queue, &o, items[i]);
    } while (strcmp(list.cursor, "0") != 0);
    if (!out_end(&o))
        return CTL_FAILED;
    if (rc < 0 && !a.item.sku_id)
        return ctl_stock_failed(c, "queue show", rc);
    if (!known)
        ctl_complain("queue show: what is unknown could not be found out; it is not zero");
    return known ? CTL_OK : CTL_UNKNOWN;
}

const struct ctl_command queue_show_command = {
    .group = "queue",
    .verb = "show",
    .options = options,
    .n_options = sizeof(options) / sizeof(options[0]),
    .words = "",
    .help = "the backlog of each item\n"
            "waiting: not delivered yet. in_hand: delivered, not acknowledged. 3: some of it is "
            "unknown, which is not zero.\n",
    .run = run,
};
