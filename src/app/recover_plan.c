#include "app/recover_plan.h"

#include "app/worker.h"

/* A reservation is older than its message by the time that publishing took, and the broker has a
 * clock of its own: the one whose message is the oldest must not be taken for passed. */
#define AGE_SLACK_US 1000000

static int64_t age_us(struct worker *w, const struct reservation *res)
{
    return (worker_wall_ms(w) + w->recover.skew_ms - res->created_at_ms) * 1000;
}

/* Where the transport does not say it (rule 30): the queue has passed what is older than the oldest
 * that waits, or that any worker has in its hands. That age, or 0: nothing waits; -1: unknown. */
static int64_t oldest_us(struct worker *w, struct item item)
{
    const struct catalog_backlog *backlog = catalog_backlog(w, item);
    /* A queue that tells of its positions tells of what all consumers hold, too. */
    int64_t fleet_ms = w->catalog.one_queue ? health_fleet_age_ms(w) : 0;
    if (!backlog || fleet_ms < 0)
        return -1;
    if (backlog->waiting + backlog->in_hand == 0 && fleet_ms == 0)
        return 0;
    int64_t oldest_ms = backlog->oldest_age_ms > fleet_ms ? backlog->oldest_age_ms : fleet_ms;
    return oldest_ms * 1000 + AGE_SLACK_US;
}

static void judge_by_age(struct worker *w, struct recover_row *row)
{
    int64_t oldest = oldest_us(w, row->item);
    row->position_known = oldest >= 0;
    if (row->position_known)
        row->position = oldest == 0 || oldest < age_us(w, &row->r) ? QUEUE_PASSED : QUEUE_WAITING;
}

int64_t recover_passed_before_ms(struct worker *w, struct item item)
{
    int64_t age = oldest_us(w, item);
    if (age < 0)
        age = w->cfg.recover_unknown_age_us;
    if (age < w->cfg.recover_after_us)
        age = w->cfg.recover_after_us;
    return worker_wall_ms(w) + w->recover.skew_ms - age / 1000;
}

bool recover_is_candidate(struct worker *w, struct recover_row *row)
{
    struct recover *r = &w->recover;
    if (!row->position_known)
        judge_by_age(w, row);
    if (!row->position_known) {
        r->unknown++;
        r->unknown_seen++;
        return age_us(w, &row->r) >= w->cfg.recover_unknown_age_us; /* rule 31 */
    }
    if (row->position == QUEUE_WAITING)
        r->waiting++;
    return row->position == QUEUE_PASSED;
}

bool recover_held_long_enough(struct worker *w, int64_t created_at_ms)
{
    int64_t since = created_at_ms - w->recover.skew_ms;
    if ((worker_wall_ms(w) - since) * 1000 < w->cfg.max_hold_us)
        return false;
    return health_usable_since_us(w, since) >= w->cfg.max_hold_us;
}

/* Rule 30: both, however often it was published. */
static bool may_void(struct worker *w, const struct recover_row *row)
{
    return row->position_known && recover_held_long_enough(w, row->r.created_at_ms);
}

static bool quarantine_over(struct worker *w, const struct recover_row *row)
{
    if (w->cfg.quarantine_hold_us > 0)
        return age_us(w, &row->r) >= w->cfg.quarantine_hold_us;
    return w->recover.ends_ms > 0 && worker_wall_ms(w) + w->recover.skew_ms >= w->recover.ends_ms;
}

void recover_make_plan(struct worker *w, struct recover_row *row, const struct orders_inbox *inbox)
{
    if (inbox->found) {
        /* Quarantined: held until it is replayed or its hold is over (rule 25). */
        if (quarantine_over(w, row)) {
            row->plan = RECOVER_VOID;
            row->reason = REASON_GIVEN_UP;
        }
        return;
    }
    if (may_void(w, row)) {
        row->plan = RECOVER_VOID;
        row->reason = REASON_VOID;
    } else if (row->r.republished < w->cfg.max_republish || !row->position_known) {
        row->plan = RECOVER_PUBLISH;
    }
}

/* --- how fast --- */

static bool take_token(struct worker *w)
{
    struct recover *r = &w->recover;
    double rate = w->cfg.recover_rate;
    r->tokens += (double)(w->sched->now_us - r->tokens_at_us) * rate / 1e6;
    r->tokens_at_us = w->sched->now_us;
    r->tokens = r->tokens > rate ? rate : r->tokens;
    if (r->tokens < 1)
        return false;
    r->tokens -= 1;
    return true;
}

static uint64_t key_of(const struct reservation *res)
{
    uint64_t key;
    memcpy(&key, res->reservation_id.b + 8, sizeof key); /* the random half */
    return key;
}

/* What was published again has to be met by the queue first, the longer the more often; where the
 * answer of the publish was lost nothing else tells. */
static bool published_lately(struct worker *w, const struct recover_row *row)
{
    uint64_t at;
    if (!map_get(&w->recover.published, key_of(&row->r), &at))
        return false;
    int shift = row->r.republished < 6 ? row->r.republished : 6;
    return w->sched->now_us - (int64_t)at < w->cfg.recover_after_us << shift;
}

bool recover_may_act(struct worker *w, const struct recover_row *row)
{
    if (row->plan == RECOVER_LEAVE || !health_usable(w))
        return false;
    if (row->plan == RECOVER_VOID)
        return true;
    /* Rule 29: what waits in the queue comes first. */
    return w->intake.last_full_round_us >= w->health.breaker.closed_at_us &&
           w->intake.last_full_round_us >= 0 && !published_lately(w, row) && take_token(w);
}

void recover_remember(struct worker *w, const struct recover_row *row)
{
    struct map *m = &w->recover.published;
    /* Full: forgetting costs an early repeat at worst, which the inbox answers. */
    if (m->n >= RECOVER_REMEMBERED) {
        map_deinit(m);
        map_init(m, RECOVER_REMEMBERED);
    }
    map_put(m, key_of(&row->r), (uint64_t)w->sched->now_us);
}
