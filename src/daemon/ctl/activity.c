/* activity create|show|list|open|pause|close: items. PostgreSQL holds what was decided, Redis what
 * is going on. */
#include "base/clock.h"
#include "daemon/ctl/item_args.h"

#include <stdio.h>
#include <stdlib.h>

#define LIST_MAX 4096
#define CONTROL_AGAIN_US 100000 /* while a rebuild begins */

/* --- create --- */

struct create_args {
    struct item item;
    int64_t total, starts_ms, ends_ms;
    bool json;
};
static const struct args_option create_options[] = {
    ARGS_ITEM(struct create_args, item),
    {"stock", ARGS_I64, offsetof(struct create_args, total), true, 1, 2000000000, "units on sale"},
    {"starts", ARGS_TIME, offsetof(struct create_args, starts_ms), .required = true,
     .help = "when the sale starts: 2026-06-25T12:00:00Z, +1h, -1s"},
    {"ends", ARGS_TIME, offsetof(struct create_args, ends_ms), .required = true,
     .help = "when it ends"},
    ARGS_JSON(struct create_args, json),
};

static void print_one(bool json, const struct pg_activity *a, const struct stock_item_info *info)
{
    struct out o;
    out_begin(&o, json, false);
    out_record(&o);
    item_print(&o, a, info);
    out_end(&o);
}

/* After a change people want one line; a program gets everything. */
static void print_change(bool json, const struct pg_activity *a, const struct stock_item_info *info,
                         const char *outcome)
{
    if (json) {
        print_one(true, a, info);
        return;
    }
    printf("item %lld:%lld %s\n", (long long)a->item.activity_id, (long long)a->item.sku_id,
           outcome);
    fflush(stdout);
}

static int run_create(struct ctl *c, const struct ctl_command *self, int argc, char **argv)
{
    struct create_args a = {0};
    char err[512] = "";
    int rc = ctl_args(self, &a, argc, argv, NULL, NULL);
    if (rc >= 0)
        return rc;
    if (a.ends_ms <= a.starts_ms || a.starts_ms < 0) {
        ctl_complain("activity create: --ends must be later than --starts");
        return CTL_USAGE;
    }
    if (a.ends_ms * 1000 <= clock_wall_us()) { /* its times could never be changed */
        ctl_complain("activity create: the sale would be over: --ends is in the past");
        return CTL_USAGE;
    }
    struct pg_activity wanted = {.item = a.item,
                                 .starts_ms = a.starts_ms,
                                 .ends_ms = a.ends_ms,
                                 .expires_ms = a.ends_ms + (c->settings.item.delivery_us +
                                                            c->settings.item.reconcile_us) /
                                                               1000,
                                 .total = a.total},
                       have;
    rc = pg_activity_create(c->settings.pg.conninfo, &wanted, err, sizeof(err));
    if (rc < 0) {
        ctl_complain("activity create: %s", err);
        return CTL_FAILED;
    }
    if (item_in_pg(c, "activity create", a.item, &have) != 0)
        return CTL_FAILED;
    if (rc == 1 && (have.total != wanted.total || have.starts_ms != wanted.starts_ms ||
                    have.ends_ms != wanted.ends_ms)) {
        ctl_complain("activity create: %lld:%lld exists already and is different: nothing was "
                     "changed (activity show tells it)",
                     (long long)a.item.activity_id, (long long)a.item.sku_id);
        return CTL_FAILED;
    }
    print_change(a.json, &have, NULL, rc == 1 ? "exists already, as asked for" : "is created");
    return CTL_OK;
}

const struct ctl_command activity_create_command = {
    .group = "activity",
    .verb = "create",
    .options = create_options,
    .n_options = sizeof(create_options) / sizeof(create_options[0]),
    .words = "",
    .help = "makes an item in PostgreSQL\n"
            "It is sold only after `stock warm` and `activity open`. Again with the same values: "
            "nothing happens; with\nothers: refused.\n",
    .run = run_create,
};

/* --- show, list --- */

static int run_show(struct ctl *c, const struct ctl_command *self, int argc, char **argv)
{
    struct item_args a = {0};
    struct pg_activity have;
    struct stock_item_info info;
    int rc = ctl_args(self, &a, argc, argv, NULL, NULL);
    if (rc >= 0)
        return rc;
    if (item_in_pg(c, "activity show", a.item, &have) != 0)
        return CTL_FAILED;
    rc = item_in_redis(c, "activity show", a.item, &info);
    if (rc < 0)
        return CTL_FAILED;
    print_one(a.json, &have, rc == 0 ? &info : NULL);
    return CTL_OK;
}

const struct ctl_command activity_show_command = {
    .group = "activity",
    .verb = "show",
    .options = item_options,
    .n_options = ITEM_OPTIONS,
    .words = "",
    .help = "an item as PostgreSQL and Redis have it\n",
    .run = run_show,
};

struct list_args {
    bool json;
};
static const struct args_option list_options[] = {ARGS_JSON(struct list_args, json)};

static int run_list(struct ctl *c, const struct ctl_command *self, int argc, char **argv)
{
    struct list_args a = {0};
    char err[512] = "";
    int rc = ctl_args(self, &a, argc, argv, NULL, NULL), n = LIST_MAX;
    if (rc >= 0)
        return rc;
    struct pg_activity *rows = malloc(sizeof(*rows) * LIST_MAX);
    if (!rows || pg_activity_list(c->settings.pg.conninfo, rows, &n, err, sizeof(err)) < 0) {
        ctl_complain("activity list: %s", rows ? err : "no memory");
        free(rows);
        return CTL_FAILED;
    }
    struct out o;
    out_begin(&o, a.json, true);
    for (int i = 0; i < n; i++) {
        out_record(&o);
        out_i64(&o, "activity_id", rows[i].item.activity_id);
        out_i64(&o, "sku_id", rows[i].item.sku_id);
        out_time(&o, "starts_at", rows[i].starts_ms);
        out_time(&o, "ends_at", rows[i].ends_ms);
        out_i64(&o, "total", rows[i].total);
        out_i64(&o, "sold", rows[i].sold);
        out_bool(&o, "warmed", rows[i].warmed_us != 0);
        out_time(&o, "closed_at", rows[i].closed_ms ? rows[i].closed_ms : -1);
    }
    out_end(&o);
    if (n == LIST_MAX)
        ctl_complain("activity list: only the first %d are shown", LIST_MAX);
    free(rows);
    return CTL_OK;
}

const struct ctl_command activity_list_command = {
    .group = "activity",
    .verb = "list",
    .options = list_options,
    .n_options = 1,
    .words = "",
    .help = "the items in PostgreSQL\n",
    .run = run_list,
};

/* --- open, pause, close --- */

/* Redis first: that is where buyers are let in. *epoch: at which it was done there. */
static int control(struct ctl *c, const char *what, struct item item, enum stock_state to,
                   int64_t *epoch)
{
    struct stock *stock = ctl_stock(c);
    if (!stock)
        return CTL_FAILED;
    struct stock_control control = {.item = item, .to = to};
    ctl_op(c, &control.op, CTL_CALL_US);
    stock->ops->control(stock, &control);
    int rc = ctl_await(c);
    *epoch = control.version.epoch;
    if (rc < 0)
        return ctl_stock_failed(c, what, rc);
    if (rc == 2) {
        ctl_complain("%s: %lld:%lld is CLOSED, and that is final", what,
                     (long long)item.activity_id, (long long)item.sku_id);
        return CTL_FAILED;
    }
    return rc == 1 ? CTL_UNKNOWN : CTL_OK; /* UNKNOWN: not in Redis */
}

/* Before the first buyer can be let in, PostgreSQL knows that from now on there is something to
 * lose (rule 33; stock.c). What is not in Redis is not noted: nothing opens. */
static int note_opening(struct ctl *c, const char *what, struct item item)
{
    char err[512] = "";
    struct stock_item_info info;
    int there = item_in_redis(c, what, item, &info);
    if (there != 0)
        return there < 0 ? CTL_FAILED : CTL_UNKNOWN;
    if (pg_mark_opened(c->settings.pg.conninfo, item, err, sizeof(err)) < 0) {
        ctl_complain("%s: nothing was changed: %s", what, err);
        return CTL_FAILED;
    }
    return CTL_OK;
}

/* Both stores know it, at this epoch of Redis. A rebuild that had begun in PostgreSQL by then, and
 * not yet in Redis, saw neither: it would bring back what was before. So once more, in Redis as it
 * is now.
 */
static int control_again(struct ctl *c, const char *what, struct item item, enum stock_state to,
                         int64_t epoch, struct pg_activity *have)
{
    int64_t until_us = clock_mono_us() + CTL_CALL_US;
    for (;;) {
        if (item_in_pg(c, what, item, have) != 0)
            return CTL_FAILED;
        if (have->epoch <= epoch)
            return CTL_OK;
        if (clock_mono_us() >= until_us) {
            ctl_complain("%s: %lld:%lld is being rebuilt: do it again after that", what,
                         (long long)item.activity_id, (long long)item.sku_id);
            return CTL_FAILED;
        }
        ctl_sleep(c, CONTROL_AGAIN_US);
        if (control(c, what, item, to, &epoch) == CTL_FAILED)
            return CTL_FAILED;
    }
}

static int run_control(struct ctl *c, const struct ctl_command *self, int argc, char **argv,
                       enum stock_state to)
{
    struct item_args a = {0};
    struct pg_activity have;
    struct stock_item_info info;
    char what[32], err[512] = "";
    int64_t epoch = 0;
    snprintf(what, sizeof(what), "activity %s", self->verb);
    int rc = ctl_args(self, &a, argc, argv, NULL, NULL);
    if (rc >= 0)
        return rc;
    if (item_in_pg(c, what, a.item, &have) != 0)
        return CTL_FAILED;
    if (have.closed_ms && to != STOCK_STATE_CLOSED) {
        ctl_complain("%s: %lld:%lld is CLOSED, and that is final", what,
                     (long long)a.item.activity_id, (long long)a.item.sku_id);
        return CTL_FAILED;
    }
    rc = to == STOCK_STATE_OPEN ? note_opening(c, what, a.item) : CTL_OK;
    if (rc == CTL_OK && to != STOCK_STATE_CLOSED &&
        pg_mark_paused(c->settings.pg.conninfo, a.item, to == STOCK_STATE_PAUSED, err,
                       sizeof(err)) < 0) {
        ctl_complain("%s: nothing was changed in Redis: %s", what, err);
        return CTL_FAILED;
    }
    if (rc == CTL_OK)
        rc = control(c, what, a.item, to, &epoch);
    bool absent = rc == CTL_UNKNOWN;
    if (absent && (to != STOCK_STATE_CLOSED || have.warmed_us)) {
        ctl_complain("%s: %lld:%lld is not in Redis (%s)", what, (long long)a.item.activity_id,
                     (long long)a.item.sku_id,
                     !have.warmed_us   ? "stock warm puts it there"
                     : !have.opened_ms ? "stock warm goes on to put it there"
                                       : "it was warmed and opened, so Redis lost it: a worker "
                                         "rebuilds it");
        return CTL_FAILED;
    }
    if (rc == CTL_FAILED)
        return rc;
    if (to == STOCK_STATE_CLOSED) {
        if (pg_activity_close(c->settings.pg.conninfo, a.item, err, sizeof(err)) < 0) {
            ctl_complain("%s: closed in Redis, but not noted in PostgreSQL (do it again): %s", what,
                         err);
            return CTL_FAILED;
        }
    }
    if (absent ? item_in_pg(c, what, a.item, &have) != 0
               : control_again(c, what, a.item, to, epoch, &have) != CTL_OK)
        return CTL_FAILED;
    rc = absent ? 1 : item_in_redis(c, what, a.item, &info);
    if (rc < 0)
        return CTL_FAILED;
    snprintf(err, sizeof(err), "is %s", item_state_name(to));
    print_change(a.json, &have, rc == 0 ? &info : NULL, err);
    if (rc == 0 && to == STOCK_STATE_OPEN && info.now_ms >= info.ends_ms)
        ctl_complain("%s: note that its sale ended already", what);
    return CTL_OK;
}

static int run_open(struct ctl *c, const struct ctl_command *self, int argc, char **argv)
{
    return run_control(c, self, argc, argv, STOCK_STATE_OPEN);
}
static int run_pause(struct ctl *c, const struct ctl_command *self, int argc, char **argv)
{
    return run_control(c, self, argc, argv, STOCK_STATE_PAUSED);
}
static int run_close(struct ctl *c, const struct ctl_command *self, int argc, char **argv)
{
    return run_control(c, self, argc, argv, STOCK_STATE_CLOSED);
}

const struct ctl_command activity_open_command = {
    .group = "activity",
    .verb = "open",
    .options = item_options,
    .n_options = ITEM_OPTIONS,
    .words = "",
    .help = "lets buyers in, within the item's window\n",
    .run = run_open,
};
const struct ctl_command activity_pause_command = {
    .group = "activity",
    .verb = "pause",
    .options = item_options,
    .n_options = ITEM_OPTIONS,
    .words = "",
    .help = "answers buyers 503 PAUSED until it is opened again\n",
    .run = run_pause,
};
const struct ctl_command activity_close_command = {
    .group = "activity",
    .verb = "close",
    .options = item_options,
    .n_options = ITEM_OPTIONS,
    .words = "",
    .help = "ends the sale of an item, for good\n",
    .run = run_close,
};
