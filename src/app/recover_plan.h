/* What recovery may do with a reservation, and when (rules 28–31). Used by recover only; loop
 * thread.
 */
#pragma once

#include "app/recover_row.h"

/* Whether the queue has passed it, as far as is known, so that PostgreSQL is asked. */
bool recover_is_candidate(struct worker *w, struct recover_row *row);
/* What the item's queue has passed by its age is older than this, by the store's clock; where the
 * age is not known, what is old enough to be taken for it (rules 30, 31). */
int64_t recover_passed_before_ms(struct worker *w, struct item item);
/* Its plan, where the inbox has no outcome. */
void recover_make_plan(struct worker *w, struct recover_row *row, const struct orders_inbox *inbox);
/* Whether a reservation of that time (the store's clock) was held for max_hold while everything was
 * usable (rule 30). */
bool recover_held_long_enough(struct worker *w, int64_t created_at_ms);
/* Whether its plan may be carried out now: the rate, and the repeats of a publish (rule 29). */
bool recover_may_act(struct worker *w, const struct recover_row *row);
/* It is published again now. */
void recover_remember(struct worker *w, const struct recover_row *row);
