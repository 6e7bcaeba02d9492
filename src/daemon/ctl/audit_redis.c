/* Redis into the model: the item, its reservations, who stands in `buyers` and in `pending`. */
#include "adapter/redis_stock/redis_stock_audit.h"
#include "base/err.h"
#include "daemon/ctl/audit.h"
#include "daemon/ctl/item_args.h"

struct reader {
    struct redis_stock_audit redis;
    struct audit *a;
};

static struct audit *audit_of(struct redis_stock_audit *r)
{
    return container_of(r, struct reader, redis)->a;
}

static int on_record(struct redis_stock_audit *reader, const struct redis_stock_audit_record *r)
{
    struct audit *a = audit_of(reader);
    struct audit_stored *s = audit_stored(&a->model, r->user_id, &r->request_id);
    if (!s)
        return ERR_OVERLOAD;
    a->counts.records += !s->record;
    s->record = true;
    s->bad_record = !r->readable;
    s->bad_rank = r->bad_rank;
    s->status = r->status;
    s->verdict = r->verdict;
    s->record_order_id = r->order_id;
    s->epoch = r->epoch;
    s->record_reservation = r->reservation_id;
    s->record_message = r->message_id;
    s->expires_ms = r->expires_ms;
    if (r->readable && r->epoch == a->counts.info.version.epoch && r->seq > a->counts.max_seq)
        a->counts.max_seq = r->seq;
    return 0;
}

static int on_buyer(struct redis_stock_audit *reader, const struct redis_stock_audit_buyer *b)
{
    struct audit *a = audit_of(reader);
    struct audit_stored *s = audit_stored(&a->model, b->user_id, &b->request_id);
    if (!s)
        return ERR_OVERLOAD;
    if (s->buyer)
        return 0; /* said twice */
    a->counts.buyers++;
    s->buyer = true;
    s->buyer_reservation = b->reservation_id;
    s->buyer_order_id = b->order_id;
    return 0;
}

static int on_pending(struct redis_stock_audit *reader, int64_t user, const struct uuid *request)
{
    struct audit *a = audit_of(reader);
    struct audit_stored *s = audit_stored(&a->model, user, request);
    if (!s)
        return ERR_OVERLOAD;
    a->counts.pending += !s->pending;
    s->pending = true;
    return 0;
}

static void on_expiry(struct redis_stock_audit *reader, enum redis_stock_key k, int64_t ms)
{
    audit_of(reader)->counts.key_expires_ms[k] = ms;
}

static void on_stray(struct redis_stock_audit *reader, const char *what, struct str text)
{
    audit_broken(audit_of(reader), AUDIT_I5, "%s: " STR_FMT, what, STR_ARG(text));
}

int audit_read_redis(struct audit *a)
{
    int rc = item_in_redis(a->c, "audit", a->item, &a->counts.info);
    if (rc == 1)
        ctl_complain("audit: %lld:%lld is not in Redis: nothing can be said about it",
                     (long long)a->item.activity_id, (long long)a->item.sku_id);
    if (rc != 0)
        return CTL_UNKNOWN;
    struct reader reader = {
        .redis = {on_record, on_buyer, on_pending, on_expiry, on_stray, false},
        .a = a,
    };
    struct redis_config config = ctl_redis_config(a->c, "audit");
    a->counts.records = a->counts.buyers = a->counts.pending = a->counts.max_seq = 0;
    rc =
        redis_stock_audit_read(a->c->loop, &config, a->item, config.max_pending / 2, &reader.redis);
    a->counts.ends_may_move = reader.redis.ends_may_move;
    if (a->model.full)
        ctl_complain("audit: no memory for so many requests");
    else if (rc != 0)
        ctl_stock_failed(a->c, "audit", rc);
    return rc == 0 ? 0 : CTL_UNKNOWN;
}
