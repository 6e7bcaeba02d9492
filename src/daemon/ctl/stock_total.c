/* stock set-total: more or fewer units, mid-sale (rule 7). Redis's total is never above
 * PostgreSQL's: raised there first, lowered here first. So at each step nothing is sold that
 * PostgreSQL refuses, and a command that died between the two is finished by the next one, to
 * whatever total. Two at the same time, or a rebuild in between: each store takes only what saw its
 * total as it is, and PostgreSQL only what saw its epoch, so that the loser runs again. */
#include "adapter/pg/pg_books.h"
#include "base/crashpoint.h"
#include "base/err.h"
#include "daemon/ctl/action.h"
#include "daemon/ctl/item_args.h"
#include <stdio.h>

#define WHAT "stock set-total"

struct total_args {
    struct item item;
    int64_t to;
    bool yes, json;
};

static const struct args_option options[] = {
    ARGS_ITEM(struct total_args, item),
    {"total", ARGS_I64, offsetof(struct total_args, to), .required = true, 0, INT32_MAX,
     .help = "units there are to be in all, the sold ones too"},
    ARGS_YES(struct total_args, yes),
    ARGS_JSON(struct total_args, json),
};

struct change {
    struct ctl *c;
    struct item item;
    int64_t to;
    int64_t epoch, pg_total, sold; /* as they are */
    int64_t redis_total, redis_free;
};

static enum action_outcome in_pg(struct change *x)
{
    char err[512] = "";
    int rc = pg_set_total(x->c->settings.pg.conninfo, x->item, x->epoch, x->to, &x->pg_total,
                          &x->sold, err, sizeof(err));
    if (rc == 1)
        ctl_complain(WHAT ": refused: %lld are sold", (long long)x->sold);
    else if (rc == 2)
        ctl_complain(WHAT ": somebody changes the total at the same time, or the item is rebuilt: "
                          "run it again");
    else if (rc < 0)
        ctl_complain(WHAT ": %s", err);
    if (rc == 2)
        return ACTION_FAILED;
    return rc == 1 ? ACTION_REFUSED : action_outcome_of(rc);
}

static enum action_outcome in_redis(struct change *x, int64_t to)
{
    struct stock *stock = ctl_stock(x->c);
    struct stock_set_total op = {.item = x->item, .seen = x->redis_total, .to = to};
    if (!stock)
        return ACTION_FAILED;
    ctl_op(x->c, &op.op, CTL_CALL_US);
    stock->ops->set_total(stock, &op);
    int rc = ctl_await(x->c);
    if (rc < 0) {
        ctl_stock_failed(x->c, WHAT, rc);
        return action_outcome_of(rc);
    }
    if (rc == 1) {
        ctl_complain(
            WHAT
            ": the item is not in Redis any more, or is being rebuilt: run it again after that");
        return ACTION_FAILED;
    }
    x->redis_total = op.total;
    x->redis_free = op.free;
    if (rc == 2) {
        ctl_complain(WHAT ": refused: only %lld units are free", (long long)op.free);
        return ACTION_REFUSED;
    }
    if (rc == 3) {
        ctl_complain(WHAT ": somebody changes the total at the same time: run it again");
        return ACTION_FAILED;
    }
    return ACTION_DONE;
}

static enum action_outcome raise_total(struct change *x)
{
    enum action_outcome outcome = in_pg(x);
    if (outcome != ACTION_DONE)
        return outcome;
    crashpoint("total_raised_in_pg");
    return in_redis(x, x->to);
}

static enum action_outcome lower_total(struct change *x)
{
    int64_t before = x->redis_total;
    enum action_outcome outcome = in_redis(x, x->to);
    if (outcome != ACTION_DONE)
        return outcome;
    crashpoint("total_lowered_in_redis");
    outcome = in_pg(x);
    /* More is sold there than Redis knows of. It stands as it was; nothing was sold by it. */
    if (outcome == ACTION_REFUSED && in_redis(x, before) != ACTION_DONE)
        return ACTION_UNKNOWN;
    return outcome;
}

/* What is there already, and what cannot be done at all. */
static enum action_outcome plan(struct change *x)
{
    struct pg_activity pg;
    struct stock_item_info info;
    if (item_in_pg(x->c, WHAT, x->item, &pg) != 0)
        return ACTION_FAILED;
    int there = item_in_redis(x->c, WHAT, x->item, &info);
    if (there < 0)
        return ACTION_FAILED;
    if (there == 1 || info.rebuilding || info.version.epoch != pg.epoch) {
        ctl_complain(WHAT ": refused: %lld:%lld is not in Redis, or is being rebuilt",
                     (long long)x->item.activity_id, (long long)x->item.sku_id);
        return ACTION_REFUSED;
    }
    x->epoch = pg.epoch;
    x->pg_total = pg.total;
    x->sold = pg.sold;
    x->redis_total = info.total;
    x->redis_free = info.free;
    if (x->to < x->redis_total && x->redis_total - x->to > x->redis_free) {
        ctl_complain(WHAT ": refused: only %lld units are free", (long long)x->redis_free);
        return ACTION_REFUSED;
    }
    return x->to == x->pg_total && x->to == x->redis_total ? ACTION_NOTHING : ACTION_PLANNED;
}

static void put(struct out *o, const struct change *x)
{
    out_record(o);
    out_i64(o, "activity_id", x->item.activity_id);
    out_i64(o, "sku_id", x->item.sku_id);
    out_i64(o, "to", x->to);
    out_i64(o, "total", x->pg_total);
    out_i64(o, "sold", x->sold);
    out_i64(o, "redis_total", x->redis_total);
    out_i64(o, "redis_free", x->redis_free);
}

static int run(struct ctl *c, const struct ctl_command *self, int argc, char **argv)
{
    struct total_args a = {0};
    struct action action;
    char detail[128], end[128];
    struct out o;
    int rc = ctl_args(self, &a, argc, argv, NULL, NULL);
    if (rc >= 0)
        return rc;
    struct change x = {.c = c, .item = a.item, .to = a.to};
    enum action_outcome outcome = plan(&x);
    if (outcome == ACTION_FAILED)
        return CTL_FAILED;
    snprintf(detail, sizeof(detail), "{\"to\":%lld,\"was\":%lld,\"redis_was\":%lld}",
             (long long)x.to, (long long)x.pg_total, (long long)x.redis_total);
    rc = action_begin(&action, c, a.yes, WHAT, a.item, str_of(detail));
    if (rc != CTL_OK)
        return rc;
    if (action.acting && outcome == ACTION_PLANNED)
        outcome = x.to < x.redis_total ? lower_total(&x) : raise_total(&x);
    snprintf(end, sizeof(end), "{\"total\":%lld,\"redis_total\":%lld}", (long long)x.pg_total,
             (long long)x.redis_total);
    rc = action_end(&action, outcome, str_of(end));
    out_begin(&o, a.json, false);
    put(&o, &x);
    action_print(&o, outcome);
    return out_end(&o) ? rc : CTL_UNKNOWN;
}

const struct ctl_command stock_set_total_command = {
    .group = "stock",
    .verb = "set-total",
    .options = options,
    .n_options = sizeof(options) / sizeof(options[0]),
    .words = "",
    .help = "changes how many units an item has, mid-sale\n"
            "Raised in PostgreSQL first, lowered in Redis first, so that nothing is sold that "
            "PostgreSQL would refuse. Only what is\nfree can be taken away. If the command died or "
            "heard no answer: run it again, it finishes.\n",
    .run = run,
};
