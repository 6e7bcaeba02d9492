/* Commands that the queue accepted, kept beside it: remember, remembered, forget (rule 27). */
#include "adapter/redis_stock/internal.h"

#include "base/panic.h"

enum { SCAN_COUNT = 512 }; /* looked at in one step, about */

/* --- remember --- */

static void on_encode_remember(struct redis_call *c, struct redis_writer *w)
{
    const struct stock_remember *o = OP_OF(c, struct stock_remember);
    keys_put(w, o->item, "meta");
    keys_put(w, o->item, "commands");
    keys_put_uuid(w, &o->message_id);
    redis_put_i64(w, o->most);
    redis_put(w, o->body);
}

static void on_remember(struct redis_call *call, int rc, const struct redis_reply *reply)
{
    struct stock_call *c = container_of(call, struct stock_call, call);
    struct line a;
    rc = stock_answer(c, rc, reply, &a);
    stock_end(c, rc < 0 ? rc : a.code <= 2 ? a.code : ERR_INTERNAL);
}

void stock_remember(struct stock *st, struct stock_remember *o)
{
    stock_run(stock_begin(stock_self(st), &o->op, &o->space), SCRIPT_REMEMBER, 2, 3,
              on_encode_remember, on_remember);
}

/* --- remembered --- */

static void on_encode_remembered(struct redis_call *c, struct redis_writer *w)
{
    const struct stock_remembered *o = OP_OF(c, struct stock_remembered);
    keys_put(w, o->item, "meta");
    keys_put(w, o->item, "commands");
    redis_put(w, str_of(o->cursor));
    redis_put_i64(w, SCAN_COUNT);
    redis_put_i64(w, stock_thirteen_digits(o->before_ms));
    redis_put_i64(w, STOCK_REMEMBERED_MAX);
}

/* What is too long is nobody's of ours: its beginning cannot be decoded, either. */
static int take_command(struct stock_command *row, struct str line)
{
    if (line_uuid(&line, &row->message_id))
        return ERR_INTERNAL;
    row->body_len = line.len < sizeof row->body ? line.len : sizeof row->body;
    memcpy(row->body, line.ptr, row->body_len);
    return 0;
}

static void on_remembered(struct redis_call *call, int rc, const struct redis_reply *reply)
{
    struct stock_call *c = container_of(call, struct stock_call, call);
    struct stock_remembered *o = OP_OF(call, struct stock_remembered);
    struct line a;
    struct str line, rest = {0};
    o->n = o->unreadable = 0;
    rc = stock_answer(c, rc, reply, &a);
    if (rc == 0) {
        rest = str_split(a.rest, '\n', &line);
        int64_t more = 0, bad = 0;
        if (!str_copy(o->cursor, sizeof o->cursor, line_word(&line)) || line_i64(&line, &more) ||
            line_i64(&line, &bad))
            rc = ERR_INTERNAL;
        o->more = more == 1;
        o->unreadable = (int)bad;
    }
    while (rc == 0 && rest.len > 0) {
        rest = str_split(rest, '\n', &line);
        rc = o->n < STOCK_REMEMBERED_MAX ? take_command(&o->rows[o->n], line) : ERR_INTERNAL;
        o->n += rc == 0;
    }
    stock_end(c, rc);
}

void stock_remembered(struct stock *st, struct stock_remembered *o)
{
    stock_run(stock_begin(stock_self(st), &o->op, &o->space), SCRIPT_REMEMBERED, 2, 4,
              on_encode_remembered, on_remembered);
}

/* --- forget --- */

static void on_encode_forget(struct redis_call *c, struct redis_writer *w)
{
    const struct stock_forget *o = OP_OF(c, struct stock_forget);
    redis_put(w, STR("HDEL"));
    keys_put(w, o->item, "commands");
    for (int i = 0; i < o->n; i++)
        keys_put_uuid(w, &o->message_ids[i]);
}

static void on_forgotten(struct redis_call *call, int rc, const struct redis_reply *reply)
{
    (void)reply;
    stock_end(container_of(call, struct stock_call, call), rc);
}

void stock_forget(struct stock *st, struct stock_forget *o)
{
    if (o->n < 1 || o->n > STOCK_FORGET_MAX)
        panic("stock forget: %d", o->n);
    stock_run_command(stock_begin(stock_self(st), &o->op, &o->space), "forget", 2 + o->n,
                      on_encode_forget, on_forgotten);
}
