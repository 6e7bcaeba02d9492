/* settle and progress: many reservations of one item in one call. */
#include "adapter/redis_stock/internal.h"

#include "base/panic.h"

enum { ROWS_MAX = 256, ROW_ARGS = 2, VERDICT_TEXT = 192 };

/* Another record than its own is looked at only for the order of another key (rule 5). */
static bool has_other_record(const struct stock_settle_row *row)
{
    return row->other_order_id && !uuid_eq(&row->other_request_id, &row->request_id);
}

static int other_records(const struct stock_settle *s)
{
    int n = 0;
    for (int i = 0; i < s->n; i++)
        n += has_other_record(&s->rows[i]);
    return n;
}

static void add_uuid(struct strbuf *b, const struct uuid *u)
{
    char text[UUID_TEXT];
    uuid_format(u, text);
    strbuf_add(b, text, UUID_TEXT);
}

/* One word where the reservation became its own order, which is nearly every row: see the script.
 */
static void put_verdict(struct redis_writer *w, const struct stock_settle_row *row, int place)
{
    char text[VERDICT_TEXT];
    struct strbuf b;
    strbuf_init_fixed(&b, text, sizeof text);
    strbuf_add_str(&b, verdict_state_name(row->verdict.state));
    if (row->verdict.state != VERDICT_SUCCEEDED || row->give_back || row->other_order_id) {
        strbuf_add_char(&b, ' ');
        strbuf_add_str(&b, row->verdict.reason == REASON_NONE
                               ? STR("-")
                               : verdict_reason_name(row->verdict.reason));
        strbuf_add_char(&b, ' ');
        strbuf_add_i64(&b, verdict_rank(row->verdict.state));
        strbuf_add_str(&b, row->give_back ? STR(" 1") : STR(" 0"));
    }
    if (row->other_order_id) {
        strbuf_add_char(&b, ' ');
        add_uuid(&b, &row->other_reservation_id);
        strbuf_add_char(&b, ' ');
        strbuf_add_i64(&b, row->other_order_id);
        strbuf_add_char(&b, ' ');
        add_uuid(&b, &row->other_request_id);
        strbuf_add_char(&b, ' ');
        strbuf_add_i64(&b, place);
    }
    if (b.failed)
        panic("stock settle: the verdict's text is too long");
    redis_put(w, strbuf_str(&b));
}

static void on_encode_settle(struct redis_call *c, struct redis_writer *w)
{
    const struct stock_settle *s = OP_OF(c, struct stock_settle);
    keys_put(w, s->item, "meta");
    keys_put(w, s->item, "stock");
    keys_put(w, s->item, "buyers");
    keys_put(w, s->item, "pending");
    for (int i = 0; i < s->n; i++)
        keys_put_reservation(w, s->item, s->rows[i].user_id, &s->rows[i].request_id);
    for (int i = 0; i < s->n; i++) {
        if (has_other_record(&s->rows[i]))
            keys_put_reservation(w, s->item, s->rows[i].user_id, &s->rows[i].other_request_id);
    }
    keys_put_item(w, s->item);
    int place = 4 + s->n;
    for (int i = 0; i < s->n; i++) {
        keys_put_uuid(w, &s->rows[i].reservation_id);
        put_verdict(w, &s->rows[i], has_other_record(&s->rows[i]) ? ++place : 0);
    }
}

static void on_settled(struct redis_call *call, int rc, const struct redis_reply *reply)
{
    struct stock_call *c = container_of(call, struct stock_call, call);
    struct stock_settle *s = OP_OF(call, struct stock_settle);
    struct line a;
    rc = stock_answer(c, rc, reply, &a);
    if (rc == 0 && a.rest.len != (size_t)s->n)
        rc = ERR_INTERNAL;
    for (int i = 0; rc == 0 && i < s->n; i++) {
        int digit = a.rest.ptr[i] - '0';
        if (digit < STOCK_SETTLED || digit > STOCK_UNREADABLE)
            rc = ERR_INTERNAL;
        else
            s->rows[i].result = (enum stock_settled)digit;
    }
    if (rc == 0)
        s->version = a.version;
    stock_end(c, rc);
}

void stock_settle(struct stock *st, struct stock_settle *s)
{
    if (s->n < 1 || s->n > ROWS_MAX)
        panic("stock settle: %d rows", s->n);
    struct stock_call *c = stock_begin(stock_self(st), &s->op, &s->space);
    stock_run(c, SCRIPT_SETTLE, 4 + s->n + other_records(s), 1 + ROW_ARGS * s->n, on_encode_settle,
              on_settled);
}

static void on_encode_progress(struct redis_call *c, struct redis_writer *w)
{
    const struct stock_settle *s = OP_OF(c, struct stock_settle);
    keys_put(w, s->item, "meta");
    for (int i = 0; i < s->n; i++)
        keys_put_reservation(w, s->item, s->rows[i].user_id, &s->rows[i].request_id);
    for (int i = 0; i < s->n; i++)
        keys_put_uuid(w, &s->rows[i].reservation_id);
}

static void on_progressed(struct redis_call *call, int rc, const struct redis_reply *reply)
{
    struct stock_call *c = container_of(call, struct stock_call, call);
    struct line a;
    rc = stock_answer(c, rc, reply, &a);
    if (rc == 0)
        OP_OF(call, struct stock_settle)->version = a.version;
    stock_end(c, rc);
}

void stock_progress(struct stock *st, struct stock_settle *s)
{
    if (s->n < 1 || s->n > ROWS_MAX)
        panic("stock progress: %d rows", s->n);
    struct stock_call *c = stock_begin(stock_self(st), &s->op, &s->space);
    stock_run(c, SCRIPT_PROGRESS, 1 + s->n, s->n, on_encode_progress, on_progressed);
}
