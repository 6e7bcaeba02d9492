/* stock warm|show: an item's keys in Redis. */
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
    return out_end(&o) ? CTL_OK : CTL_UNKNOWN;
}

/* --- warm ---
 *
 * Rule 33: PostgreSQL learns first that the item is warmed (the mark), and what was warmed and then
 * lost is only rebuilt. So a mark that stands for nothing must not stay for ever:
 *
 *   Redis certainly refused       the mark is taken back, if it is still this command's
 *   Redis did not answer          Redis is asked whether it has the item; if not, the mark stays
 *   the command died              the mark stays
 *   a mark, and nothing in Redis  the next command goes on with it, if the item was never opened
 * and nothing is known of it: it cannot have lost anything
 *
 * Who goes on makes a new mark, so of commands at the same time none takes back what another one
 * stands on; the script that makes the keys does it once, whoever comes second finds them. */

#define WARM_TURNS 5 /* others that mark the item at the same time */

enum step { STEP_DONE, STEP_AGAIN, STEP_FAILED };

struct warming {
    struct ctl *c;
    struct item item;
    struct pg_activity pg;
    int64_t mark_us;
    bool resumed; /* the mark stands on one that was there before: it is never taken back */
};

/* Any read tells the store's clock, there or not. */
static int redis_now(struct ctl *c, struct item item, int64_t *now_ms)
{
    struct stock_lookup ask = {.item = item, .user_id = 1};
    ctl_op(c, &ask.op, CTL_CALL_US);
    c->stock->ops->lookup(c->stock, &ask);
    int rc = ctl_await(c);
    *now_ms = ask.now_ms;
    return rc < 0 ? ctl_stock_failed(c, "stock warm", rc) : 0;
}

/* What needs no mark to be refused. */
static int may_warm(const struct warming *w)
{
    int64_t now_ms;
    if (redis_now(w->c, w->item, &now_ms) != 0)
        return CTL_FAILED;
    if (w->pg.ends_ms <= now_ms || w->pg.expires_ms <= now_ms) {
        ctl_complain("stock warm: refused: the sale has ended, by Redis's clock");
        return CTL_FAILED;
    }
    if (w->pg.closed_ms) {
        ctl_complain("stock warm: refused: the item is CLOSED");
        return CTL_FAILED;
    }
    return CTL_OK;
}

/* last: a refusal is final. Else Redis is looked at once more: it may be warmed, and even opened,
 * since. */
static enum step mark(struct warming *w, bool last)
{
    char err[512] = "";
    const char *conninfo = w->c->settings.pg.conninfo;
    w->resumed = w->pg.warmed_us != 0;
    w->mark_us = w->pg.warmed_us;
    int rc = w->resumed ? pg_remark_warmed(conninfo, w->item, &w->mark_us, err, sizeof(err))
                        : pg_mark_warmed(conninfo, w->item, &w->mark_us, err, sizeof(err));
    if (rc == 0)
        return STEP_DONE;
    if (rc == 1 || (rc == 2 && !last))
        return STEP_AGAIN;
    if (rc < 0)
        ctl_complain("stock warm: %s", err);
    else
        ctl_complain("stock warm: refused: %lld:%lld was warmed before, may have been sold, and is "
                     "not in Redis any more: it needs a rebuild (rule 33)",
                     (long long)w->item.activity_id, (long long)w->item.sku_id);
    return STEP_FAILED;
}

/* Nothing was made in Redis under the mark. */
static void take_back(const struct warming *w)
{
    char err[512] = "";
    int rc = w->resumed ? 1
                        : pg_unmark_warmed(w->c->settings.pg.conninfo, w->item, w->mark_us, err,
                                           sizeof(err));
    if (rc == 0)
        ctl_complain("stock warm: nothing was done: it can be warmed again");
    else if (rc == 1)
        ctl_complain("stock warm: nothing was done here; PostgreSQL notes the item as warmed from "
                     "another time: stock warm goes on with it");
    else
        ctl_complain("stock warm: nothing was done in Redis, and PostgreSQL could not be told so "
                     "(%s): stock warm goes on with it",
                     err);
}

static bool is_ours(const struct warming *w, const struct stock_item_info *info)
{
    return info->version.epoch == w->pg.epoch && info->total == w->pg.total &&
           info->starts_ms == w->pg.starts_ms && info->ends_ms == w->pg.ends_ms;
}

static enum step make_keys(struct warming *w, struct stock_item_info *info)
{
    struct stock_warm op = {.item = w->item,
                            .epoch = w->pg.epoch,
                            .total = w->pg.total,
                            .starts_ms = w->pg.starts_ms,
                            .ends_ms = w->pg.ends_ms,
                            .expires_ms = w->pg.expires_ms};
    ctl_op(w->c, &op.op, CTL_CALL_US);
    w->c->stock->ops->warm(w->c->stock, &op);
    int rc = ctl_await(w->c);
    if (rc < 0)
        ctl_stock_failed(w->c, "stock warm", rc);
    if (rc < 0 && !err_is_unknown(rc)) {
        take_back(w);
        return STEP_FAILED;
    }
    int there = item_in_redis(w->c, "stock warm", w->item, info);
    if (there == 0 && is_ours(w, info))
        return STEP_DONE;
    if (rc == 1) { /* "nothing was changed": by nobody with this mark */
        ctl_complain("stock warm: refused: Redis has %s of %lld:%lld already",
                     there == 0 ? "another item in place" : "some keys",
                     (long long)w->item.activity_id, (long long)w->item.sku_id);
        take_back(w);
    } else {
        ctl_complain(rc == 0 ? "stock warm: done, but Redis does not show the item"
                             : "stock warm: whether it was done is not known: stock warm tells it "
                               "and goes on");
    }
    return STEP_FAILED;
}

static int run_warm(struct ctl *c, const struct ctl_command *self, int argc, char **argv)
{
    struct item_args a = {0};
    struct stock_item_info info;
    int rc = ctl_args(self, &a, argc, argv, NULL, NULL);
    if (rc >= 0)
        return rc;
    struct warming w = {.c = c, .item = a.item};
    bool refused = false;
    for (int turn = 0; turn < WARM_TURNS; turn++) {
        /* Redis before PostgreSQL: what the right Redis has, PostgreSQL marked before. */
        int there = item_in_redis(c, "stock warm", a.item, &info);
        if (there < 0 || item_in_pg(c, "stock warm", a.item, &w.pg) != 0)
            return CTL_FAILED;
        if (there == 0 && w.pg.warmed_us)
            return print_stock(a.json, a.item, &info, "is warm already: nothing was changed");
        if (there == 0) {
            ctl_complain("stock warm: refused: Redis has %lld:%lld, but PostgreSQL never warmed "
                         "it: is this the right Redis?",
                         (long long)a.item.activity_id, (long long)a.item.sku_id);
            return CTL_FAILED;
        }
        if (may_warm(&w) != CTL_OK)
            return CTL_FAILED;
        enum step step = mark(&w, refused);
        if (step == STEP_DONE)
            step = make_keys(&w, &info);
        if (step == STEP_DONE)
            return print_stock(a.json, a.item, &info, "is warmed");
        if (step == STEP_FAILED)
            return CTL_FAILED;
        refused = true;
    }
    ctl_complain("stock warm: others are warming this item at the same time: try again");
    return CTL_FAILED;
}

const struct ctl_command stock_warm_command = {
    .group = "stock",
    .verb = "warm",
    .options = item_options,
    .n_options = ITEM_OPTIONS,
    .words = "",
    .help = "puts an item into Redis, once, as PAUSED\n"
            "PostgreSQL notes it first: an item that was warmed, opened and then lost by Redis can "
            "only be rebuilt (rule 33).\nAgain while it is there: nothing happens. If Redis "
            "refuses, the note is taken back. If the command died or heard\nno answer: do it "
            "again; what was never opened, and of which PostgreSQL has no order, message or\n"
            "movement, is put there then. An item whose sale has ended by Redis's clock is "
            "refused.\n",
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
