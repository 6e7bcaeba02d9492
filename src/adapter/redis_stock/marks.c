/* What happens to one reservation between hold and settle: mark, release, claim,
 * republished; and what is noted after it: refuse. */
#include "adapter/redis_stock/internal.h"

/* 0 and 1 are the script's; every other code makes no sense. */
static void end_with_code(struct redis_call *call, int rc, const struct redis_reply *reply)
{
    struct stock_call *c = container_of(call, struct stock_call, call);
    struct line a;
    rc = stock_answer(c, rc, reply, &a);
    stock_end(c, rc < 0 ? rc : a.code <= 1 ? a.code : ERR_INTERNAL);
}

static void on_encode_mark(struct redis_call *c, struct redis_writer *w)
{
    const struct stock_mark *m = OP_OF(c, struct stock_mark);
    keys_put(w, m->item, "meta");
    keys_put_reservation(w, m->item, m->user_id, &m->request_id);
    keys_put_uuid(w, &m->reservation_id);
    redis_put(w, reservation_status_name(m->to));
}

void stock_mark(struct stock *st, struct stock_mark *m)
{
    stock_run(stock_begin(stock_self(st), &m->op, &m->space), SCRIPT_MARK, 2, 2, on_encode_mark,
              end_with_code);
}

static void on_encode_release(struct redis_call *c, struct redis_writer *w)
{
    const struct stock_release *m = OP_OF(c, struct stock_release);
    char request[UUID_TEXT];
    uuid_format(&m->request_id, request);
    keys_put(w, m->item, "meta");
    keys_put(w, m->item, "stock");
    keys_put(w, m->item, "buyers");
    keys_put_reservation(w, m->item, m->user_id, &m->request_id);
    keys_put(w, m->item, "pending");
    keys_put_item(w, m->item);
    redis_put_i64(w, m->user_id);
    redis_put(w, (struct str){request, sizeof request});
    keys_put_uuid(w, &m->reservation_id);
}

static void on_released(struct redis_call *call, int rc, const struct redis_reply *reply)
{
    struct stock_call *c = container_of(call, struct stock_call, call);
    struct stock_release *m = OP_OF(call, struct stock_release);
    struct line a;
    rc = stock_answer(c, rc, reply, &a);
    if (rc == 0) {
        m->version = a.version;
        rc = a.code <= 1 ? a.code : ERR_INTERNAL;
    }
    stock_end(c, rc);
}

void stock_release(struct stock *st, struct stock_release *m)
{
    stock_run(stock_begin(stock_self(st), &m->op, &m->space), SCRIPT_RELEASE, 5, 4,
              on_encode_release, on_released);
}

static void on_encode_claim(struct redis_call *c, struct redis_writer *w)
{
    const struct stock_claim *m = OP_OF(c, struct stock_claim);
    keys_put(w, m->item, "meta");
    keys_put_reservation(w, m->item, m->user_id, &m->request_id);
    keys_put_uuid(w, &m->reservation_id);
}

static void on_claimed(struct redis_call *call, int rc, const struct redis_reply *reply)
{
    struct stock_call *c = container_of(call, struct stock_call, call);
    struct stock_claim *m = OP_OF(call, struct stock_claim);
    struct line a;
    rc = stock_answer(c, rc, reply, &a);
    if (rc == 0 && a.code == 0) {
        m->found = (struct reservation){.user_id = m->user_id, .request_id = m->request_id};
        rc = line_record(a.rest, &m->found);
    } else if (rc == 0) {
        rc = a.code == 1 ? 1 : ERR_INTERNAL;
    }
    stock_end(c, rc);
}

void stock_claim(struct stock *st, struct stock_claim *m)
{
    stock_run(stock_begin(stock_self(st), &m->op, &m->space), SCRIPT_CLAIM, 2, 1, on_encode_claim,
              on_claimed);
}

static void on_encode_republished(struct redis_call *c, struct redis_writer *w)
{
    const struct stock_republished *m = OP_OF(c, struct stock_republished);
    keys_put(w, m->item, "meta");
    keys_put_reservation(w, m->item, m->user_id, &m->request_id);
    keys_put_uuid(w, &m->reservation_id);
    redis_put(w, str_of(m->queue_id));
}

void stock_republished(struct stock *st, struct stock_republished *m)
{
    stock_run(stock_begin(stock_self(st), &m->op, &m->space), SCRIPT_REPUBLISHED, 2, 2,
              on_encode_republished, end_with_code);
}

static void on_encode_refuse(struct redis_call *c, struct redis_writer *w)
{
    const struct stock_refuse *m = OP_OF(c, struct stock_refuse);
    keys_put(w, m->item, "meta");
    keys_put_reservation(w, m->item, m->user_id, &m->request_id);
    keys_put_uuid(w, &m->reservation_id);
}

void stock_refuse(struct stock *st, struct stock_refuse *m)
{
    stock_run(stock_begin(stock_self(st), &m->op, &m->space), SCRIPT_REFUSE, 2, 1, on_encode_refuse,
              end_with_code);
}
