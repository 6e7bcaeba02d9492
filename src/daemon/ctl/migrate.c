/* migrate: brings the schema to this build's. */
#include "adapter/pg/pg.h"
#include "base/clock.h"
#include "base/err.h"
#include "daemon/ctl/ctl.h"

#define WAIT_US (INT64_C(10) * 1000 * 1000)
#define PAUSE_US (INT64_C(100) * 1000)

struct migrate_args {
    bool json;
};
static const struct args_option options[] = {ARGS_JSON(struct migrate_args, json)};

static int run(struct ctl *c, const struct ctl_command *self, int argc, char **argv)
{
    struct migrate_args a = {0};
    char err[1024] = "";
    int rc = ctl_args(self, &a, argc, argv, NULL, NULL), applied;
    if (rc >= 0)
        return rc;
    if (!ctl_loop(c))
        return CTL_FAILED;
    int64_t give_up_us = clock_mono_us() + WAIT_US;
    /* Only while it cannot be reached: each migration is one transaction, so again is always right.
     */
    while ((applied = pg_migrate(c->settings.pg.conninfo, err, sizeof(err))) == ERR_UNAVAIL &&
           clock_mono_us() < give_up_us)
        ctl_sleep(c, PAUSE_US);
    if (applied < 0) {
        ctl_complain("migrate: %s", err);
        return CTL_FAILED;
    }
    struct out o;
    out_begin(&o, a.json, false);
    out_record(&o);
    out_i64(&o, "applied", applied);
    return out_end(&o) ? CTL_OK : CTL_UNKNOWN;
}

const struct ctl_command migrate_command = {
    .group = "migrate",
    .options = options,
    .n_options = 1,
    .words = "",
    .help = "brings PostgreSQL's schema to this build's\n"
            "Waits up to 10 s for PostgreSQL. By a direct connection; one through PgBouncer is "
            "refused.\n",
    .run = run,
};
