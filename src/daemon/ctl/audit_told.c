/* What buyers were told when they asked for a request's state, one answer after the other (I7: no
 * rank falls) and against the stores (I3: it ends exactly once). */
#include "daemon/ctl/audit.h"
#include <stdio.h>

#define NAME(a, request) (audit_name(a, request).z)
#define BIT(state) (1u << (state))
#define ENDS                                                                                       \
    (BIT(VERDICT_SUCCEEDED) | BIT(VERDICT_SOLD_OUT) | BIT(VERDICT_REJECTED) | BIT(VERDICT_FAILED))

static void check_ranks(struct audit *a, const struct audit_told *t)
{
    for (int high = 2; high < AUDIT_RANKS; high++) {
        for (int low = 1; low < high; low++) {
            /* Heard is before asked. */
            if (t->first_us[high] && t->first_us[high] <= t->last_asked[low])
                audit_broken(a, AUDIT_I7,
                             "%s: was told a state of rank %d, %lld ms later one of rank %d",
                             NAME(a, t->request), high,
                             (long long)(t->last_asked[low] - t->first_us[high]) / 1000, low);
        }
    }
}

/* SUCCEEDED that becomes FAILED is allowed where an order was lost (rule 3). */
static bool is_lost_order(const struct audit_told *t, unsigned ends)
{
    return t->lost_order && ends == (BIT(VERDICT_SUCCEEDED) | BIT(VERDICT_FAILED));
}

static void check_end(struct audit *a, const struct audit_told *t)
{
    unsigned ends = t->states & ENDS;
    if (ends & (ends - 1) && !is_lost_order(t, ends))
        audit_broken(a, AUDIT_I3, "%s: was told more than one end", NAME(a, t->request));
    if (t->states & BIT(VERDICT_CANCELLED) && ends & ~BIT(VERDICT_SUCCEEDED))
        audit_broken(a, AUDIT_I3, "%s: was told that it failed, and that it is CANCELLED",
                     NAME(a, t->request));
}

/* What the stores say now. */
static const struct verdict *now_of(const struct audit *a, const struct audit_request *r)
{
    const struct audit_stored *s = r->stored == AUDIT_NONE ? NULL : &a->model.stored[r->stored];
    if (!s)
        return NULL;
    if (s->record && s->verdict.reason == REASON_LOST_ORDER)
        return &s->verdict; /* PostgreSQL lost what it had decided, and decided otherwise (rule 3)
                             */
    if (s->inbox == AUDIT_COMPLETED || s->inbox == AUDIT_REJECTED)
        return &s->inbox_verdict;
    return s->record ? &s->verdict : NULL;
}

static void check_now(struct audit *a, const struct audit_told *t)
{
    const struct audit_request *r = &a->model.requests[t->request];
    const struct verdict *now = now_of(a, r);
    if (!now)
        return; /* gone: I3 */
    int rank = verdict_rank(now->state), told = 0;
    for (int i = 1; i < AUDIT_RANKS; i++)
        told = t->first_us[i] ? i : told;
    if (told > rank)
        audit_broken(a, AUDIT_I7, "%s: was told a state of rank %d, is " STR_FMT " now",
                     NAME(a, t->request), told, STR_ARG(verdict_state_name(now->state)));
    else if (told == 3 && now->reason != REASON_LOST_ORDER &&
             !(t->states & BIT(rank == 4 ? VERDICT_SUCCEEDED : now->state)))
        audit_broken(a, AUDIT_I3, "%s: was told another end than " STR_FMT, NAME(a, t->request),
                     STR_ARG(verdict_state_name(now->state)));
}

/* A 404 is in the history only where a token was shown, and then it is wrong whatever was lost
 * (rule 34c). */
static void check_missing(struct audit *a, const struct audit_told *t)
{
    const struct audit_request *r = &a->model.requests[t->request];
    if (r->accepted && t->missing_asked >= r->accepted_us)
        audit_broken(a, AUDIT_I3, "%s: was accepted, and not found later (404)",
                     NAME(a, t->request));
}

void audit_check_told(struct audit *a)
{
    for (uint32_t i = 0; i < a->model.n_told; i++) {
        const struct audit_told *t = &a->model.told[i];
        check_ranks(a, t);
        check_end(a, t);
        check_now(a, t);
        check_missing(a, t);
    }
}
