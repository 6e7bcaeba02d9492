/* rebuild plan|run: whether Redis still has what PostgreSQL knows of an item, and having it rebuilt
 * (rules 33–37). The rebuild itself is the worker's alone. */
#include "adapter/pg/pg_books.h"
#include "app/epoch_judge.h"
#include "daemon/ctl/action.h"
#include "daemon/ctl/books.h"
#include "daemon/ctl/item_args.h"
#include <stdio.h>
#include <stdlib.h>

#define WHAT "rebuild run"
#define POLL_US 200000
#define ITEMS_MAX 4096

struct rebuild_args {
    struct item item;
    int64_t wait_us;
    bool yes, json;
};

struct state {
    struct orders_watched pg;
    struct pg_activity activity;
    int in_redis; /* as the stock's `item` */
    struct stock_item_info redis;
    enum epoch_finding finding;
    struct pg_rebuild last;
};

/* 0: found; or complained. */
static int watched(struct ctl *c, const char *what, struct item item, struct orders_watched *out)
{
    struct orders *orders = ctl_orders(c);
    struct ctx ctx = ctl_ctx();
    struct orders_watched *rows = malloc(ITEMS_MAX * sizeof(*rows));
    int n = ITEMS_MAX, found = CTL_FAILED;
    int rc = !orders || !rows ? ERR_INTERNAL : orders->ops->watch(orders, &ctx, rows, &n);
    if (rc < 0)
        found = ctl_orders_failed(what, rc);
    for (int i = 0; rc == 0 && i < n; i++) {
        if (!item_eq(rows[i].item, item))
            continue;
        *out = rows[i];
        found = CTL_OK;
    }
    if (rc == 0 && found != CTL_OK)
        ctl_complain("%s: %lld:%lld is not to be in Redis: never warmed, or its keys are over",
                     what, (long long)item.activity_id, (long long)item.sku_id);
    free(rows);
    return found;
}

/* PostgreSQL first, as the workers do it. 0; or complained. */
static int look(struct ctl *c, const char *what, struct item item, struct state *s)
{
    char err[512] = "";
    *s = (struct state){0};
    if (watched(c, what, item, &s->pg) != CTL_OK || item_in_pg(c, what, item, &s->activity) != 0)
        return CTL_FAILED;
    s->in_redis = item_in_redis(c, what, item, &s->redis);
    if (s->in_redis < 0)
        return CTL_FAILED;
    s->finding = epoch_judge(&s->pg, (struct item_version){0}, false, s->in_redis, &s->redis);
    if (pg_rebuild_last(c->settings.pg.conninfo, item, &s->last, err, sizeof(err)) < 0) {
        ctl_complain("%s: %s", what, err);
        return CTL_FAILED;
    }
    return CTL_OK;
}

static void put(struct out *o, const struct state *s)
{
    bool there = s->in_redis == 0;
    out_record(o);
    out_i64(o, "activity_id", s->pg.item.activity_id);
    out_i64(o, "sku_id", s->pg.item.sku_id);
    out_str(o, "finding", str_of(epoch_finding_name(s->finding)));
    out_i64(o, "epoch", s->pg.version.epoch);
    out_i64(o, "seq", s->pg.version.seq);
    out_i64(o, "redis_epoch", there ? s->redis.version.epoch : -1);
    out_i64(o, "redis_seq", there ? s->redis.version.seq : -1);
    out_i64(o, "orders", s->activity.sold); /* as it would count them now */
    out_i64(o, "waiting", there ? s->redis.pending : 0);
    out_i64(o, "last_epoch", s->last.epoch);
    out_str(o, "last_reason", str_of(s->last.epoch ? s->last.reason : "-"));
    out_time(o, "last_started", s->last.epoch ? s->last.started_ms : -1);
    out_time(o, "last_finished", s->last.finished_ms ? s->last.finished_ms : -1);
    out_i64(o, "last_orders", s->last.ordered);
    out_i64(o, "last_live", s->last.live);
}

static int run_plan(struct ctl *c, const struct ctl_command *self, int argc, char **argv)
{
    struct item_args a = {0};
    struct state s;
    struct out o;
    int rc = ctl_args(self, &a, argc, argv, NULL, NULL);
    if (rc >= 0)
        return rc;
    rc = look(c, "rebuild plan", a.item, &s);
    if (rc != CTL_OK)
        return rc;
    out_begin(&o, a.json, false);
    put(&o, &s);
    return out_end(&o) ? CTL_OK : CTL_UNKNOWN;
}

const struct ctl_command rebuild_plan_command = {
    .group = "rebuild",
    .verb = "plan",
    .options = item_options,
    .n_options = ITEM_OPTIONS,
    .words = "",
    .help =
        "whether Redis still has what PostgreSQL knows of an item; its last rebuild\n"
        "finding: good; lost, behind, interrupted, rolled back (a worker rebuilds it at its next "
        "look); ahead: PostgreSQL lost\nsomething. orders and waiting: what a rebuild would find "
        "now; at most the waiting survive.\n",
    .run = run_plan,
};

/* --- run --- */

static const struct args_option run_options[] = {
    ARGS_ITEM(struct rebuild_args, item),
    {"wait", ARGS_DURATION, offsetof(struct rebuild_args, wait_us), .min = 1000000,
     .max = INT64_C(3600) * 1000000, .help = "for its end; default 60s"},
    ARGS_YES(struct rebuild_args, yes),
    ARGS_JSON(struct rebuild_args, json),
};

static enum action_outcome ask(struct ctl *c, const struct rebuild_args *a, const struct state *s)
{
    char err[512] = "";
    int rc = pg_rebuild_ask(c->settings.pg.conninfo, a->item, err, sizeof(err));
    if (rc) {
        ctl_complain(WHAT ": %s", rc < 0 ? err : "no such item");
        return rc < 0 ? action_outcome_of(rc) : ACTION_REFUSED;
    }
    for (int64_t waited = 0; waited < a->wait_us; waited += POLL_US) {
        struct orders_watched now;
        ctl_sleep(c, POLL_US);
        if (watched(c, WHAT, a->item, &now) != CTL_OK)
            return ACTION_UNKNOWN;
        if (now.version.epoch > s->pg.version.epoch && !now.unfinished)
            return ACTION_DONE;
    }
    ctl_complain(WHAT ": it has not come to its end: does a worker run? It stays asked for, and "
                      "rebuild plan tells");
    return ACTION_UNKNOWN;
}

static int run_run(struct ctl *c, const struct ctl_command *self, int argc, char **argv)
{
    struct rebuild_args a = {.wait_us = 60000000};
    struct action action;
    struct state s;
    struct out o;
    char detail[96];
    int rc = ctl_args(self, &a, argc, argv, NULL, NULL);
    if (rc >= 0)
        return rc;
    if (look(c, WHAT, a.item, &s) != CTL_OK || !ctl_loop(c))
        return CTL_FAILED;
    snprintf(detail, sizeof(detail), "{\"finding\":\"%s\",\"from_epoch\":%lld}",
             epoch_finding_name(s.finding), (long long)s.pg.version.epoch);
    rc = action_begin(&action, c, a.yes, WHAT, a.item, str_of(detail));
    if (rc != CTL_OK)
        return rc;
    enum action_outcome outcome = ACTION_PLANNED;
    if (s.finding == EPOCH_AHEAD)
        outcome = ACTION_REFUSED; /* it would make PostgreSQL's loss final */
    else if (action.acting)
        outcome = ask(c, &a, &s);
    rc = action_end(&action, outcome, STR(""));
    if (outcome != ACTION_PLANNED && look(c, WHAT, a.item, &s) != CTL_OK) /* as it is now */
        return rc == CTL_OK ? CTL_FAILED : rc;
    out_begin(&o, a.json, false);
    put(&o, &s);
    action_print(&o, outcome);
    return out_end(&o) ? rc : CTL_UNKNOWN;
}

const struct ctl_command rebuild_run_command = {
    .group = "rebuild",
    .verb = "run",
    .options = run_options,
    .n_options = sizeof(run_options) / sizeof(run_options[0]),
    .words = "",
    .help = "has a worker rebuild an item in Redis from PostgreSQL, now\n"
            "Without a loss nothing but a moment is lost: buyers hear 503 meanwhile. Shows what is "
            "known; --yes does it and\nrecords it (actions list).\n",
    .run = run_run,
};
