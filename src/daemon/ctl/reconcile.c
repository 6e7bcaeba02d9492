/* reconcile run|show: what the worker's reconciliation found of an item (rule 40). The comparison
 * itself is the worker's alone: it must see two samples, and act between its other work. */
#include "adapter/pg/pg_books.h"
#include "daemon/ctl/action.h"
#include "daemon/ctl/item_args.h"
#include <stdio.h>
#include <string.h>

#define FINDINGS 64

struct reconcile_args {
    struct item item;
    int64_t wait_us;
    bool yes, json;
};

static const char *or_dash(const char *s)
{
    return s[0] ? s : "-";
}

static void put(struct out *o, const struct pg_finding *f)
{
    out_record(o);
    out_str(o, "outcome", str_of(f->outcome));
    out_time(o, "since", f->since_ms);
    out_time(o, "until", f->until_ms);
    out_i64(o, "rounds", f->rounds);
    out_str(o, "kind", str_of(or_dash(f->kind)));
    out_i64(o, "units", f->units);
    out_id(o, "user_id", f->user_id);
    out_id(o, "order_id", f->order_id);
    out_uuid(o, "reservation_id", uuid_is_nil(&f->reservation_id) ? NULL : &f->reservation_id);
    out_str(o, "mended", str_of(or_dash(f->mended)));
}

/* Prints them. 0 and how many there are; or complained. */
static int show(struct ctl *c, const char *what, struct item item, bool json, bool *discrepancy)
{
    static struct pg_finding rows[FINDINGS];
    struct out o;
    char err[512] = "";
    int n = FINDINGS;
    if (pg_reconcile_show(c->settings.pg.conninfo, item, rows, &n, err, sizeof(err)) < 0) {
        ctl_complain("%s: %s", what, err);
        return CTL_FAILED;
    }
    *discrepancy = n > 0 && strcmp(rows[0].outcome, "CLEAN") != 0;
    out_begin(&o, json, true);
    for (int i = 0; i < n; i++)
        put(&o, &rows[i]);
    if (n == 0)
        ctl_complain("%s: no worker has looked at %lld:%lld yet", what, (long long)item.activity_id,
                     (long long)item.sku_id);
    return out_end(&o) ? CTL_OK : CTL_UNKNOWN;
}

static int run_show(struct ctl *c, const struct ctl_command *self, int argc, char **argv)
{
    struct item_args a = {0};
    struct pg_activity pg;
    bool discrepancy;
    int rc = ctl_args(self, &a, argc, argv, NULL, NULL);
    if (rc >= 0)
        return rc;
    if (item_in_pg(c, "reconcile show", a.item, &pg) != 0)
        return CTL_FAILED;
    return show(c, "reconcile show", a.item, a.json, &discrepancy);
}

const struct ctl_command reconcile_show_command = {
    .group = "reconcile",
    .verb = "show",
    .options = item_options,
    .n_options = ITEM_OPTIONS,
    .words = "",
    .help = "what the workers' reconciliation found of an item last\n"
            "One line per finding: since when, how many rounds agreed, whose, and what was done "
            "about it. The kinds:\ndocs/operations.md.\n",
    .run = run_show,
};

/* --- run --- */

#define WHAT "reconcile run"

static const struct args_option run_options[] = {
    ARGS_ITEM(struct reconcile_args, item),
    {"wait", ARGS_DURATION, offsetof(struct reconcile_args, wait_us), .min = 1000000,
     .max = INT64_C(3600) * 1000000, .help = "for the worker's answer; default 60s"},
    ARGS_YES(struct reconcile_args, yes),
    ARGS_JSON(struct reconcile_args, json),
};

static enum action_outcome ask(struct ctl *c, const struct reconcile_args *a)
{
    const char *conninfo = c->settings.pg.conninfo;
    char err[512] = "";
    int rc = pg_reconcile_ask(conninfo, a->item, err, sizeof(err));
    for (int64_t waited = 0; rc == 0 && waited < a->wait_us; waited += 200000) {
        ctl_sleep(c, 200000);
        rc = pg_reconcile_answered(conninfo, a->item, err, sizeof(err));
    }
    if (rc == 1)
        return ACTION_DONE;
    if (rc < 0)
        ctl_complain(WHAT ": %s", err);
    else
        ctl_complain(WHAT ": no worker has answered: does one run? It looks when it can, and "
                          "reconcile show tells then");
    return rc < 0 ? action_outcome_of(rc) : ACTION_UNKNOWN;
}

static int run_run(struct ctl *c, const struct ctl_command *self, int argc, char **argv)
{
    struct reconcile_args a = {.wait_us = 60000000};
    struct action action;
    struct pg_activity pg;
    bool discrepancy;
    int rc = ctl_args(self, &a, argc, argv, NULL, NULL);
    if (rc >= 0)
        return rc;
    if (item_in_pg(c, WHAT, a.item, &pg) != 0 || !ctl_loop(c))
        return CTL_FAILED;
    rc = action_begin(&action, c, a.yes, WHAT, a.item, STR(""));
    if (rc != CTL_OK)
        return rc;
    enum action_outcome outcome = action.acting ? ask(c, &a) : ACTION_PLANNED;
    rc = action_end(&action, outcome, STR(""));
    int shown = show(c, WHAT, a.item, a.json, &discrepancy);
    if (outcome == ACTION_PLANNED)
        ctl_complain(WHAT ": PLANNED: that was the last look; --yes has a worker look twice now, "
                          "and put right what is safe");
    if (rc != CTL_OK || shown != CTL_OK)
        return rc != CTL_OK ? rc : shown;
    return discrepancy && action.acting ? CTL_FAILED : CTL_OK;
}

const struct ctl_command reconcile_run_command = {
    .group = "reconcile",
    .verb = "run",
    .options = run_options,
    .n_options = sizeof(run_options) / sizeof(run_options[0]),
    .words = "",
    .help = "has a worker compare an item's units in both stores now, and mend\n"
            "Two rounds by reservation; what both found is put right where that is safe, also with "
            "reconcile.mend false. Then the\nfindings, as reconcile show; exit status 1 when there "
            "are any.\n",
    .run = run_run,
};
