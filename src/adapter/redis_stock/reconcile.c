/* What reconciliation asks and does: inspect, holders, held, mend, lower, set_total (rule 40). */
#include "adapter/redis_stock/internal.h"

#include "base/panic.h"
#include "base/parse.h"

/* --- inspect --- */

static void on_encode_inspect(struct redis_call *c, struct redis_writer *w)
{
    const struct stock_inspect *o = OP_OF(c, struct stock_inspect);
    keys_put(w, o->item, "meta");
    keys_put(w, o->item, "stock");
    keys_put(w, o->item, "buyers");
    keys_put(w, o->item, "pending");
    keys_put_item(w, o->item);
}

static void on_inspected(struct redis_call *call, int rc, const struct redis_reply *reply)
{
    struct stock_call *c = container_of(call, struct stock_call, call);
    struct stock_inspect *o = OP_OF(call, struct stock_inspect);
    struct line a;
    rc = stock_answer(c, rc, reply, &a);
    if (rc == 0 && a.code == 0)
        rc = stock_take_item(&o->info, &a);
    else if (rc == 0)
        rc = a.code;
    if (rc == 2) {
        str_copy(o->broken, sizeof o->broken, line_word(&a.rest));
        o->paused = str_eq(a.rest, STR("1"));
    }
    stock_end(c, rc);
}

void stock_inspect(struct stock *st, struct stock_inspect *o)
{
    stock_run(stock_begin(stock_self(st), &o->op, &o->space), SCRIPT_INSPECT, 4, 1,
              on_encode_inspect, on_inspected);
}

/* --- holders --- */

static int parse_entry(struct str s, struct stock_holder *out)
{
    struct str order;
    if (line_uuid(&s, &out->reservation_id))
        return ERR_INTERNAL;
    order = line_word(&s);
    return parse_i64(order, 1, INT64_MAX, &out->order_id) || uuid_parse(s, &out->request_id)
               ? ERR_INTERNAL
               : 0;
}

static void on_encode_holders(struct redis_call *c, struct redis_writer *w)
{
    const struct stock_holders *o = OP_OF(c, struct stock_holders);
    redis_put(w, STR("HSCAN"));
    keys_put(w, o->item, "buyers");
    redis_put(w, str_of(o->cursor));
    redis_put(w, STR("COUNT"));
    redis_put_i64(w, STOCK_HOLDERS_PAGE / 2); /* as of buyers */
}

static void on_holders(struct redis_call *call, int rc, const struct redis_reply *reply)
{
    struct stock_call *c = container_of(call, struct stock_call, call);
    struct stock_holders *o = OP_OF(call, struct stock_holders);
    o->n = o->unreadable = 0;
    if (rc == 0 &&
        (reply->type != REDIS_ARRAY || reply->n != 2 || reply->items[1]->type != REDIS_ARRAY ||
         !str_copy(o->cursor, sizeof o->cursor, reply->items[0]->s)))
        rc = ERR_INTERNAL;
    const struct redis_reply *page = rc == 0 ? reply->items[1] : NULL;
    if (page && page->n / 2 > STOCK_HOLDERS_PAGE)
        rc = ERR_OVERLOAD;
    for (size_t i = 0; rc == 0 && i + 1 < page->n; i += 2) {
        struct stock_holder *row = &o->rows[o->n];
        *row = (struct stock_holder){0};
        if (parse_i64(page->items[i]->s, 1, INT64_MAX, &row->user_id) ||
            parse_entry(page->items[i + 1]->s, row))
            o->unreadable++;
        else
            o->n++;
    }
    stock_end(c, rc);
}

void stock_holders(struct stock *st, struct stock_holders *o)
{
    stock_run_command(stock_begin(stock_self(st), &o->op, &o->space), "holders", 5,
                      on_encode_holders, on_holders);
}

/* --- held --- */

static void on_encode_held(struct redis_call *c, struct redis_writer *w)
{
    const struct stock_held *o = OP_OF(c, struct stock_held);
    keys_put(w, o->item, "meta");
    keys_put(w, o->item, "buyers");
    keys_put(w, o->item, "pending");
    for (int i = 0; i < o->n; i++)
        keys_put_reservation(w, o->item, o->rows[i].user_id, &o->rows[i].request_id);
}

/* "pending reservation_id order_id request_id record…" */
static int take_held(struct stock_held_row *row, struct str line)
{
    struct str pending = line_word(&line), reservation = line_word(&line);
    struct str order = line_word(&line), request = line_word(&line);
    if (!request.len || pending.len != 1)
        return ERR_INTERNAL;
    row->pending = pending.ptr[0] == '1';
    row->has_entry = !str_eq(reservation, STR("-"));
    struct stock_holder e = {.user_id = row->user_id};
    bool good = uuid_parse(reservation, &e.reservation_id) == 0 &&
                uuid_parse(request, &e.request_id) == 0 &&
                parse_i64(order, 1, INT64_MAX, &e.order_id) == 0;
    row->entry = good ? e : (struct stock_holder){.user_id = row->user_id};
    row->record = (struct reservation){.user_id = row->user_id, .request_id = row->request_id};
    if (!line.len)
        row->result = STOCK_ROW_GONE;
    else
        row->result = line_record(line, &row->record) ? STOCK_ROW_UNREADABLE : STOCK_ROW_GOOD;
    return 0;
}

static void on_held(struct redis_call *call, int rc, const struct redis_reply *reply)
{
    struct stock_call *c = container_of(call, struct stock_call, call);
    struct stock_held *o = OP_OF(call, struct stock_held);
    struct line a;
    struct str line, rest = {0};
    rc = stock_answer(c, rc, reply, &a);
    if (rc == 0)
        rest = str_split(a.rest, '\n', &line);
    for (int i = 0; rc == 0 && i < o->n; i++) {
        rest = str_split(rest, '\n', &line);
        rc = take_held(&o->rows[i], line);
    }
    if (rc == 0)
        o->version = a.version;
    stock_end(c, rc);
}

void stock_held(struct stock *st, struct stock_held *o)
{
    if (o->n < 1 || o->n > STOCK_HELD_MAX)
        panic("stock held: %d rows", o->n);
    stock_run(stock_begin(stock_self(st), &o->op, &o->space), SCRIPT_HELD, 3 + o->n, 0,
              on_encode_held, on_held);
}

/* --- mend --- */

static void on_encode_mend(struct redis_call *c, struct redis_writer *w)
{
    const struct stock_mend *o = OP_OF(c, struct stock_mend);
    keys_put(w, o->item, "meta");
    keys_put(w, o->item, "buyers");
    keys_put(w, o->item, "pending");
    keys_put_reservation(w, o->item, o->user_id, &o->request_id);
    keys_put_item(w, o->item);
    keys_put_uuid(w, &o->reservation_id);
}

static void on_mended(struct redis_call *call, int rc, const struct redis_reply *reply)
{
    struct stock_call *c = container_of(call, struct stock_call, call);
    struct line a;
    rc = stock_answer(c, rc, reply, &a);
    stock_end(c, rc < 0 ? rc : a.code);
}

void stock_mend(struct stock *st, struct stock_mend *o)
{
    stock_run(stock_begin(stock_self(st), &o->op, &o->space), SCRIPT_MEND, 4, 2, on_encode_mend,
              on_mended);
}

/* --- lower --- */

static void on_encode_lower(struct redis_call *c, struct redis_writer *w)
{
    const struct stock_lower *o = OP_OF(c, struct stock_lower);
    keys_put(w, o->item, "meta");
    keys_put(w, o->item, "stock");
    keys_put(w, o->item, "buyers");
    keys_put_item(w, o->item);
    redis_put_i64(w, o->seen);
    redis_put_i64(w, o->to);
}

static void on_lowered(struct redis_call *call, int rc, const struct redis_reply *reply)
{
    struct stock_call *c = container_of(call, struct stock_call, call);
    struct stock_lower *o = OP_OF(call, struct stock_lower);
    struct line a;
    rc = stock_answer(c, rc, reply, &a);
    if (rc == 0 && a.code == 0 && (line_i64(&a.rest, &o->taken) || line_i64(&a.rest, &o->total)))
        rc = ERR_INTERNAL;
    stock_end(c, rc < 0 ? rc : a.code);
}

void stock_lower(struct stock *st, struct stock_lower *o)
{
    if (o->to < 0)
        panic("stock lower: %lld", (long long)o->to);
    stock_run(stock_begin(stock_self(st), &o->op, &o->space), SCRIPT_LOWER, 3, 3, on_encode_lower,
              on_lowered);
}

/* --- set_total --- */

static void on_encode_total(struct redis_call *c, struct redis_writer *w)
{
    const struct stock_set_total *o = OP_OF(c, struct stock_set_total);
    keys_put(w, o->item, "meta");
    keys_put(w, o->item, "stock");
    keys_put_item(w, o->item);
    redis_put_i64(w, o->seen);
    redis_put_i64(w, o->to);
}

static void on_total(struct redis_call *call, int rc, const struct redis_reply *reply)
{
    struct stock_call *c = container_of(call, struct stock_call, call);
    struct stock_set_total *o = OP_OF(call, struct stock_set_total);
    struct line a;
    rc = stock_answer(c, rc, reply, &a);
    if (rc == 0 && a.code != 1 && (line_i64(&a.rest, &o->total) || line_i64(&a.rest, &o->free)))
        rc = ERR_INTERNAL;
    stock_end(c, rc < 0 ? rc : a.code);
}

void stock_set_total(struct stock *st, struct stock_set_total *o)
{
    if (o->to < 0)
        panic("stock set_total: %lld", (long long)o->to);
    stock_run(stock_begin(stock_self(st), &o->op, &o->space), SCRIPT_TOTAL, 2, 3, on_encode_total,
              on_total);
}
