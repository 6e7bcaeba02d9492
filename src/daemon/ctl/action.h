/* What an operator changes by hand: only shown without --yes, and recorded with it. The record
 * (operator_actions) is written before anything is done and gets its end after: who, what, when,
 * how it ended. A command reads:
 *
 *     look at both stores, so that the plan is true
 *     rc = action_begin(&action, c, args.yes, "order cancel", item, detail);
 *     if (rc != CTL_OK)
 *         return rc;                        nothing may be done that is not recorded
 *     outcome = action.acting ? do it : ACTION_PLANNED;
 *     rc = action_end(&action, outcome, detail);
 *     print the plan's fields, then action_print(&out, outcome)
 *     return rc;
 *
 * A dry run is not recorded. One thread. */
#pragma once

#include "daemon/ctl/ctl.h"

/* The three results of every hop, and what an operator has to know beside them. */
enum action_outcome {
    ACTION_PLANNED, /* a dry run: nothing was done */
    ACTION_DONE,
    ACTION_NOTHING, /* there was nothing to do (any more) */
    ACTION_REFUSED, /* the rules forbid it, nothing was done */
    ACTION_FAILED,  /* certainly not done */
    ACTION_UNKNOWN, /* it may be done: look, then run it again */
    ACTION_OUTCOMES
};
/* done, not done or unknown: of an error (base/err.h). */
enum action_outcome action_outcome_of(int rc);

/* The flag, for a table of options. */
#define ARGS_YES(type_, member_)                                                                   \
    {                                                                                              \
        "yes", ARGS_FLAG, offsetof(type_, member_),                                                \
            .help = "do it; without this, only what would be done is shown"                        \
    }

struct action {
    struct ctl *c;
    const char *what; /* "order cancel": its name in operator_actions, and in complaints */
    bool acting;      /* --yes */
    int64_t id;       /* of its row; 0: not acting */
};

/* item {0, 0}: of none. detail: a JSON object of what is to be done, or empty; borrowed until it
 * returns. CTL_OK: go on. Else complained; the record could not be written, so do nothing. */
int action_begin(struct action *a, struct ctl *c, bool yes, const char *what, struct item item,
                 struct str detail);
/* detail: a JSON object of what came of it, merged into the first. The command's exit status: done,
 * nothing or planned CTL_OK, refused and failed CTL_FAILED, unknown CTL_UNKNOWN. An end that cannot
 * be recorded is complained of and changes no status: the row stays STARTED. */
int action_end(struct action *a, enum action_outcome outcome, struct str detail);
/* The field `outcome`, last of a record; and for people that a dry run changed nothing. */
void action_print(struct out *o, enum action_outcome outcome);
