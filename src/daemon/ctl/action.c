#include "daemon/ctl/action.h"

#include "adapter/pg/pg_actions.h"
#include "base/err.h"
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const char *const names[ACTION_OUTCOMES] = {
    [ACTION_PLANNED] = "PLANNED", [ACTION_DONE] = "DONE",     [ACTION_NOTHING] = "NOTHING",
    [ACTION_REFUSED] = "REFUSED", [ACTION_FAILED] = "FAILED", [ACTION_UNKNOWN] = "UNKNOWN",
};

const char *action_outcome_name(enum action_outcome o)
{
    return names[o];
}

enum action_outcome action_outcome_of(int rc)
{
    return rc >= 0 ? ACTION_DONE : err_is_unknown(rc) ? ACTION_UNKNOWN : ACTION_FAILED;
}

/* Who sits there: behind sudo it is the one who called it. It is told and not proven; that is the
 * database's `operator`. */
static struct str login(char *mem, size_t cap)
{
    char host[64] = "";
    const char *user = getenv("SUDO_USER");
    const struct passwd *entry = user ? NULL : getpwuid(getuid());
    if (entry)
        user = entry->pw_name;
    if (gethostname(host, sizeof(host) - 1) < 0)
        host[0] = 0;
    if (user)
        snprintf(mem, cap, "%s@%s", user, host);
    else
        snprintf(mem, cap, "uid %lld@%s", (long long)getuid(), host);
    return str_of(mem);
}

int action_begin(struct action *a, struct ctl *c, bool yes, const char *what, struct item item,
                 struct str detail)
{
    char who[160], err[512] = "";
    *a = (struct action){.c = c, .what = what, .acting = yes};
    if (!yes || pg_action_begin(c->settings.pg.conninfo, login(who, sizeof(who)), str_of(what),
                                item, detail, &a->id, err, sizeof(err)) == 0)
        return CTL_OK;
    ctl_complain("%s: nothing was done, because it could not be recorded: %s", what, err);
    return CTL_FAILED;
}

int action_end(struct action *a, enum action_outcome outcome, struct str detail)
{
    char err[512] = "it has an end already";
    if (a->acting && pg_action_end(a->c->settings.pg.conninfo, a->id, str_of(names[outcome]),
                                   detail, err, sizeof(err)) != 0)
        ctl_complain("%s: %s, and that could not be recorded (action %lld): %s", a->what,
                     names[outcome], (long long)a->id, err);
    switch (outcome) {
    case ACTION_REFUSED:
    case ACTION_FAILED:
        return CTL_FAILED;
    case ACTION_UNKNOWN:
        return CTL_UNKNOWN;
    default:
        return CTL_OK;
    }
}

void action_print(struct out *o, enum action_outcome outcome)
{
    bool planned = outcome == ACTION_PLANNED && !o->json;
    out_str(o, "outcome",
            planned ? STR("PLANNED: nothing was changed; --yes does it") : str_of(names[outcome]));
}
