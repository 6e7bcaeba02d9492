/* lookup, pending, item, items, buyers. */
#include "adapter/redis_stock/internal.h"

#include "base/panic.h"
#include "base/parse.h"

/* --- lookup --- */

static void on_encode_lookup(struct redis_call *c, struct redis_writer *w)
{
    const struct stock_lookup *l = OP_OF(c, struct stock_lookup);
    keys_put(w, l->item, "meta");
    keys_put_reservation(w, l->item, l->user_id, &l->request_id);
}

static void on_lookup(struct redis_call *call, int rc, const struct redis_reply *reply)
{
    struct stock_call *c = container_of(call, struct stock_call, call);
    struct stock_lookup *l = OP_OF(call, struct stock_lookup);
    struct line a;
    rc = stock_answer(c, rc, reply, &a);
    if (rc == 0) {
        struct str head, record = str_split(a.rest, '\n', &head);
        l->now_ms = a.time_us / 1000;
        l->version = a.version;
        l->found = (struct reservation){.user_id = l->user_id, .request_id = l->request_id};
        rc = record.len ? line_record(record, &l->found) : 1;
    }
    stock_end(c, rc);
}

void stock_lookup(struct stock *st, struct stock_lookup *l)
{
    stock_run(stock_begin(stock_self(st), &l->op, &l->space), SCRIPT_RECORDS, 2, 0,
              on_encode_lookup, on_lookup);
}

/* --- pending: who waits, then the records of those --- */

static int readable(const struct stock_pending *p)
{
    int n = 0;
    for (int i = 0; i < p->n; i++)
        n += p->results[i] != STOCK_ROW_UNREADABLE;
    return n;
}

static void on_encode_records(struct redis_call *c, struct redis_writer *w)
{
    const struct stock_pending *p = OP_OF(c, struct stock_pending);
    keys_put(w, p->item, "meta");
    for (int i = 0; i < p->n; i++) {
        if (p->results[i] != STOCK_ROW_UNREADABLE)
            keys_put_reservation(w, p->item, p->rows[i].user_id, &p->rows[i].request_id);
    }
}

static enum stock_row take_record(struct reservation *row, struct str line)
{
    struct reservation r = {.user_id = row->user_id, .request_id = row->request_id};
    if (!line.len)
        return STOCK_ROW_GONE;
    if (line_record(line, &r))
        return STOCK_ROW_UNREADABLE;
    *row = r;
    return STOCK_ROW_GOOD;
}

static void on_records(struct redis_call *call, int rc, const struct redis_reply *reply)
{
    struct stock_call *c = container_of(call, struct stock_call, call);
    struct stock_pending *p = OP_OF(call, struct stock_pending);
    struct line a;
    rc = stock_answer(c, rc, reply, &a);
    struct str line, rest = {0};
    if (rc == 0)
        rest = str_split(a.rest, '\n', &line);
    for (int i = 0; rc == 0 && i < p->n; i++) {
        if (p->results[i] == STOCK_ROW_UNREADABLE)
            continue;
        rest = str_split(rest, '\n', &line);
        p->results[i] = take_record(&p->rows[i], line);
    }
    if (rc < 0)
        p->n = 0;
    stock_end(c, rc);
}

static void on_encode_pending(struct redis_call *c, struct redis_writer *w)
{
    const struct stock_pending *p = OP_OF(c, struct stock_pending);
    keys_put(w, p->item, "meta");
    keys_put(w, p->item, "pending");
    redis_put_i64(w, p->before_ms);
    redis_put_i64(w, p->offset);
    redis_put_i64(w, p->max);
}

static int take_waiting(struct stock_pending *p, struct line *a)
{
    if (line_i64(&a->rest, &p->total))
        return ERR_INTERNAL;
    p->now_ms = a->time_us / 1000;
    while (a->rest.len) {
        if (p->n == p->max)
            return ERR_INTERNAL;
        struct str user, request = str_split(line_word(&a->rest), ':', &user);
        struct reservation r = {0};
        struct str created = line_word(&a->rest);
        bool good = parse_i64(user, 1, INT64_MAX, &r.user_id) == 0 &&
                    uuid_parse(request, &r.request_id) == 0 &&
                    parse_i64(created, 0, INT64_MAX, &r.created_at_ms) == 0;
        p->results[p->n] = good ? STOCK_ROW_GOOD : STOCK_ROW_UNREADABLE;
        p->rows[p->n++] = good ? r : (struct reservation){0};
    }
    return 0;
}

static void on_waiting(struct redis_call *call, int rc, const struct redis_reply *reply)
{
    struct stock_call *c = container_of(call, struct stock_call, call);
    struct stock_pending *p = OP_OF(call, struct stock_pending);
    struct line a;
    p->n = 0;
    rc = stock_answer(c, rc, reply, &a);
    if (rc == 0)
        rc = take_waiting(p, &a);
    if (rc == 0 && readable(p) > 0) {
        stock_run(c, SCRIPT_RECORDS, 1 + readable(p), 0, on_encode_records, on_records);
        return;
    }
    if (rc < 0)
        p->n = 0;
    stock_end(c, rc);
}

void stock_pending(struct stock *st, struct stock_pending *p)
{
    if (p->max < 1 || p->max > STOCK_PENDING_MAX || p->offset < 0)
        panic("stock pending: max %d, offset %d", p->max, p->offset);
    stock_run(stock_begin(stock_self(st), &p->op, &p->space), SCRIPT_PENDING, 2, 3,
              on_encode_pending, on_waiting);
}

/* --- item --- */

static void on_encode_item_listed(struct redis_call *c, struct redis_writer *w)
{
    stock_put_listed(w, OP_OF(c, struct stock_item_get)->item);
}

static void on_item_listed(struct redis_call *call, int rc, const struct redis_reply *reply)
{
    struct stock_call *c = container_of(call, struct stock_call, call);
    struct line a;
    rc = stock_answer(c, rc, reply, &a);
    if (rc == 0)
        OP_OF(call, struct stock_item_get)->listed = a.code == 0;
    stock_end(c, rc < 0 ? rc : 1);
}

static void on_encode_item(struct redis_call *c, struct redis_writer *w)
{
    const struct stock_item_get *g = OP_OF(c, struct stock_item_get);
    keys_put(w, g->item, "meta");
    keys_put(w, g->item, "stock");
    keys_put(w, g->item, "buyers");
    keys_put(w, g->item, "pending");
}

static int parse_state(struct str s, enum stock_state *out)
{
    if (str_eq(s, STR("OPEN")))
        *out = STOCK_STATE_OPEN;
    else if (str_eq(s, STR("PAUSED")))
        *out = STOCK_STATE_PAUSED;
    else if (str_eq(s, STR("CLOSED")))
        *out = STOCK_STATE_CLOSED;
    else
        return ERR_INTERNAL;
    return 0;
}

int stock_take_item(struct stock_item_info *i, struct line *a)
{
    struct str *s = &a->rest;
    int64_t rebuilding;
    i->version = a->version;
    i->now_ms = a->time_us / 1000;
    if (parse_state(line_word(s), &i->state) || line_i64(s, &i->starts_ms) ||
        line_i64(s, &i->ends_ms) || line_i64(s, &i->expires_ms) || line_i64(s, &i->total) ||
        line_i64(s, &i->free) || line_i64(s, &i->buyers) || line_i64(s, &i->pending) ||
        line_i64(s, &rebuilding))
        return ERR_INTERNAL;
    i->rebuilding = rebuilding != 0;
    return 0;
}

static void on_item(struct redis_call *call, int rc, const struct redis_reply *reply)
{
    struct stock_call *c = container_of(call, struct stock_call, call);
    struct stock_item_get *g = OP_OF(call, struct stock_item_get);
    struct line a;
    rc = stock_answer(c, rc, reply, &a);
    if (rc == 0 && a.code == 1) {
        stock_ask_listed(c, on_encode_item_listed, on_item_listed);
        return;
    }
    if (rc == 0)
        rc = stock_take_item(&g->info, &a);
    g->listed = rc == 0;
    stock_end(c, rc);
}

void stock_item_get(struct stock *st, struct stock_item_get *g)
{
    g->listed = false;
    stock_run(stock_begin(stock_self(st), &g->op, &g->space), SCRIPT_ITEM, 4, 0, on_encode_item,
              on_item);
}

/* --- items --- */

static void on_encode_items(struct redis_call *c, struct redis_writer *w)
{
    const struct stock_items *o = OP_OF(c, struct stock_items);
    redis_put(w, STR("SSCAN"));
    redis_put(w, STR(STOCK_CATALOGUE));
    redis_put(w, str_of(o->cursor));
    redis_put(w, STR("COUNT"));
    redis_put_i64(w, o->max / 2); /* as of the buyers below */
}

static void on_items(struct redis_call *call, int rc, const struct redis_reply *reply)
{
    struct stock_call *c = container_of(call, struct stock_call, call);
    struct stock_items *o = OP_OF(call, struct stock_items);
    o->n = 0;
    if (rc == 0 &&
        (reply->type != REDIS_ARRAY || reply->n != 2 || reply->items[1]->type != REDIS_ARRAY ||
         !str_copy(o->cursor, sizeof o->cursor, reply->items[0]->s)))
        rc = ERR_INTERNAL;
    const struct redis_reply *page = rc == 0 ? reply->items[1] : NULL;
    if (page && page->n > (size_t)o->max)
        rc = ERR_OVERLOAD; /* never some of them as if they were all */
    for (size_t i = 0; rc == 0 && i < page->n; i++) {
        if (keys_item_parse(page->items[i]->s, &o->items[o->n]) == 0)
            o->n++;
    }
    stock_end(c, rc);
}

void stock_items(struct stock *st, struct stock_items *o)
{
    if (o->max < STOCK_ITEMS_PAGE)
        panic("stock items: max %d", o->max);
    stock_run_command(stock_begin(stock_self(st), &o->op, &o->space), "items", 5, on_encode_items,
                      on_items);
}

/* --- buyers --- */

static void on_encode_buyers(struct redis_call *c, struct redis_writer *w)
{
    const struct stock_buyers *b = OP_OF(c, struct stock_buyers);
    redis_put(w, STR("HSCAN"));
    keys_put(w, b->item, "buyers");
    redis_put(w, str_of(b->cursor));
    redis_put(w, STR("COUNT"));
    /* HSCAN walks whole buckets and may return more than it was asked for; a table is never filled
     * above 1 on average, so half the room is safe, and if it is not, that is told. */
    redis_put_i64(w, b->max / 2 > 0 ? b->max / 2 : 1);
}

static void on_buyers(struct redis_call *call, int rc, const struct redis_reply *reply)
{
    struct stock_call *c = container_of(call, struct stock_call, call);
    struct stock_buyers *b = OP_OF(call, struct stock_buyers);
    b->n = 0;
    if (rc == 0 &&
        (reply->type != REDIS_ARRAY || reply->n != 2 || reply->items[1]->type != REDIS_ARRAY ||
         !str_copy(b->cursor, sizeof b->cursor, reply->items[0]->s)))
        rc = ERR_INTERNAL;
    const struct redis_reply *page = rc == 0 ? reply->items[1] : NULL;
    if (page && page->n / 2 > (size_t)b->max)
        rc = ERR_OVERLOAD;
    for (size_t i = 0; rc == 0 && i + 1 < page->n; i += 2) {
        if (parse_i64(page->items[i]->s, 1, INT64_MAX, &b->users[b->n++]))
            rc = ERR_INTERNAL;
    }
    stock_end(c, rc);
}

void stock_buyers(struct stock *st, struct stock_buyers *b)
{
    stock_run_command(stock_begin(stock_self(st), &b->op, &b->space), "buyers", 5, on_encode_buyers,
                      on_buyers);
}
