/* reserve. Happy path: one EVALSHA → CREATED. "Too late" (rule 15): its own TIME corrects the
 * estimate, and while the caller's deadline has not passed it is asked once more with the same ids.
 * No item: the catalogue is asked, for 404 or 503 (rule 34). */
#include "adapter/redis_stock/internal.h"

enum { STAGE_FIRST, STAGE_AGAIN };

/* The script compares times as texts of 13 digits. */
#define MS_MIN INT64_C(1000000000000)
#define MS_MAX INT64_C(9999999999999)

static void put_deadline(struct redis_writer *w, const struct redis_call *c, int64_t give_up_us)
{
    /* Further away than any budget: none (and the sum below must not overflow). */
    int64_t far = INT64_MAX / 4,
            ms = give_up_us < far ? redis_time_ms(redis_clock(c), give_up_us) : 0;
    if (ms < MS_MIN || ms > MS_MAX)
        redis_put(w, STR("0"));
    else
        redis_put_i64(w, ms);
}

/* Rule 34a: over a connection on which it was not found yet, the witness goes along. */
static void on_begin(struct redis_call *c)
{
    struct stock_reserve *r = OP_OF(c, struct stock_reserve);
    int stream = container_of(c, struct stock_call, call)->st->stream_queue ? 1 : 0;
    r->connection = c->connection;
    r->asked_witness = r->past.witness_user && r->past.checked_connection != c->connection;
    c->keys = 5 + stream + (r->asked_witness ? 1 : 0);
    c->args = c->keys + 8 + stream;
}

static void on_encode(struct redis_call *c, struct redis_writer *w)
{
    struct stock_reserve *r = OP_OF(c, struct stock_reserve);
    struct redis_stock *st = container_of(c, struct stock_call, call)->st;
    keys_put(w, r->item, "meta");
    keys_put(w, r->item, "stock");
    keys_put(w, r->item, "buyers");
    keys_put_reservation(w, r->item, r->user_id, &r->request_id);
    keys_put(w, r->item, "pending");
    if (st->stream_queue)
        keys_put(w, r->item, "events");
    if (r->asked_witness)
        keys_put_reservation(w, r->item, r->past.witness_user, &r->past.witness_request);
    redis_put_i64(w, r->user_id);
    keys_put_uuid(w, &r->request_id);
    keys_put_uuid(w, &r->reservation_id);
    redis_put_i64(w, r->order_id);
    keys_put_uuid(w, &r->message_id);
    put_deadline(w, c, r->give_up_us);
    redis_put_i64(w, r->past.seen.epoch);
    redis_put_i64(w, r->past.seen.seq);
    if (!st->stream_queue)
        return;
    struct event e = {
        .message_id = r->message_id,
        .request_id = r->request_id,
        .reservation_id = r->reservation_id,
        .item = r->item,
        .user_id = r->user_id,
        .order_id = r->order_id,
        .created_at_us = r->created_at_us,
        .schema_version = EVENT_SCHEMA_VERSION,
        .traceparent = r->traceparent,
        .tracestate = r->tracestate,
    };
    char mem[EVENT_MAX_BYTES];
    struct strbuf body;
    strbuf_init_fixed(&body, mem, sizeof mem);
    event_encode(&e, true, &body);
    redis_put(w, strbuf_str(&body));
}

static int take_created(struct stock_reserve *r, const struct redis_stock *st, const struct line *a)
{
    r->found = (struct reservation){
        .user_id = r->user_id,
        .order_id = r->order_id,
        .request_id = r->request_id,
        .reservation_id = r->reservation_id,
        .message_id = r->message_id,
        .status = st->stream_queue ? RESERVATION_MQ_SENT : RESERVATION_RESERVED,
        .epoch = a->version.epoch,
        .seq = a->version.seq,
        .created_at_ms = a->time_us / 1000,
    };
    return str_copy(r->found.queue_id, sizeof r->found.queue_id, a->rest) ? 0 : ERR_INTERNAL;
}

static int take_found(struct stock_reserve *r, struct line *a)
{
    r->found = (struct reservation){.user_id = r->user_id, .request_id = r->request_id};
    if (a->code == STOCK_REPLAY)
        return line_record(a->rest, &r->found);
    if (line_uuid(&a->rest, &r->found.reservation_id) || line_i64(&a->rest, &r->found.order_id))
        return ERR_INTERNAL;
    return line_uuid(&a->rest, &r->found.request_id);
}

static void on_encode_listed(struct redis_call *c, struct redis_writer *w)
{
    stock_put_listed(w, OP_OF(c, struct stock_reserve)->item);
}

static void on_listed(struct redis_call *call, int rc, const struct redis_reply *reply)
{
    struct stock_call *c = container_of(call, struct stock_call, call);
    struct line a;
    rc = stock_answer(c, rc, reply, &a);
    if (rc == 0)
        OP_OF(call, struct stock_reserve)->listed = a.code == 0;
    /* The reserve itself was certainly not done, whatever became of this question. */
    stock_end(c, rc == 0 ? STOCK_NO_ITEM : rc == ERR_UNCERTAIN ? ERR_UNAVAIL : rc);
}

/* --- while the item's slot moves: a script with a key that is on neither side is refused, but a
 * request that is known can be read, wherever it is --- */

static bool in_motion(int rc, const struct redis_reply *reply)
{
    return rc == ERR_UNAVAIL && reply && str_starts(reply->s, STR("TRYAGAIN "));
}

static void on_encode_known(struct redis_call *c, struct redis_writer *w)
{
    const struct stock_reserve *r = OP_OF(c, struct stock_reserve);
    keys_put(w, r->item, "meta");
    keys_put_reservation(w, r->item, r->user_id, &r->request_id);
}

static void on_known(struct redis_call *call, int rc, const struct redis_reply *reply)
{
    struct stock_call *c = container_of(call, struct stock_call, call);
    struct stock_reserve *r = OP_OF(call, struct stock_reserve);
    struct line a;
    rc = stock_answer(c, rc, reply, &a);
    if (rc == 0) {
        struct str head, record = str_split(a.rest, '\n', &head);
        r->version = a.version;
        r->found = (struct reservation){.user_id = r->user_id, .request_id = r->request_id};
        rc = !record.len ? ERR_UNAVAIL : line_record(record, &r->found) ? ERR_INTERNAL : 0;
    }
    if (rc == 0)
        metric_add(c->st->results[STOCK_REPLAY], 1);
    /* As above: nothing was taken. */
    stock_end(c, rc == 0 ? STOCK_REPLAY : rc == ERR_UNCERTAIN ? ERR_UNAVAIL : rc);
}

static void on_reply(struct redis_call *call, int rc, const struct redis_reply *reply)
{
    struct stock_call *c = container_of(call, struct stock_call, call);
    struct stock_reserve *r = OP_OF(call, struct stock_reserve);
    struct line a;
    r->sent_us = call->sent_us;
    if (in_motion(rc, reply)) {
        call->on_begin = NULL;
        stock_run(c, SCRIPT_RECORDS, 2, 0, on_encode_known, on_known);
        return;
    }
    rc = stock_answer(c, rc, reply, &a);
    if (rc < 0) {
        stock_end(c, rc);
        return;
    }
    if (a.code > STOCK_BEHIND) {
        stock_end(c, ERR_INTERNAL);
        return;
    }
    metric_add(c->st->results[a.code], 1);
    r->version = a.version;
    switch ((enum stock_reserved)a.code) {
    case STOCK_CREATED:
        rc = take_created(r, c->st, &a);
        break;
    case STOCK_REPLAY:
    case STOCK_DUPLICATE:
        rc = take_found(r, &a);
        break;
    case STOCK_NO_ITEM:
        call->on_begin = NULL;
        stock_ask_listed(c, on_encode_listed, on_listed);
        return;
    case STOCK_TOO_LATE:
        if (c->stage == STAGE_FIRST && call->received_us < r->give_up_us) {
            c->stage = STAGE_AGAIN;
            redis_send(c->st->redis, call);
            return;
        }
        break;
    default:
        break;
    }
    stock_end(c, rc < 0 ? rc : a.code);
}

void stock_reserve(struct stock *s, struct stock_reserve *r)
{
    struct redis_stock *st = stock_self(s);
    struct stock_call *c = stock_begin(st, &r->op, &r->space);
    r->sent_us = 0;
    r->listed = r->asked_witness = false;
    r->connection = 0;
    c->call.on_begin = on_begin;
    int stream = st->stream_queue ? 1 : 0;
    stock_run(c, SCRIPT_RESERVE, 5 + stream, 8 + stream, on_encode, on_reply);
}
