/* PostgreSQL into the model, and its own checks. */
#include "base/err.h"
#include "daemon/ctl/audit.h"

static int on_order(void *arg, const struct pg_audit_order *o)
{
    struct audit *a = arg;
    struct audit_stored *s = audit_stored(&a->model, o->user_id, &o->request_id);
    if (!s)
        return ERR_OVERLOAD;
    a->counts.orders++;
    a->counts.active += o->active;
    if (s->order == AUDIT_ACTIVE && !o->active)
        return 0; /* two orders of one key: I4 names them */
    s->order = o->active ? AUDIT_ACTIVE : AUDIT_INACTIVE;
    s->order_id = o->order_id;
    s->order_reservation = o->reservation_id;
    return 0;
}

static enum audit_inbox inbox_of(struct str status)
{
    if (str_eq(status, STR("COMPLETED")))
        return AUDIT_COMPLETED;
    if (str_eq(status, STR("QUARANTINED")))
        return AUDIT_QUARANTINED;
    return AUDIT_REJECTED;
}

/* Of several messages of one key: the record's; without a record the one with an order. */
static bool better(const struct audit_stored *s, const struct uuid *message, enum audit_inbox is)
{
    if (!s->inbox)
        return true;
    if (s->record && uuid_eq(&s->record_message, &s->inbox_message))
        return false;
    return (s->record && uuid_eq(&s->record_message, message)) ||
           (is == AUDIT_COMPLETED && s->inbox != AUDIT_COMPLETED);
}

static int on_message(void *arg, const struct pg_audit_message *m)
{
    struct audit *a = arg;
    if (str_eq(m->status, STR("PROCESSING"))) /* the seed's statement looks after these */
        return 0;
    struct audit_stored *s = audit_stored(&a->model, m->user_id, &m->request_id);
    if (!s)
        return ERR_OVERLOAD;
    enum audit_inbox is = inbox_of(m->status);
    a->counts.completed += is == AUDIT_COMPLETED;
    a->counts.rejected += is == AUDIT_REJECTED;
    a->counts.quarantined += is == AUDIT_QUARANTINED;
    if (!better(s, &m->message_id, is)) {
        audit_add_extra(&a->model, s, &m->reservation_id);
        return 0;
    }
    if (s->inbox)
        audit_add_extra(&a->model, s, &s->inbox_reservation);
    s->inbox = is;
    s->inbox_message = m->message_id;
    s->inbox_reservation = m->reservation_id;
    s->inbox_verdict = m->verdict;
    return 0;
}

/* It may differ in Redis, and says so. */
static int on_unsettled(void *arg, const struct pg_audit_unsettled *u)
{
    struct audit *a = arg;
    struct audit_stored *s = audit_stored(&a->model, u->user_id, &u->request_id);
    if (!s)
        return ERR_OVERLOAD;
    if (u->age_ms >= AUDIT_UNSETTLED_MS || (a->drain.waited && !a->drain.quiet))
        audit_broken(a, AUDIT_I3,
                     "user %lld, request %s: message %s is settled in PostgreSQL, "
                     "Redis was not told for %lld s",
                     (long long)u->user_id, uuid_text(&u->request_id).z,
                     uuid_text(&u->message_id).z, (long long)u->age_ms / 1000);
    s->unsettled = true;
    s->returning |= u->give_back;
    a->counts.unsettled++;
    return 0;
}

static int failed(const struct audit *a)
{
    ctl_complain("audit: PostgreSQL: %s", pg_audit_error(a->pg));
    return CTL_UNKNOWN;
}

int audit_read_pg(struct audit *a)
{
    struct audit_counts *n = &a->counts;
    struct pg_audit_inventory inventory;
    n->orders = n->active = n->completed = n->rejected = n->quarantined = 0;
    n->unsettled = 0;
    int rc = pg_audit_inventory(a->pg, &inventory);
    if (rc == 0) {
        n->pg = inventory;
        n->total = inventory.total;
        n->sold = inventory.sold;
        n->dead_letters = inventory.dead_letters;
        rc = pg_audit_unsettled(a->pg, on_unsettled, a);
    }
    if (rc == 0)
        rc = pg_audit_orders(a->pg, on_order, a);
    if (rc == 0)
        rc = pg_audit_inbox(a->pg, on_message, a);
    if (rc == 0)
        rc = pg_audit_orders_of_all(a->pg, &n->orders_of_all);
    if (rc == 0)
        audit_index_orders(&a->model);
    if (a->model.full) {
        ctl_complain("audit: no memory for so many requests");
        return CTL_UNKNOWN;
    }
    return rc == 0 ? 0 : failed(a);
}

int audit_pg_waiting(struct audit *a, int64_t *unsettled, int64_t *quarantined)
{
    return pg_audit_waiting(a->pg, unsettled, quarantined) == 0 ? 0 : failed(a);
}

/* --- the checks that are one statement --- */

static const struct {
    enum audit_check_id check;
    enum pg_audit_rule rule;
} rules[] = {
    {AUDIT_I1, PG_AUDIT_I1},
    {AUDIT_I2, PG_AUDIT_I2},
    {AUDIT_I3, PG_AUDIT_I3},
    {AUDIT_I4, PG_AUDIT_I4},
    {AUDIT_I5, PG_AUDIT_I5},
    {AUDIT_SEED_ONE_ORDER, PG_AUDIT_SEED_ONE_ORDER},
    {AUDIT_SEED_OVERSOLD, PG_AUDIT_SEED_OVERSOLD},
    {AUDIT_SEED_INBOX, PG_AUDIT_SEED_INBOX},
};

struct naming {
    struct audit *a;
    enum audit_check_id check;
};

static void on_name(void *arg, struct str name)
{
    const struct naming *n = arg;
    audit_broken(n->a, n->check, STR_FMT, STR_ARG(name));
}

int audit_check_pg(struct audit *a)
{
    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
        struct naming naming = {a, rules[i].check};
        int64_t unnamed;
        if (pg_audit_offenders(a->pg, rules[i].rule, AUDIT_NAMED, on_name, &naming, &unnamed) != 0)
            return failed(a);
        a->checks[rules[i].check].broken += unnamed;
    }
    return 0;
}
