/* What was lost, and its return: relist, reports, unreport, and the steps of a rebuild. */
#include "adapter/redis_stock/internal.h"

#include "base/panic.h"

static struct str state_name(enum stock_state s)
{
    return s == STOCK_STATE_OPEN     ? STR("OPEN")
           : s == STOCK_STATE_CLOSED ? STR("CLOSED")
                                     : STR("PAUSED");
}

/* --- relist --- */

static void on_encode_relist(struct redis_call *c, struct redis_writer *w)
{
    const struct stock_relist *o = OP_OF(c, struct stock_relist);
    redis_put(w, STR("SADD"));
    redis_put(w, STR(STOCK_CATALOGUE));
    for (int i = 0; i < o->n; i++)
        keys_put_item(w, o->items[i]);
}

static void on_plain(struct redis_call *call, int rc, const struct redis_reply *reply)
{
    (void)reply;
    stock_end(container_of(call, struct stock_call, call), rc);
}

void stock_relist(struct stock *st, struct stock_relist *o)
{
    if (o->n < 1)
        panic("stock relist: %d items", o->n);
    stock_run_command(stock_begin(stock_self(st), &o->op, &o->space), "relist", 2 + o->n,
                      on_encode_relist, on_plain);
}

/* --- reports, unreport --- */

static void on_encode_reports(struct redis_call *c, struct redis_writer *w)
{
    (void)c;
    redis_put(w, STR("SRANDMEMBER"));
    redis_put(w, STR(STOCK_SUSPECTS));
    redis_put_i64(w, STOCK_REPORTS_MAX);
}

static void on_reports(struct redis_call *call, int rc, const struct redis_reply *reply)
{
    struct stock_call *c = container_of(call, struct stock_call, call);
    struct stock_reports *o = OP_OF(call, struct stock_reports);
    o->n = 0;
    if (rc == 0 && reply->type != REDIS_ARRAY)
        rc = ERR_INTERNAL;
    /* What is no item nobody can rebuild: it stays, and harms nobody. */
    for (size_t i = 0; rc == 0 && i < reply->n && o->n < STOCK_REPORTS_MAX; i++) {
        if (reply->items[i]->type == REDIS_STRING &&
            keys_item_parse(reply->items[i]->s, &o->items[o->n]) == 0)
            o->n++;
    }
    stock_end(c, rc);
}

void stock_reports(struct stock *st, struct stock_reports *o)
{
    stock_run_command(stock_begin(stock_self(st), &o->op, &o->space), "reports", 3,
                      on_encode_reports, on_reports);
}

static void on_encode_unreport(struct redis_call *c, struct redis_writer *w)
{
    redis_put(w, STR("SREM"));
    redis_put(w, STR(STOCK_SUSPECTS));
    keys_put_item(w, OP_OF(c, struct stock_unreport)->item);
}

void stock_unreport(struct stock *st, struct stock_unreport *o)
{
    stock_run_command(stock_begin(stock_self(st), &o->op, &o->space), "unreport", 3,
                      on_encode_unreport, on_plain);
}

/* --- the steps: 0 done, 1 refused --- */

static void on_step(struct redis_call *call, int rc, const struct redis_reply *reply)
{
    struct stock_call *c = container_of(call, struct stock_call, call);
    struct line a;
    rc = stock_answer(c, rc, reply, &a);
    stock_end(c, rc < 0 ? rc : a.code <= 1 ? a.code : ERR_INTERNAL);
}

static void on_encode_begin(struct redis_call *c, struct redis_writer *w)
{
    const struct stock_rebuild_begin *o = OP_OF(c, struct stock_rebuild_begin);
    keys_put(w, o->item, "meta");
    keys_put(w, o->item, "stock");
    keys_put(w, o->item, "buyers");
    keys_put(w, o->item, "pending");
    keys_put_item(w, o->item);
    redis_put_i64(w, o->epoch);
    redis_put_i64(w, o->total);
    redis_put_i64(w, stock_thirteen_digits(o->starts_ms));
    redis_put_i64(w, stock_thirteen_digits(o->ends_ms));
    redis_put_i64(w, stock_thirteen_digits(o->expires_ms));
    redis_put(w, state_name(o->after));
}

static void on_begun(struct redis_call *call, int rc, const struct redis_reply *reply)
{
    struct stock_call *c = container_of(call, struct stock_call, call);
    struct line a;
    rc = stock_answer(c, rc, reply, &a);
    if (rc == 0 && a.code == 0) {
        int64_t there;
        rc = line_i64(&a.rest, &there);
        OP_OF(call, struct stock_rebuild_begin)->was_there = rc == 0 && there == 1;
    } else if (rc == 0) {
        rc = a.code == 1 ? 1 : ERR_INTERNAL;
    }
    stock_end(c, rc);
}

void stock_rebuild_begin(struct stock *st, struct stock_rebuild_begin *o)
{
    stock_run(stock_begin(stock_self(st), &o->op, &o->space), SCRIPT_REBUILD_BEGIN, 4, 7,
              on_encode_begin, on_begun);
}

static void put_hold(struct redis_writer *w, const struct stock_hold *h)
{
    char text[2 * UUID_TEXT + 64];
    size_t n = 0;
    text[n++] = h->ordered ? 'O' : 'L';
    text[n++] = ' ';
    uuid_format(&h->reservation_id, text + n);
    n += UUID_TEXT;
    text[n++] = ' ';
    n += str_from_i64(text + n, h->order_id);
    text[n++] = ' ';
    uuid_format(&h->message_id, text + n);
    n += UUID_TEXT;
    text[n++] = ' ';
    n += str_from_i64(text + n, h->created_at_ms);
    redis_put(w, (struct str){text, n});
}

static void on_encode_restore(struct redis_call *c, struct redis_writer *w)
{
    const struct stock_rebuild_restore *o = OP_OF(c, struct stock_rebuild_restore);
    keys_put(w, o->item, "meta");
    keys_put(w, o->item, "buyers");
    keys_put(w, o->item, "pending");
    for (int i = 0; i < o->n; i++)
        keys_put_reservation(w, o->item, o->rows[i].user_id, &o->rows[i].request_id);
    redis_put_i64(w, o->epoch);
    redis_put_i64(w, o->step);
    for (int i = 0; i < o->n; i++)
        put_hold(w, &o->rows[i]);
}

void stock_rebuild_restore(struct stock *st, struct stock_rebuild_restore *o)
{
    if (o->n < 0 || o->n > STOCK_RESTORE_MAX || o->step < 1)
        panic("stock rebuild: step %lld of %d rows", (long long)o->step, o->n);
    stock_run(stock_begin(stock_self(st), &o->op, &o->space), SCRIPT_REBUILD_RESTORE, 3 + o->n,
              2 + o->n, on_encode_restore, on_step);
}

static void on_encode_end(struct redis_call *c, struct redis_writer *w)
{
    const struct stock_rebuild_end *o = OP_OF(c, struct stock_rebuild_end);
    keys_put(w, o->item, "meta");
    keys_put(w, o->item, "stock");
    keys_put(w, o->item, "buyers");
    keys_put(w, o->item, "pending");
    keys_put(w, o->item, "events");
    keys_put(w, o->item, "results");
    keys_put_item(w, o->item);
    redis_put_i64(w, o->epoch);
    redis_put_i64(w, o->step);
    redis_put_i64(w, o->total);
    redis_put_i64(w, o->free);
    redis_put(w, STR(EVENT_GROUP));
}

void stock_rebuild_end(struct stock *st, struct stock_rebuild_end *o)
{
    stock_run(stock_begin(stock_self(st), &o->op, &o->space), SCRIPT_REBUILD_END, 6, 6,
              on_encode_end, on_step);
}
