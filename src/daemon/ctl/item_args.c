#include "daemon/ctl/item_args.h"

#include "base/err.h"

const struct args_option item_options[ITEM_OPTIONS] = {
    ARGS_ITEM(struct item_args, item),
    ARGS_JSON(struct item_args, json),
};

int item_in_pg(const struct ctl *c, const char *what, struct item item, struct pg_activity *out)
{
    char err[512] = "";
    int rc = pg_activity_get(c->settings.pg.conninfo, item, out, err, sizeof(err));
    if (rc == 0)
        return 0;
    if (rc == 1)
        ctl_complain("%s: there is no item %lld:%lld (activity create makes it)", what,
                     (long long)item.activity_id, (long long)item.sku_id);
    else
        ctl_complain("%s: %s", what, err);
    return CTL_FAILED;
}

int item_in_redis(struct ctl *c, const char *what, struct item item, struct stock_item_info *out)
{
    struct stock *stock = ctl_stock(c);
    if (!stock)
        return -1;
    struct stock_item_get get = {.item = item};
    ctl_op(c, &get.op, CTL_CALL_US);
    stock->ops->item(stock, &get);
    int rc = ctl_await(c);
    if (rc < 0) {
        ctl_stock_failed(c, what, rc);
        return -1;
    }
    *out = get.info;
    return rc;
}

const char *item_state_name(enum stock_state s)
{
    switch (s) {
    case STOCK_STATE_OPEN:
        return "OPEN";
    case STOCK_STATE_PAUSED:
        return "PAUSED";
    case STOCK_STATE_CLOSED:
        return "CLOSED";
    }
    return "?";
}

void item_print(struct out *o, const struct pg_activity *a, const struct stock_item_info *info)
{
    out_i64(o, "activity_id", a->item.activity_id);
    out_i64(o, "sku_id", a->item.sku_id);
    out_time(o, "starts_at", a->starts_ms);
    out_time(o, "ends_at", a->ends_ms);
    out_time(o, "expires_at", a->expires_ms);
    out_i64(o, "total", a->total);
    out_i64(o, "sold", a->sold);
    out_i64(o, "epoch", a->epoch);
    out_bool(o, "warmed", a->warmed_us != 0);
    out_time(o, "opened_at", a->opened_ms ? a->opened_ms : -1);
    out_time(o, "closed_at", a->closed_ms ? a->closed_ms : -1);
    out_bool(o, "redis", info != NULL);
    if (!info)
        return;
    out_str(o, "redis_state", str_of(item_state_name(info->state)));
    out_i64(o, "redis_epoch", info->version.epoch);
    out_i64(o, "redis_seq", info->version.seq);
    out_time(o, "redis_starts_at", info->starts_ms);
    out_time(o, "redis_ends_at", info->ends_ms);
    out_i64(o, "redis_total", info->total);
    out_i64(o, "redis_free", info->free);
    out_i64(o, "redis_buyers", info->buyers);
    out_i64(o, "redis_pending", info->pending);
    out_time(o, "redis_time", info->now_ms);
}
