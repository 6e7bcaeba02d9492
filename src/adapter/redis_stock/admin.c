/* warm, unlist, control, report, the lease of an instance number, the probe. */
#include "adapter/redis_stock/internal.h"

/* --- warm: listed first, then made. Dying in between leaves an item that is listed and has no
 * meta: 503 and a rebuild, never one that sells and that no worker knows of --- */

int64_t stock_thirteen_digits(int64_t ms)
{
    const int64_t least = INT64_C(1000000000000), most = INT64_C(9999999999999);
    return ms < least ? least : ms > most ? most : ms;
}

static void on_encode_warm(struct redis_call *c, struct redis_writer *w)
{
    const struct stock_warm *o = OP_OF(c, struct stock_warm);
    keys_put(w, o->item, "meta");
    keys_put(w, o->item, "stock");
    keys_put(w, o->item, "buyers");
    keys_put(w, o->item, "pending");
    keys_put(w, o->item, "events");
    redis_put_i64(w, o->epoch);
    redis_put_i64(w, o->total);
    redis_put_i64(w, stock_thirteen_digits(o->starts_ms));
    redis_put_i64(w, stock_thirteen_digits(o->ends_ms));
    redis_put_i64(w, stock_thirteen_digits(o->expires_ms));
    redis_put(w, STR(EVENT_GROUP));
}

static void on_warmed(struct redis_call *call, int rc, const struct redis_reply *reply)
{
    struct stock_call *c = container_of(call, struct stock_call, call);
    struct line a;
    rc = stock_answer(c, rc, reply, &a);
    stock_end(c, rc < 0 ? rc : a.code);
}

static void on_encode_list(struct redis_call *c, struct redis_writer *w)
{
    redis_put(w, STR("SADD"));
    redis_put(w, STR(STOCK_CATALOGUE));
    keys_put_item(w, OP_OF(c, struct stock_warm)->item);
}

static void on_listed(struct redis_call *call, int rc, const struct redis_reply *reply)
{
    (void)reply;
    struct stock_call *c = container_of(call, struct stock_call, call);
    if (rc < 0)
        stock_end(c, rc);
    else
        stock_run(c, SCRIPT_WARM, 5, 6, on_encode_warm, on_warmed);
}

void stock_warm(struct stock *st, struct stock_warm *o)
{
    stock_run_command(stock_begin(stock_self(st), &o->op, &o->space), "list", 3, on_encode_list,
                      on_listed);
}

/* --- unlist --- */

static void on_encode_unlist(struct redis_call *c, struct redis_writer *w)
{
    redis_put(w, STR("SREM"));
    redis_put(w, STR(STOCK_CATALOGUE));
    keys_put_item(w, OP_OF(c, struct stock_unlist)->item);
}

static void on_unlisted(struct redis_call *call, int rc, const struct redis_reply *reply)
{
    (void)reply;
    stock_end(container_of(call, struct stock_call, call), rc);
}

void stock_unlist(struct stock *st, struct stock_unlist *o)
{
    stock_run_command(stock_begin(stock_self(st), &o->op, &o->space), "unlist", 3, on_encode_unlist,
                      on_unlisted);
}

/* --- control --- */

static void on_encode_control(struct redis_call *c, struct redis_writer *w)
{
    static const char *const names[] = {[STOCK_STATE_OPEN] = "OPEN",
                                        [STOCK_STATE_PAUSED] = "PAUSED",
                                        [STOCK_STATE_CLOSED] = "CLOSED"};
    const struct stock_control *o = OP_OF(c, struct stock_control);
    keys_put(w, o->item, "meta");
    keys_put_item(w, o->item);
    redis_put(w, str_of(names[o->to]));
}

static void on_controlled(struct redis_call *call, int rc, const struct redis_reply *reply)
{
    struct stock_call *c = container_of(call, struct stock_call, call);
    struct line a;
    rc = stock_answer(c, rc, reply, &a);
    if (rc == 0) {
        OP_OF(call, struct stock_control)->version = a.version;
        rc = a.code;
    }
    stock_end(c, rc);
}

void stock_control(struct stock *st, struct stock_control *o)
{
    stock_run(stock_begin(stock_self(st), &o->op, &o->space), SCRIPT_CONTROL, 1, 2,
              on_encode_control, on_controlled);
}

/* --- report --- */

static void on_encode_report(struct redis_call *c, struct redis_writer *w)
{
    redis_put(w, STR("SADD"));
    redis_put(w, STR(STOCK_SUSPECTS));
    keys_put_item(w, OP_OF(c, struct stock_report)->item);
}

static void on_reported(struct redis_call *call, int rc, const struct redis_reply *reply)
{
    (void)reply;
    stock_end(container_of(call, struct stock_call, call), rc);
}

void stock_report(struct stock *st, struct stock_report *o)
{
    stock_run_command(stock_begin(stock_self(st), &o->op, &o->space), "report", 3, on_encode_report,
                      on_reported);
}

/* --- lease of an instance number --- */

static void on_encode_slot(struct redis_call *c, struct redis_writer *w)
{
    const struct stock_slot_lease *o = OP_OF(c, struct stock_slot_lease);
    char key[32] = "sec:slot:{";
    size_t n = strlen(key);
    n += str_from_i64(key + n, o->slot);
    key[n++] = '}';
    redis_put(w, (struct str){key, n});
    redis_put(w, str_of(o->nonce));
    redis_put_i64(w, o->highest_ms);
    redis_put_i64(w, o->ttl_ms);
}

static void on_slot(struct redis_call *call, int rc, const struct redis_reply *reply)
{
    struct stock_call *c = container_of(call, struct stock_call, call);
    struct line a;
    rc = stock_answer(c, rc, reply, &a);
    if (rc == 0)
        rc = a.code == 1   ? 1
             : a.code == 0 ? line_i64(&a.rest, &OP_OF(call, struct stock_slot_lease)->floor_ms)
                           : ERR_INTERNAL;
    stock_end(c, rc);
}

void stock_slot_lease(struct stock *st, struct stock_slot_lease *o)
{
    stock_run(stock_begin(stock_self(st), &o->op, &o->space), SCRIPT_SLOT, 1, 3, on_encode_slot,
              on_slot);
}

/* --- probe --- */

static void on_encode_probe(struct redis_call *c, struct redis_writer *w)
{
    (void)c;
    redis_put(w, STR(STOCK_PROBE_KEY));
}

static void on_probed(struct redis_call *call, int rc, const struct redis_reply *reply)
{
    struct stock_call *c = container_of(call, struct stock_call, call);
    struct line a;
    stock_end(c, stock_answer(c, rc, reply, &a));
}

void stock_probe(struct stock *st, struct stock_probe *o)
{
    stock_run(stock_begin(stock_self(st), &o->op, &o->space), SCRIPT_PROBE, 1, 0, on_encode_probe,
              on_probed);
}
