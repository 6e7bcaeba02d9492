/* The history into the model, line by line. */
#include "base/err.h"
#include "daemon/ctl/audit.h"
#include "daemon/ctl/history.h"
#include "daemon/ctl/lines.h"

static bool forbids(struct str code)
{
    /* Refusals that an accepted request never gets, as long as it holds its unit. */
    static const struct str codes[] = {STR("SOLD_OUT"),       STR("DUPLICATE_ORDER"),
                                       STR("REQUEST_CLOSED"), STR("IDEMPOTENCY_KEY_REUSED"),
                                       STR("NOT_OPEN"),       STR("ENDED"),
                                       STR("NOT_FOUND")};
    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
        if (str_eq(code, codes[i]))
            return true;
    }
    return false;
}

static void take_accepted(struct audit *a, struct audit_request *r, const struct history_event *e)
{
    a->counts.accepted += !r->accepted;
    if (!r->accepted) {
        r->accepted = true;
        r->accepted_us = e->t_us;
        r->order_id = e->order_id;
        r->reservation_id = e->reservation_id;
        /* Answers do not say which invocation they end: what was under way may have been refused
         * before this one was accepted. */
        r->early = r->open;
    } else if (e->order_id != r->order_id || !uuid_eq(&e->reservation_id, &r->reservation_id)) {
        r->contradicts = true;
    }
}

static void take_state(struct audit *a, struct audit_request *r, const struct history_event *e)
{
    struct audit_told *t = audit_told(&a->model, r);
    if (!t)
        return;
    if (e->status == 404 && e->since_us > t->missing_asked)
        t->missing_asked = e->since_us;
    if (!e->has_state)
        return;
    int rank = verdict_rank(e->verdict.state);
    a->counts.told++;
    t->states |= 1u << e->verdict.state;
    t->lost_order |= e->verdict.reason == REASON_LOST_ORDER;
    t->lost |= e->verdict.reason == REASON_LOST_RESERVATION;
    if (!t->first_us[rank] || e->t_us < t->first_us[rank])
        t->first_us[rank] = e->t_us;
    if (e->since_us > t->last_asked[rank])
        t->last_asked[rank] = e->since_us;
}

static void take(struct audit *a, struct audit_request *r, const struct history_event *e)
{
    if (e->type == HISTORY_STATE) {
        take_state(a, r, e);
        return;
    }
    if (e->type == HISTORY_INVOKE) {
        r->asked++;
        r->open++;
        a->counts.invoked++;
        return;
    }
    /* Each invocation has one end at most, and the client wrote both in its own order. */
    if (r->open > 0)
        r->open--;
    else
        r->unasked = true;
    r->refused += e->type == HISTORY_FAIL;
    if (e->type == HISTORY_OK) {
        take_accepted(a, r, e);
    } else if (e->type == HISTORY_FAIL && forbids(e->code)) {
        if (str_eq(e->code, STR("DUPLICATE_ORDER")))
            r->told_order_id = e->order_id;
        if (r->accepted && r->early > 0)
            r->early--;
        else if (r->accepted)
            r->refused_after = true;
    }
}

/* Of all items: what the API's own counters are held against (I11). */
static void count(struct audit *a, const struct history_event *e)
{
    if (e->type == HISTORY_INVOKE)
        a->counts.unheard++;
    else if (e->type != HISTORY_STATE && e->status > 0 && e->status < AUDIT_STATUSES) {
        a->counts.unheard--;
        a->statuses[e->status]++;
    }
}

int audit_read_history(struct audit *a, const char *path)
{
    struct lines l;
    struct history_event e;
    const char *why;
    int rc = CTL_OK;
    lines_open(&l, path);
    while (rc == CTL_OK && lines_next(&l)) {
        if (history_parse(l.text, &e, &why) < 0) {
            lines_refuse(&l, why);
            continue;
        }
        count(a, &e);
        if (!item_eq(e.item, a->item)) {
            a->counts.other_items++;
            continue;
        }
        struct audit_request *r = audit_request(&a->model, e.user, &e.key);
        if (r)
            take(a, r, &e);
        else
            rc = CTL_UNKNOWN;
    }
    if (lines_close(&l) < 0) {
        ctl_complain("audit: %s", l.why);
        rc = CTL_UNKNOWN;
    }
    if (a->model.full)
        ctl_complain("audit: no memory for so many requests");
    a->has_history = true;
    return rc;
}
