/* PostgreSQL into the model, page by page along the primary keys. */
#include "adapter/pg/pg_rows.h"
#include "base/err.h"
#include "daemon/ctl/audit_query.h"

#define PAGE 20000

static int note_orders(struct audit *a, const PGresult *r, int64_t *last)
{
    int n = PQntuples(r);
    for (int i = 0; i < n; i++) {
        struct uuid key = pg_uuid(r, i, 1);
        struct audit_stored *s = audit_stored(&a->model, pg_i64(r, i, 2), &key);
        if (!s)
            return -1;
        bool active = pg_bool(r, i, 4);
        *last = pg_i64(r, i, 0);
        a->counts.orders++;
        a->counts.active += active;
        if (s->order == AUDIT_ACTIVE && !active)
            continue; /* two orders of one key: I4 names them */
        s->order = active ? AUDIT_ACTIVE : AUDIT_INACTIVE;
        s->order_id = *last;
        s->order_reservation = pg_uuid(r, i, 3);
    }
    return n;
}

static int read_orders(struct audit *a, struct audit_query *q)
{
    int64_t last = INT64_MIN;
    for (int n = PAGE; n == PAGE;) {
        PG_RESULT r = NULL;
        audit_query_args(q, a->item);
        pg_add_i64(&q->args, last);
        pg_add_i64(&q->args, PAGE);
        int rc = audit_query(q,
                             "SELECT order_id, request_id, user_id, reservation_id, "
                             "status IN ('CREATED', 'PAYING', 'PAID') FROM orders "
                             "WHERE activity_id = $1 AND sku_id = $2 AND order_id > $3 "
                             "ORDER BY order_id LIMIT $4",
                             "ququb", &r);
        if (rc != 0)
            return rc;
        if ((n = note_orders(a, r, &last)) < 0)
            return ERR_OVERLOAD;
    }
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

static int note_inbox(struct audit *a, const PGresult *r, struct uuid *last)
{
    int n = PQntuples(r);
    for (int i = 0; i < n; i++) {
        struct uuid key = pg_uuid(r, i, 1), reservation = pg_uuid(r, i, 2);
        struct str status = pg_str(r, i, 4);
        *last = pg_uuid(r, i, 0);
        if (str_eq(status, STR("PROCESSING"))) {
            a->counts.processing++;
            continue;
        }
        struct audit_stored *s = audit_stored(&a->model, pg_i64(r, i, 3), &key);
        if (!s)
            return -1;
        enum audit_inbox is = inbox_of(status);
        a->counts.completed += is == AUDIT_COMPLETED;
        a->counts.rejected += is == AUDIT_REJECTED;
        a->counts.quarantined += is == AUDIT_QUARANTINED;
        if (!better(s, last, is)) {
            audit_add_extra(&a->model, s, &reservation);
            continue;
        }
        if (s->inbox)
            audit_add_extra(&a->model, s, &s->inbox_reservation);
        s->inbox = is;
        s->inbox_message = *last;
        s->inbox_reservation = reservation;
        s->inbox_verdict = (struct verdict){VERDICT_QUEUED, REASON_NONE};
        if (pg_verdict(r, i, 5, &s->inbox_verdict) < 0)
            return -1;
    }
    return n;
}

static int read_inbox(struct audit *a, struct audit_query *q)
{
    struct uuid last = {{0}};
    for (int n = PAGE; n == PAGE;) {
        PG_RESULT r = NULL;
        audit_query_args(q, a->item);
        pg_add_uuid(&q->args, &last);
        pg_add_i64(&q->args, PAGE);
        int rc = audit_query(
            q,
            "SELECT message_id, request_id, reservation_id, user_id, status, state, "
            "reason FROM inbox_verdict WHERE consumer_group = 'seckill-order-create-v1' "
            "AND activity_id = $1 AND sku_id = $2 AND message_id > $3 "
            "ORDER BY message_id LIMIT $4",
            "uuuqttt", &r);
        if (rc != 0)
            return rc;
        if ((n = note_inbox(a, r, &last)) < 0)
            return ERR_INTERNAL;
    }
    return 0;
}

/* What Redis has not heard yet: it may differ, and says so. */
static int read_unsettled(struct audit *a, struct audit_query *q)
{
    PG_RESULT r = NULL;
    audit_query_args(q, a->item);
    int rc = audit_query(q,
                         "SELECT user_id, request_id, give_back FROM outbox "
                         "WHERE settled_at IS NULL AND activity_id = $1 AND sku_id = $2",
                         "qub", &r);
    for (int i = 0; rc == 0 && i < PQntuples(r); i++) {
        struct uuid key = pg_uuid(r, i, 1);
        struct audit_stored *s = audit_stored(&a->model, pg_i64(r, i, 0), &key);
        if (!s)
            return ERR_OVERLOAD;
        s->unsettled = true;
        s->returning |= pg_bool(r, i, 2);
        a->counts.unsettled++;
    }
    return rc;
}

static int read_item(struct audit *a, struct audit_query *q)
{
    PG_RESULT r = NULL;
    audit_query_args(q, a->item);
    int rc = audit_query(
        q,
        "SELECT total_stock::bigint, sold_stock::bigint, (SELECT count(*) FROM dead_letters "
        "WHERE replayed_at IS NULL AND voided_at IS NULL AND (activity_id, sku_id) IN (($1, $2), "
        "(0, 0))) FROM seckill_inventory WHERE activity_id = $1 AND sku_id = $2",
        "qqq", &r);
    if (rc != 0)
        return rc;
    if (PQntuples(r) != 1) {
        snprintf(q->err, sizeof(q->err), "there is no item %lld:%lld",
                 (long long)a->item.activity_id, (long long)a->item.sku_id);
        return ERR_NOTFOUND;
    }
    a->counts.total = pg_i64(r, 0, 0);
    a->counts.sold = pg_i64(r, 0, 1);
    a->counts.dead_letters = pg_i64(r, 0, 2);
    return 0;
}

int audit_read_pg(struct audit *a)
{
    AUDIT_QUERY q;
    audit_query_begin(&q, a->c);
    struct audit_counts *n = &a->counts;
    n->orders = n->active = n->completed = n->rejected = n->quarantined = n->processing = 0;
    n->unsettled = 0;
    int rc = read_item(a, &q);
    if (rc == 0)
        rc = read_unsettled(a, &q);
    if (rc == 0)
        rc = read_orders(a, &q);
    if (rc == 0)
        rc = read_inbox(a, &q);
    if (rc == 0)
        audit_index_orders(&a->model);
    if (a->model.full)
        ctl_complain("audit: no memory for so many requests");
    else if (rc != 0)
        ctl_complain("audit: PostgreSQL: %s", q.err[0] ? q.err : err_name(rc));
    return rc == 0 && !a->model.full ? 0 : CTL_UNKNOWN;
}

int audit_pg_waiting(struct audit *a, int64_t *unsettled, int64_t *quarantined)
{
    AUDIT_QUERY q;
    PG_RESULT r = NULL;
    audit_query_begin(&q, a->c);
    audit_query_args(&q, a->item);
    int rc = audit_query(&q,
                         "SELECT (SELECT count(*) FROM outbox WHERE settled_at IS NULL AND "
                         "activity_id = $1 AND sku_id = $2), (SELECT count(*) FROM dead_letters d "
                         "JOIN consumer_inbox i ON i.message_id = d.message_id AND i.status = "
                         "'QUARANTINED' WHERE d.replayed_at IS NULL AND d.activity_id = $1 AND "
                         "d.sku_id = $2)",
                         "qq", &r);
    if (rc != 0) {
        ctl_complain("audit: PostgreSQL: %s", q.err[0] ? q.err : err_name(rc));
        return CTL_UNKNOWN;
    }
    *unsettled = pg_i64(r, 0, 0);
    *quarantined = pg_i64(r, 0, 1);
    return 0;
}
