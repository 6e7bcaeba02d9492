/* audit: waits until nothing is on its way, reads everything, and says what holds. */
#include "base/clock.h"
#include "base/json.h"
#include "daemon/ctl/audit.h"
#include "daemon/ctl/item_args.h"
#include <stdio.h>

#define TURNS 5 /* readings until an item that moves under our eyes is given up */
#define PAUSE_US (INT64_C(200) * 1000)

struct audit_args {
    struct item item;
    int64_t wait_us;
    int64_t max_memory_mb, drain_us;
    struct str history, metrics;
    bool sold_out, strict, json;
};
static const struct args_option options[] = {
    ARGS_ITEM(struct audit_args, item),
    {"history", ARGS_TEXT, offsetof(struct audit_args, history),
     .help = "what buyers sent and heard: a storm's --history, or of the same form"},
    {"metrics", ARGS_TEXT, offsetof(struct audit_args, metrics),
     .help = "what was seen of the programs: snapshots of their metrics, faults"},
    {"wait", ARGS_DURATION, offsetof(struct audit_args, wait_us), false, 0,
     INT64_C(86400) * 1000000, "first wait until nothing is on its way, at most so long (0)"},
    {"drain", ARGS_DURATION, offsetof(struct audit_args, drain_us), false, 0,
     INT64_C(86400) * 1000000, "with --metrics: it is so after the last fault, at most (30s)"},
    {"sold-out", ARGS_FLAG, offsetof(struct audit_args, sold_out),
     .help = "buyers kept asking to the end: everything must be sold (I10)"},
    {"max-memory", ARGS_I64, offsetof(struct audit_args, max_memory_mb), false, 1, 1 << 20,
     "MB that a program may use (I8, with --metrics)"},
    {"strict", ARGS_FLAG, offsetof(struct audit_args, strict),
     .help = "what there is nothing to check with is not ok: 3"},
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
    [AUDIT_I8] = {"I8", "what is bounded by configuration stays within it"},
    [AUDIT_I9] = {"I9", "few attempts, few retries"},
    [AUDIT_I10] = {"I10", "it drains after the last fault, and all is sold"},
    [AUDIT_I11] = {"I11", "the metrics tell what happened"},
    [AUDIT_SEED_ONE_ORDER] = {"seed-one-order", "13.6: one order per buyer"},
    [AUDIT_SEED_OVERSOLD] = {"seed-oversold", "13.6: not oversold"},
    [AUDIT_SEED_INBOX] = {"seed-inbox", "13.6: no message is processed for ever"},
};

static void reset_checks(struct audit *a)
{
    memset(a->checks, 0, sizeof(a->checks));
    for (int i = 0; i < AUDIT_CHECKS; i++) {
        a->checks[i].id = checks[i].id;
        a->checks[i].title = checks[i].title;
    }
}

static bool same(const struct stock_item_info *x, const struct stock_item_info *y)
{
    return item_version_cmp(x->version, y->version) == 0 && x->state == y->state &&
           x->free == y->free && x->buyers == y->buyers && x->pending == y->pending &&
           x->total == y->total;
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

/* Nothing is broken; whether all of it was checked. */
static bool all_checked(const struct audit *a, bool strict)
{
    for (int i = 0; i < AUDIT_CHECKS; i++) {
        if (a->checks[i].unknown || (strict && a->checks[i].skipped))
            return false;
    }
    return true;
}

static const char *result(const struct audit_check *k)
{
    return k->broken ? "broken" : k->unknown ? "unknown" : k->skipped ? "skipped" : "ok";
}

static int named(const struct audit_check *k)
{
    return k->broken < AUDIT_NAMED ? (int)k->broken : AUDIT_NAMED;
}

static void tell_text(const struct audit *a, bool checked)
{
    const struct audit_counts *n = &a->counts;
    for (int i = 0; i < AUDIT_CHECKS; i++) {
        const struct audit_check *k = &a->checks[i];
        printf("  %-7s %-15s %s%s%s\n", k->broken ? "BROKEN" : result(k), k->id, k->title,
               k->note[0] ? ": " : "", k->note);
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
           !holds(a) ? "BROKEN"
           : checked ? "everything holds"
                     : "NOT CHECKED in full");
}

static void tell_json(const struct audit *a, bool checked)
{
    const struct audit_counts *n = &a->counts;
    struct strbuf b;
    strbuf_init(&b, 1 << 20);
    strbuf_printf(&b, "{\"activity_id\":%lld,\"sku_id\":%lld,\"ok\":%s,\"checks\":[",
                  (long long)a->item.activity_id, (long long)a->item.sku_id,
                  holds(a) && checked ? "true" : "false");
    for (int i = 0; i < AUDIT_CHECKS; i++) {
        const struct audit_check *k = &a->checks[i];
        strbuf_printf(&b, "%s\n {\"id\":\"%s\",\"title\":", i ? "," : "", k->id);
        json_add_string(&b, str_of(k->title));
        strbuf_printf(&b, ",\"result\":\"%s\",\"broken\":%lld,\"note\":", result(k),
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
        {"told", n->told},
        {"buyers_asked", n->buyers_asked},
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

/* Both files are read before anything is waited for: they may be wrong. */
static int read_files(struct audit *a, const struct audit_args *args)
{
    char path[4096];
    int rc = 0;
    for (int i = 0; i < 2 && rc == 0; i++) {
        struct str file = i == 0 ? args->history : args->metrics;
        if (!file.ptr)
            continue;
        if (!str_copy(path, sizeof(path), file)) {
            ctl_complain("audit: a file's path is too long");
            return CTL_USAGE;
        }
        rc = i == 0 ? audit_read_history(a, path) : audit_read_observed(a, path);
    }
    return rc;
}

static int audit(struct audit *a, const struct audit_args *args)
{
    a->drain.began_us = clock_wall_us();
    int rc = read_files(a, args);
    if (rc == 0 && args->wait_us > 0)
        rc = audit_wait_drained(a, args->wait_us);
    if (rc != 0)
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
    audit_check_drained(a);
    audit_check_observed(a);
    bool checked = all_checked(a, args->strict);
    if (args->json)
        tell_json(a, checked);
    else
        tell_text(a, checked);
    fflush(stdout);
    return !holds(a) ? CTL_FAILED : checked ? CTL_OK : CTL_UNKNOWN;
}

static int run(struct ctl *c, const struct ctl_command *self, int argc, char **argv)
{
    struct audit_args args = {.drain_us = INT64_C(30) * 1000 * 1000};
    static struct audit a; /* the offenders' names are 40 KB */
    int rc = ctl_args(self, &args, argc, argv, NULL, NULL);
    if (rc >= 0)
        return rc;
    a = (struct audit){.c = c,
                       .item = args.item,
                       .sold_out = args.sold_out,
                       .drain_us = args.drain_us,
                       .max_memory = args.max_memory_mb * 1000000};
    audit_connect(&a);
    rc = audit(&a, &args);
    pg_audit_free(a.pg);
    audit_model_deinit(&a.model);
    observed_deinit(&a.observed);
    return rc;
}

const struct ctl_command audit_command = {
    .group = "audit",
    .options = options,
    .n_options = sizeof(options) / sizeof(options[0]),
    .words = "",
    .help =
        "checks an item's invariants I1–I11 and the seed's SQL\n"
        "Reads Redis, PostgreSQL, the queue and, with --history and --metrics, what buyers heard "
        "and the programs told;\nnames the offenders, 20 of each check (docs/audit.md). 0: "
        "all that was checked holds. 1: something is broken.\n3: it could not be checked, "
        "which is not ok.\n",
    .run = run,
};
