/* audit: waits until nothing is on its way, reads everything, and says what holds. */
#include "base/clock.h"
#include "base/json.h"
#include "daemon/ctl/audit.h"
#include "daemon/ctl/item_args.h"
#include <stdio.h>

#define TURNS 5 /* readings until an item that moves under our eyes is given up */
#define PAUSE_US (INT64_C(200) * 1000)
#define AWAY_US (INT64_C(1000) * 1000)

struct audit_args {
    struct item item;
    int64_t wait_us;
    struct str history;
    bool json;
};
static const struct args_option options[] = {
    ARGS_ITEM(struct audit_args, item),
    {"history", ARGS_TEXT, offsetof(struct audit_args, history),
     .help = "what a storm wrote with --history"},
    {"wait", ARGS_DURATION, offsetof(struct audit_args, wait_us), false, 0,
     INT64_C(86400) * 1000000, "first wait until nothing is on its way, at most so long (0)"},
    ARGS_JSON(struct audit_args, json),
};

static const struct {
    const char *id, *title;
} checks[AUDIT_CHECKS] = {
    [AUDIT_I1] = {"I1", "nothing is oversold, active orders are what is sold"},
    [AUDIT_I2] = {"I2", "one active order per buyer"},
    [AUDIT_I3] = {"I3", "every accepted request is final"},
    [AUDIT_I4] = {"I4", "one order and one unit per request, reservation, message"},
    [AUDIT_I5] = {"I5", "no unit is lost or made"},
    [AUDIT_I6] = {"I6", "nothing is invented"},
    [AUDIT_I7] = {"I7", "Redis, PostgreSQL and all answers agree"},
    [AUDIT_SEED_ONE_ORDER] = {"seed-one-order", "13.6: one order per buyer"},
    [AUDIT_SEED_OVERSOLD] = {"seed-oversold", "13.6: not oversold"},
    [AUDIT_SEED_INBOX] = {"seed-inbox", "13.6: no message is processed for ever"},
};

static void audit_connect(struct audit *a)
{
    pg_audit_free(a->pg);
    a->pg = pg_audit_new(a->c->settings.pg.conninfo, a->c->settings.pg.connect_us, a->item);
}

static void reset_checks(struct audit *a)
{
    memset(a->checks, 0, sizeof(a->checks));
    for (int i = 0; i < AUDIT_CHECKS; i++) {
        a->checks[i].id = checks[i].id;
        a->checks[i].title = checks[i].title;
    }
}

/* 0, whether it became quiet or the time is over (then the checks say what is left); else the exit
 * status. A store that is away is waited for, too. */
static int wait_quiet(struct audit *a, int64_t wait_us)
{
    int64_t give_up_us = clock_mono_us() + wait_us;
    for (;;) {
        struct stock_item_info info;
        int64_t unsettled, quarantined;
        int rc = item_in_redis(a->c, "audit", a->item, &info);
        if (rc == 1)
            return 0; /* audit_read_redis tells it */
        if (rc < 0 || audit_pg_waiting(a, &unsettled, &quarantined) != 0) {
            if (clock_mono_us() >= give_up_us)
                return CTL_UNKNOWN;
            audit_connect(a);
            ctl_sleep(a->c, AWAY_US);
            continue;
        }
        bool over = clock_mono_us() >= give_up_us;
        a->waited_in_vain = over && unsettled > 0;
        if (over || (info.pending <= quarantined && unsettled == 0))
            return 0;
        ctl_sleep(a->c, PAUSE_US);
    }
}

static bool same(const struct stock_item_info *x, const struct stock_item_info *y)
{
    return item_version_cmp(x->version, y->version) == 0 && x->free == y->free &&
           x->buyers == y->buyers && x->pending == y->pending && x->total == y->total;
}

/* One reading of all sides. 0; 1: something moved meanwhile; else the exit status, + 1. */
static int read_once(struct audit *a)
{
    struct stock_item_info after;
    int64_t unsettled, quarantined, sold;
    struct pg_activity item;
    reset_checks(a);
    audit_model_clear_stores(&a->model);
    if (audit_read_redis(a) != 0 || audit_read_pg(a) != 0 || audit_check_pg(a) != 0)
        return CTL_UNKNOWN + 1;
    sold = a->counts.sold;
    if (audit_pg_waiting(a, &unsettled, &quarantined) != 0 ||
        item_in_pg(a->c, "audit", a->item, &item) != 0 ||
        item_in_redis(a->c, "audit", a->item, &after) != 0)
        return CTL_UNKNOWN + 1;
    return !same(&a->counts.info, &after) || sold != item.sold || unsettled != a->counts.unsettled;
}

static bool holds(const struct audit *a)
{
    for (int i = 0; i < AUDIT_CHECKS; i++) {
        if (a->checks[i].broken)
            return false;
    }
    return true;
}

static int named(const struct audit_check *k)
{
    return k->broken < AUDIT_NAMED ? (int)k->broken : AUDIT_NAMED;
}

static void tell_text(const struct audit *a)
{
    const struct audit_counts *n = &a->counts;
    for (int i = 0; i < AUDIT_CHECKS; i++) {
        const struct audit_check *k = &a->checks[i];
        printf("  %-7s %-15s %s%s%s\n",
               k->broken    ? "BROKEN"
               : k->skipped ? "-"
                            : "ok",
               k->id, k->title, k->note[0] ? ": " : "", k->note);
        for (int j = 0; j < named(k); j++)
            printf("            %s\n", k->named[j]);
        if (k->broken > named(k))
            printf("            … and %lld more\n", (long long)(k->broken - named(k)));
    }
    printf("  Redis: %lld records, %lld buyers, %lld pending, %lld free. PostgreSQL: %lld orders, "
           "%lld unsettled.\n",
           (long long)n->records, (long long)n->buyers, (long long)n->pending,
           (long long)n->info.free, (long long)n->orders, (long long)n->unsettled);
    if (n->dead_letters)
        printf("  %lld dead letters (dead-letters list)\n", (long long)n->dead_letters);
    if (n->other_items)
        printf("  %lld lines of the history are about other items\n", (long long)n->other_items);
    printf("audit of %lld:%lld: %s\n", (long long)a->item.activity_id, (long long)a->item.sku_id,
           holds(a) ? "everything holds" : "BROKEN");
}

static void tell_json(const struct audit *a)
{
    const struct audit_counts *n = &a->counts;
    struct strbuf b;
    strbuf_init(&b, 1 << 20);
    strbuf_printf(&b, "{\"activity_id\":%lld,\"sku_id\":%lld,\"ok\":%s,\"checks\":[",
                  (long long)a->item.activity_id, (long long)a->item.sku_id,
                  holds(a) ? "true" : "false");
    for (int i = 0; i < AUDIT_CHECKS; i++) {
        const struct audit_check *k = &a->checks[i];
        strbuf_printf(&b, "%s\n {\"id\":\"%s\",\"title\":", i ? "," : "", k->id);
        json_add_string(&b, str_of(k->title));
        strbuf_printf(&b, ",\"result\":\"%s\",\"broken\":%lld,\"note\":",
                      k->broken    ? "broken"
                      : k->skipped ? "skipped"
                                   : "ok",
                      (long long)k->broken);
        json_add_string(&b, str_of(k->note));
        strbuf_add_str(&b, STR(",\"offenders\":["));
        for (int j = 0; j < named(k); j++) {
            if (j > 0)
                strbuf_add_char(&b, ',');
            json_add_string(&b, str_of(k->named[j]));
        }
        strbuf_add_str(&b, STR("]}"));
    }
    const struct {
        const char *name;
        int64_t value;
    } counts[] = {
        {"total", n->total},
        {"sold", n->sold},
        {"orders", n->orders},
        {"active_orders", n->active},
        {"unsettled", n->unsettled},
        {"completed", n->completed},
        {"rejected", n->rejected},
        {"quarantined", n->quarantined},
        {"records", n->records},
        {"pending", n->pending},
        {"buyers", n->buyers},
        {"free", n->info.free},
        {"invoked", n->invoked},
        {"accepted", n->accepted},
        {"other_items", n->other_items},
        {"dead_letters", n->dead_letters},
    };
    strbuf_add_str(&b, STR("],\n \"counts\":{"));
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
        strbuf_printf(&b, "%s\"%s\":%lld", i ? "," : "", counts[i].name,
                      (long long)counts[i].value);
    strbuf_add_str(&b, STR("}}\n"));
    fwrite(b.ptr, 1, b.len, stdout);
    strbuf_deinit(&b);
}

static int audit(struct audit *a, const struct audit_args *args)
{
    char path[4096];
    int rc = 0;
    if (args->history.ptr) {
        if (!str_copy(path, sizeof(path), args->history)) {
            ctl_complain("audit: the history's path is too long");
            return CTL_USAGE;
        }
        if ((rc = audit_read_history(a, path)) != 0)
            return rc;
    }
    if (args->wait_us > 0 && (rc = wait_quiet(a, args->wait_us)) != 0)
        return rc;
    for (int turn = 0; turn < TURNS; turn++) {
        rc = read_once(a);
        if (rc != 1)
            break;
        ctl_sleep(a->c, PAUSE_US);
    }
    if (rc == 1) {
        ctl_complain("audit: the item is in use: what was read of its parts does not belong "
                     "together. Pause it, or --wait");
        return CTL_UNKNOWN;
    }
    if (rc > 1)
        return rc - 1;
    audit_check_model(a);
    if (args->json)
        tell_json(a);
    else
        tell_text(a);
    fflush(stdout);
    return holds(a) ? CTL_OK : CTL_FAILED;
}

static int run(struct ctl *c, const struct ctl_command *self, int argc, char **argv)
{
    struct audit_args args = {0};
    static struct audit a; /* the offenders' names are 40 KB */
    int rc = ctl_args(self, &args, argc, argv, NULL, NULL);
    if (rc >= 0)
        return rc;
    a = (struct audit){.c = c, .item = args.item};
    audit_connect(&a);
    rc = audit(&a, &args);
    pg_audit_free(a.pg);
    audit_model_deinit(&a.model);
    return rc;
}

const struct ctl_command audit_command = {
    .group = "audit",
    .options = options,
    .n_options = sizeof(options) / sizeof(options[0]),
    .words = "",
    .help = "checks an item's invariants I1–I7 and the seed's SQL\n"
            "Reads Redis, PostgreSQL and, with --history, what was asked and answered; names the "
            "offenders, 20 of each\ncheck. 0: all holds. 1: something is broken. 3: it could not "
            "be checked, which is not ok.\n",
    .run = run,
};
