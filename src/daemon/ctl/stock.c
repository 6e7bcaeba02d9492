/* stock warm|show: an item's keys in Redis. */
#include "base/clock.h"
#include "base/err.h"
#include "daemon/ctl/item_args.h"
#include <stdio.h>

static int print_stock(bool json, struct item item, const struct stock_item_info *info,
                       const char *outcome)
{
    struct out o;
    if (outcome && !json) { /* after a change people want one line */
        printf("item %lld:%lld %s: %lld of %lld free\n", (long long)item.activity_id,
               (long long)item.sku_id, outcome, (long long)info->free, (long long)info->total);
        return fflush(stdout) == 0 ? CTL_OK : CTL_FAILED;
    }
    out_begin(&o, json, false);
    out_record(&o);
    if (outcome)
        out_str(&o, "outcome", str_of(outcome));
    out_i64(&o, "activity_id", item.activity_id);
    out_i64(&o, "sku_id", item.sku_id);
    out_str(&o, "state", str_of(item_state_name(info->state)));
    out_i64(&o, "epoch", info->version.epoch);
    out_i64(&o, "seq", info->version.seq);
    out_time(&o, "starts_at", info->starts_ms);
    out_time(&o, "ends_at", info->ends_ms);
    out_time(&o, "expires_at", info->expires_ms);
    out_i64(&o, "total", info->total);
    out_i64(&o, "free", info->free);
    out_i64(&o, "buyers", info->buyers);
    out_i64(&o, "pending", info->pending);
    return out_end(&o) ? CTL_OK : CTL_FAILED;
}

/* Rule 33: PostgreSQL learns first that the item is warmed. So everything that can go wrong in
 * Redis is found out before: afterwards only a rebuild helps. */
static int warm(struct ctl *c, struct item item, const struct pg_activity *have)
{
    char err[512] = "";
    int rc = pg_mark_warmed(c->settings.pg.conninfo, item, err, sizeof(err));
    if (rc != 0) {
        ctl_complain("stock warm: %s",
                     rc < 0 ? err : "somebody else is warming this item just now");
        return CTL_FAILED;
    }
    struct stock_warm warm = {.item = item,
                              .epoch = have->epoch,
                              .total = have->total,
                              .starts_ms = have->starts_ms,
                              .ends_ms = have->ends_ms,
                              .expires_ms = have->expires_ms};
    ctl_op(c, &warm.op, CTL_CALL_US);
    c->stock->ops->warm(c->stock, &warm);
    rc = ctl_await(c);
    if (rc < 0) {
        ctl_stock_failed(c, "stock warm", rc);
        ctl_complain("stock warm: the item counts as warmed now (rule 33): if Redis has it not "
                     "(stock show), it needs a rebuild");
        return CTL_FAILED;
    }
    if (rc == 1) {
        ctl_complain("stock warm: Redis has some of this item's keys already; nothing was changed "
                     "there. It needs a rebuild");
        return CTL_FAILED;
    }
    return CTL_OK;
}

static int run_warm(struct ctl *c, const struct ctl_command *self, int argc, char **argv)
{
    struct item_args a = {0};
    struct pg_activity have;
    struct stock_item_info info;
    int rc = ctl_args(self, &a, argc, argv, NULL, NULL);
    if (rc >= 0)
        return rc;
    if (item_in_pg(c, "stock warm", a.item, &have) != 0)
        return CTL_FAILED;
    int there = item_in_redis(c, "stock warm", a.item, &info);
    if (there < 0)
        return CTL_FAILED;
    if (have.warmed && there == 0)
        return print_stock(a.json, a.item, &info, "is warm already: nothing was changed");
    if (have.warmed) {
        ctl_complain("stock warm: refused: %lld:%lld was warmed before and is not in Redis any "
                     "more; an item that was warmed once needs a rebuild (rule 33)",
                     (long long)a.item.activity_id, (long long)a.item.sku_id);
        return CTL_FAILED;
    }
    if (there == 0) {
        ctl_complain("stock warm: refused: Redis has %lld:%lld, but PostgreSQL never warmed it: "
                     "is this the right Redis?",
                     (long long)a.item.activity_id, (long long)a.item.sku_id);
        return CTL_FAILED;
    }
    if (have.ends_ms <=
        clock_wall_us() / 1000) { /* its keys might expire at once, and it be lost for ever */
        ctl_complain("stock warm: refused: the sale has ended");
        return CTL_FAILED;
    }
    if (have.closed_ms) {
        ctl_complain("stock warm: refused: the item is CLOSED");
        return CTL_FAILED;
    }
    rc = warm(c, a.item, &have);
    if (rc != CTL_OK)
        return rc;
    there = item_in_redis(c, "stock warm", a.item, &info);
    if (there != 0) {
        if (there == 1)
            ctl_complain("stock warm: done, but Redis does not show the item");
        return CTL_FAILED;
    }
    return print_stock(a.json, a.item, &info, "is warmed");
}

const struct ctl_command stock_warm_command = {
    .group = "stock",
    .verb = "warm",
    .options = item_options,
    .n_options = ITEM_OPTIONS,
    .words = "",
    .help = "puts an item into Redis, once, as PAUSED\n"
            "PostgreSQL notes it first: an item that was warmed and then lost by Redis can only be "
            "rebuilt (rule 33).\nAgain while it is there: nothing happens.\n",
    .run = run_warm,
};

static int run_show(struct ctl *c, const struct ctl_command *self, int argc, char **argv)
{
    struct item_args a = {0};
    struct stock_item_info info;
    int rc = ctl_args(self, &a, argc, argv, NULL, NULL);
    if (rc >= 0)
        return rc;
    rc = item_in_redis(c, "stock show", a.item, &info);
    if (rc == 1)
        ctl_complain("stock show: %lld:%lld is not in Redis", (long long)a.item.activity_id,
                     (long long)a.item.sku_id);
    if (rc != 0)
        return CTL_FAILED;
    return print_stock(a.json, a.item, &info, NULL);
}

const struct ctl_command stock_show_command = {
    .group = "stock",
    .verb = "show",
    .options = item_options,
    .n_options = ITEM_OPTIONS,
    .words = "",
    .help = "an item as Redis has it\n",
    .run = run_show,
};
