/* Messages that were delivered four times and more without an outcome and without an own failure:
 * they may be what ends the process each time (rule 23). They run only with suspects, 32 together
 * at delivery 4, 8 at 5, alone from 6; while there are any, nothing else is received or begun.
 *
 *   ask → run → …           the inbox and the record of failures first: whoever has an outcome or
 *                           own failures is no suspect and goes to its lane
 *   run alone: begin → place → clear      begin tells how many lives ended with it alone:
 *                                         from three on it is buried instead
 *
 * Invariant: at most one of ask, begin, place, clear, burial is under way (busy). Loop thread. */
#pragma once

#include "app/share.h"
#include "base/ctx.h"
#include "base/list.h"
#include "port/orders.h"

#define SUSPECTS_ASK_MAX 64

struct worker;
struct work;

struct suspects {
    struct list unasked, known; /* struct work.link */
    int n_unasked, n_known;
    bool busy, running; /* running: known ones are being placed */
    struct share_job job;
    struct ctx ctx;
    struct work *asked[SUSPECTS_ASK_MAX];
    int n_asked;
    struct uuid ids[SUSPECTS_ASK_MAX];
    struct orders_inbox inbox[SUSPECTS_ASK_MAX];
    int counts[SUSPECTS_ASK_MAX];
    struct uuid alone;
    int dead_alone;
    struct work *alone_work;
    struct item item; /* of the running */
};

void suspects_init(struct worker *w);
void suspects_add(struct work *k);
/* Goes on if it can. */
void suspects_poke(struct worker *w);
/* None in hand: receiving is allowed. */
bool suspects_none(const struct worker *w);
/* Healthy messages must not be begun now. */
bool suspects_hold(const struct worker *w);
/* Whether a waiting work waits here; and takes it out. */
bool suspects_has(const struct work *k);
void suspects_remove(struct work *k);
