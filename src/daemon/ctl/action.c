#include "daemon/ctl/action.h"

#include "adapter/pg/pg_actions.h"
#include "base/err.h"
#include <stdio.h>

static const char *const names[ACTION_OUTCOMES] = {
    [ACTION_PLANNED] = "PLANNED", [ACTION_DONE] = "DONE",     [ACTION_NOTHING] = "NOTHING",
    [ACTION_REFUSED] = "REFUSED", [ACTION_FAILED] = "FAILED", [ACTION_UNKNOWN] = "UNKNOWN",
};

enum action_outcome action_outcome_of(int rc)
{
    return rc >= 0 ? ACTION_DONE : err_is_unknown(rc) ? ACTION_UNKNOWN : ACTION_FAILED;
}

int action_begin(struct action *a, struct ctl *c, bool yes, const char *what, struct item item,
                 struct str detail)
{
    char who[160], err[512] = "";
    *a = (struct action){.c = c, .what = what, .acting = yes};
    if (!yes || pg_action_begin(c->settings.pg.conninfo, ctl_login(who, sizeof(who)), str_of(what),
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
