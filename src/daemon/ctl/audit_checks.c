/* The checks over what the history, Redis and PostgreSQL say about each request. */
#include "daemon/ctl/audit.h"

#include <stdarg.h>
#include <stdio.h>

void audit_broken(struct audit *a, enum audit_check_id id, const char *fmt, ...)
{
    struct audit_check *k = &a->checks[id];
    if (k->broken < AUDIT_NAMED) {
        va_list ap;
        va_start(ap, fmt);
        vsnprintf(k->named[k->broken], AUDIT_NAME, fmt, ap);
        va_end(ap);
    }
    k->broken++;
}

struct audit_name audit_name(const struct audit *a, uint32_t request)
{
    const struct audit_request *r = &a->model.requests[request];
    struct audit_name n;
    snprintf(n.z, sizeof(n.z), "user %lld, request %s", (long long)r->user, uuid_text(&r->key).z);
    return n;
}
#define NAME(a, request) (audit_name(a, request).z)
#define STATE(v) STR_ARG(verdict_state_name((v).state))

/* --- I3: every acceptance ends, and nobody is left in between --- */

/* Rule 37: accepted in an epoch that is over, and gone with it. With their token the buyer hears
 * LOST_RESERVATION, which is final; no row anywhere says so. What PostgreSQL has decided is in no
 * epoch. */
static bool is_lost(const struct audit *a, int64_t known_us, const struct audit_told *t)
{
    return a->counts.pg.epoch > 1 &&
           ((t && t->lost) || known_us / 1000 < a->counts.pg.epoch_ms + AUDIT_EPOCH_SLACK_MS);
}

/* Another than that it is lost. */
static bool was_told_an_end(const struct audit_told *t)
{
    unsigned open = 1u << VERDICT_QUEUED | 1u << VERDICT_PROCESSING;
    return t && t->states & ~open & ~(t->lost ? 1u << VERDICT_FAILED : 0);
}

/* The system itself said so of a request: to its POST, or, where that answer was lost, to the
 * status call. */
static int64_t known_us(const struct audit_request *r, const struct audit_told *t)
{
    if (r->accepted)
        return r->accepted_us;
    for (int rank = 1; t && rank < AUDIT_RANKS; rank++) {
        if (t->first_us[rank])
            return t->first_us[rank];
    }
    return 0;
}

static void check_known(struct audit *a, uint32_t i, int64_t *final, int64_t *lost)
{
    const struct audit_request *r = &a->model.requests[i];
    const struct audit_told *t = r->told == AUDIT_NONE ? NULL : &a->model.told[r->told];
    const struct audit_stored *s = r->stored == AUDIT_NONE ? NULL : &a->model.stored[r->stored];
    int64_t at_us = known_us(r, t);
    if (!at_us)
        return;
    if (s && ((s->record && verdict_terminal(s->verdict.state)) || s->inbox == AUDIT_COMPLETED ||
              s->inbox == AUDIT_REJECTED))
        *final += r->accepted;
    else if (!s && was_told_an_end(t))
        audit_broken(a, AUDIT_I3, "%s: was told an end, and is nowhere now (order %lld)",
                     NAME(a, i), (long long)r->order_id);
    else if (!s && is_lost(a, at_us, t))
        ++*lost;
    else if (!s || (!s->record && s->inbox != AUDIT_QUARANTINED)) /* who waits is named below */
        audit_broken(a, AUDIT_I3, "%s: was %s, and is nowhere now (order %lld)", NAME(a, i),
                     r->accepted ? "accepted" : "told a state", (long long)r->order_id);
}

static void check_i3(struct audit *a)
{
    int64_t final = 0, lost = 0, waiting = 0;
    for (uint32_t i = 0; i < a->model.n_requests; i++)
        check_known(a, i, &final, &lost);
    for (uint32_t i = 0; i < a->model.n_stored; i++) {
        const struct audit_stored *s = &a->model.stored[i];
        if (!s->record || verdict_terminal(s->verdict.state) || s->inbox == AUDIT_QUARANTINED)
            continue;
        waiting++;
        audit_broken(a, AUDIT_I3, "%s: is " STR_FMT " in Redis, PostgreSQL %s", NAME(a, s->request),
                     STATE(s->verdict), s->inbox ? "has settled it" : "has not seen it");
    }
    snprintf(
        a->checks[AUDIT_I3].note, AUDIT_NAME,
        "%lld accepted answers, %lld of them final, %lld lost with an epoch; %lld waiting, %lld "
        "in quarantine",
        (long long)a->counts.accepted, (long long) final, (long long)lost, (long long)waiting,
        (long long)a->counts.quarantined);
}

/* --- I5: no unit is lost or made --- */

static void check_entries(struct audit *a, const struct audit_stored *s)
{
    const char *name = NULL;
    struct audit_name n;
    if (s->bad_record || s->pending || s->buyer || s->record) {
        n = audit_name(a, s->request);
        name = n.z;
    }
    if (s->bad_record)
        audit_broken(a, AUDIT_I5, "%s: the record in Redis cannot be read", name);
    if (s->pending && !audit_waits(s))
        audit_broken(a, AUDIT_I5, "%s: is in pending, but does not wait", name);
    if (!s->pending && audit_waits(s))
        audit_broken(a, AUDIT_I5, "%s: waits, but is not in pending", name);
    /* An entry may name an order that Redis lost the record of (rule 5). */
    bool stands = audit_holds(s) ? uuid_eq(&s->buyer_reservation, &s->record_reservation)
                                 : s->order == AUDIT_ACTIVE &&
                                       uuid_eq(&s->buyer_reservation, &s->order_reservation);
    if (s->buyer && !stands)
        audit_broken(a, AUDIT_I5, "%s: buyers has them with reservation %s, which holds no unit",
                     name, uuid_text(&s->buyer_reservation).z);
    /* It is what the buyer hears of "your order": the truth of it, which is not Redis's own. */
    int64_t order_id = s->order && uuid_eq(&s->buyer_reservation, &s->order_reservation)
                           ? s->order_id
                           : s->record_order_id;
    if (s->buyer && stands && s->buyer_order_id != order_id)
        audit_broken(a, AUDIT_I5, "%s: buyers has them with order %lld, it is order %lld", name,
                     (long long)s->buyer_order_id, (long long)order_id);
    if (!s->buyer && audit_holds(s) && !s->returning)
        audit_broken(a, AUDIT_I5, "%s: holds a unit and is not in buyers", name);
}

static void check_i5(struct audit *a)
{
    int64_t waiting = 0, active = 0, returning = 0;
    const struct audit_counts *n = &a->counts;
    for (uint32_t i = 0; i < a->model.n_stored; i++) {
        const struct audit_stored *s = &a->model.stored[i];
        check_entries(a, s);
        if (audit_waits(s)) {
            waiting++;
        } else if (s->order == AUDIT_ACTIVE) {
            active++;
            if (s->record && s->status == RESERVATION_RELEASED)
                audit_broken(a, AUDIT_I5, "%s: order %lld is active, its unit was given back",
                             NAME(a, s->request), (long long)s->order_id);
        } else if (audit_holds(s)) {
            if (s->returning)
                returning++;
            else
                audit_broken(a, AUDIT_I5, "%s: reservation %s holds a unit without an active order",
                             NAME(a, s->request), uuid_text(&s->record_reservation).z);
        }
    }
    int64_t sum = n->info.free + waiting + active + returning;
    snprintf(a->checks[AUDIT_I5].note, AUDIT_NAME,
             "free %lld + waiting %lld + active %lld + on their way back %lld = %lld of %lld",
             (long long)n->info.free, (long long)waiting, (long long)active, (long long)returning,
             (long long)sum, (long long)n->total);
    if (sum != n->total)
        audit_broken(a, AUDIT_I5, "the units do not add up: %lld, not %lld", (long long)sum,
                     (long long)n->total);
    if (n->info.total != n->total)
        audit_broken(a, AUDIT_I5, "Redis sells %lld units, PostgreSQL %lld",
                     (long long)n->info.total, (long long)n->total);
}

/* --- I6: nothing invented --- */

static void check_asked(struct audit *a, const struct audit_stored *s)
{
    const struct audit_request *r = &a->model.requests[s->request];
    if (r->asked > 0)
        return;
    if (s->order)
        audit_broken(a, AUDIT_I6, "%s: order %lld, which nobody asked for", NAME(a, s->request),
                     (long long)s->order_id);
    else if (s->record)
        audit_broken(a, AUDIT_I6, "%s: reservation %s, which nobody asked for", NAME(a, s->request),
                     uuid_text(&s->record_reservation).z);
}

static void check_told(struct audit *a, uint32_t i)
{
    const struct audit_request *r = &a->model.requests[i];
    if (r->told_order_id && !audit_user_has_order(&a->model, r->user, r->told_order_id))
        audit_broken(a, AUDIT_I6, "%s: was told to have order %lld, which is not theirs",
                     NAME(a, i), (long long)r->told_order_id);
    if (!r->accepted || r->stored == AUDIT_NONE)
        return; /* I3 */
    const struct audit_stored *s = &a->model.stored[r->stored];
    if (!audit_has_reservation(&a->model, s, &r->reservation_id))
        audit_broken(a, AUDIT_I6, "%s: was told reservation %s, which is not theirs", NAME(a, i),
                     uuid_text(&r->reservation_id).z);
    else if (s->order && uuid_eq(&s->order_reservation, &r->reservation_id) &&
             s->order_id != r->order_id)
        audit_broken(a, AUDIT_I6, "%s: was told order %lld, it is order %lld", NAME(a, i),
                     (long long)r->order_id, (long long)s->order_id);
}

static void check_i6(struct audit *a)
{
    if (!a->has_history) {
        a->checks[AUDIT_I6].skipped = true;
        snprintf(a->checks[AUDIT_I6].note, AUDIT_NAME, "needs --history");
        return;
    }
    for (uint32_t i = 0; i < a->model.n_stored; i++)
        check_asked(a, &a->model.stored[i]);
    int64_t unanswered = 0;
    for (uint32_t i = 0; i < a->model.n_requests; i++) {
        check_told(a, i);
        unanswered += a->model.requests[i].open;
        if (a->model.requests[i].unasked)
            audit_broken(a, AUDIT_I6, "%s: was answered more often than it asked", NAME(a, i));
    }
    snprintf(a->checks[AUDIT_I6].note, AUDIT_NAME,
             "%lld orders, %lld requests sent, %lld of them without an end",
             (long long)a->counts.orders, (long long)a->counts.invoked, (long long)unanswered);
}

/* --- I7: both sides say the same, and no answer takes another one back --- */

static void check_verdict(struct audit *a, const struct audit_stored *s)
{
    if (!s->record || !verdict_terminal(s->verdict.state) || s->unsettled)
        return;
    if (!s->inbox || s->inbox == AUDIT_QUARANTINED) {
        if (!s->order && s->verdict.reason != REASON_LOST_RESERVATION)
            audit_broken(a, AUDIT_I7, "%s: is " STR_FMT " in Redis, not settled in PostgreSQL",
                         NAME(a, s->request), STATE(s->verdict));
        return;
    }
    if (s->verdict.reason == REASON_LOST_ORDER && s->inbox == AUDIT_REJECTED)
        return; /* rule 3: it had an order, until PostgreSQL lost it */
    if (s->verdict.state != s->inbox_verdict.state || s->verdict.reason != s->inbox_verdict.reason)
        audit_broken(
            a, AUDIT_I7,
            "%s: is " STR_FMT " " STR_FMT " in Redis, " STR_FMT " " STR_FMT " in PostgreSQL",
            NAME(a, s->request), STATE(s->verdict), STR_ARG(verdict_reason_name(s->verdict.reason)),
            STATE(s->inbox_verdict), STR_ARG(verdict_reason_name(s->inbox_verdict.reason)));
    else if (!uuid_eq(&s->record_message, &s->inbox_message))
        audit_broken(a, AUDIT_I7, "%s: its message is %s in Redis, %s in PostgreSQL",
                     NAME(a, s->request), uuid_text(&s->record_message).z,
                     uuid_text(&s->inbox_message).z);
    else if (s->verdict.state == VERDICT_SUCCEEDED && s->order == AUDIT_ACTIVE &&
             s->order_id != s->record_order_id)
        audit_broken(a, AUDIT_I7, "%s: is order %lld in Redis, order %lld in PostgreSQL",
                     NAME(a, s->request), (long long)s->record_order_id, (long long)s->order_id);
}

static void check_i7(struct audit *a)
{
    int64_t compared = 0;
    audit_check_kept(a);
    for (uint32_t i = 0; i < a->model.n_stored; i++) {
        check_verdict(a, &a->model.stored[i]);
        compared += a->model.stored[i].record;
    }
    for (uint32_t i = 0; i < a->model.n_requests; i++) {
        const struct audit_request *r = &a->model.requests[i];
        const struct audit_stored *s = r->stored == AUDIT_NONE ? NULL : &a->model.stored[r->stored];
        /* A unit that was given back is no longer theirs: refusals may follow (rule 12). */
        bool over = s && ((s->record && s->status == RESERVATION_RELEASED) ||
                          s->inbox == AUDIT_REJECTED || s->order == AUDIT_INACTIVE);
        if (r->contradicts && !over)
            audit_broken(a, AUDIT_I7, "%s: two acceptances with different ids", NAME(a, i));
        if (r->refused_after && !over)
            audit_broken(a, AUDIT_I7, "%s: was refused after it was accepted", NAME(a, i));
        if (s && !over && !r->accepted && r->asked > 0 && r->refused >= r->asked &&
            (s->order || audit_holds(s)))
            audit_broken(a, AUDIT_I7, "%s: was refused each time, and has order %lld", NAME(a, i),
                         (long long)(s->order ? s->order_id : s->record_order_id));
    }
    snprintf(a->checks[AUDIT_I7].note, AUDIT_NAME, "%lld records compared", (long long)compared);
}

void audit_check_model(struct audit *a)
{
    const struct audit_counts *n = &a->counts;
    check_i3(a);
    audit_check_told(a);
    check_i5(a);
    check_i6(a);
    check_i7(a);
    snprintf(a->checks[AUDIT_I1].note, AUDIT_NAME, "sold %lld of %lld, %lld active orders",
             (long long)n->sold, (long long)n->total, (long long)n->active);
    snprintf(a->checks[AUDIT_I4].note, AUDIT_NAME,
             "%lld orders, %lld messages completed, %lld rejected", (long long)n->orders,
             (long long)n->completed, (long long)n->rejected);
}
