/* seckillctl actions list: what operators did. */
#include "adapter/pg/pg_actions.h"
#include "daemon/ctl/ctl.h"
#include <stdio.h>
#include <stdlib.h>

#define LIST_MAX 1000

struct list_args {
    int64_t before, limit;
    bool json;
};
static const struct args_option options[] = {
    {"before", ARGS_I64, offsetof(struct list_args, before), false, 1, INT64_MAX,
     "only ids below this one: the next page"},
    {"limit", ARGS_I64, offsetof(struct list_args, limit), false, 1, LIST_MAX, "at most (50)"},
    ARGS_JSON(struct list_args, json),
};

static void put(struct out *o, const struct pg_action *x)
{
    char item[64] = "";
    if (x->item.activity_id)
        snprintf(item, sizeof(item), "%lld:%lld", (long long)x->item.activity_id,
                 (long long)x->item.sku_id);
    out_record(o);
    out_i64(o, "id", x->id);
    out_time(o, "at", x->at_ms);
    out_str(o, "login", str_of(x->login));
    out_str(o, "operator", str_of(x->operator_name));
    out_str(o, "action", str_of(x->action));
    out_str(o, "item", str_of(item));
    out_str(o, "outcome", str_of(x->outcome));
    out_time(o, "finished_at", x->finished_ms ? x->finished_ms : -1);
    out_str(o, "detail", str_of(x->detail));
}

static int run(struct ctl *c, const struct ctl_command *self, int argc, char **argv)
{
    struct list_args a = {.limit = 50};
    char err[512] = "";
    int rc = ctl_args(self, &a, argc, argv, NULL, NULL);
    if (rc >= 0)
        return rc;
    int n = (int)a.limit;
    struct pg_action *rows = malloc(sizeof(*rows) * (size_t)n);
    if (!rows ||
        pg_actions_list(c->settings.pg.conninfo, a.before, rows, &n, err, sizeof(err)) < 0) {
        ctl_complain("actions list: %s", rows ? err : "no memory");
        free(rows);
        return CTL_FAILED;
    }
    struct out o;
    out_begin(&o, a.json, true);
    for (int i = 0; i < n; i++)
        put(&o, &rows[i]);
    free(rows);
    return out_end(&o) ? CTL_OK : CTL_UNKNOWN;
}

const struct ctl_command actions_list_command = {
    .group = "actions",
    .verb = "list",
    .options = options,
    .n_options = sizeof(options) / sizeof(options[0]),
    .words = "",
    .help =
        "what operators did, newest first\n"
        "One that stays STARTED is of a command that died: how far it came is not known, run it "
        "again.\n",
    .run = run,
};
