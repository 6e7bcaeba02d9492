/* The calls of a rebuild, each a step's: made here, answered in w->rebuild.rc, and the flow goes on
 * (rebuild.c). Made again with the same values, each is the same call. Loop thread. */
#pragma once

#include "app/rebuild.h"

void rebuild_call_take(struct worker *w);
void rebuild_call_unreport(struct worker *w);
void rebuild_call_begin(struct worker *w);
void rebuild_call_lag(struct worker *w);
void rebuild_call_beat(struct worker *w); /* keeps nothing: a sign of life */
void rebuild_call_pending(struct worker *w);
void rebuild_call_keep(struct worker *w);
void rebuild_call_count(struct worker *w);
void rebuild_call_page(struct worker *w);
void rebuild_call_restore(struct worker *w);
void rebuild_call_resettle(struct worker *w);
void rebuild_call_end(struct worker *w);
void rebuild_call_finish(struct worker *w);

/* How many hold a unit. */
static inline int64_t rebuild_expected(const struct rebuild *r)
{
    return r->held.ordered + r->held.live;
}
