/* Calls on their way: waiting → a slot of the ring and bytes in `out` → replied. Everything that
 * completes without a reply does so through `done`, in a task of its own; a reply completes its
 * call directly. */
#include "adapter/redis/internal.h"

#include "adapter/redis/writer.h"
#include "base/clock.h"
#include "base/panic.h"
#include <stdlib.h>

/* A call meets NOSCRIPT at most so often before its script goes along whole: EVAL cannot meet it.
 */
enum { REPAIRS_MAX = 3 };

static void finish(struct redis_call *c, int rc, const struct redis_reply *reply)
{
    c->state = CALL_IDLE; /* before the callback: it may send the call again, or end its memory */
    c->on_reply(c, rc, reply);
}

static void run_done(struct redis_conn *r)
{
    struct list now;
    list_init(&now);
    list_splice_back(&now, &r->done);
    for (struct list *n; (n = list_pop_front(&now)) != NULL;) {
        struct redis_call *c = container_of(n, struct redis_call, link);
        finish(c, c->rc, NULL);
    }
}

static void on_done_task(struct loop_task *t)
{
    run_done(container_of(t, struct redis_conn, done_task));
}

/* Takes a call off whatever it is on; on_reply comes in a moment. */
static void done_later(struct redis_call *c, int rc)
{
    struct redis_conn *r = c->conn;
    sched_clear(loop_sched(r->loop), &c->timer);
    c->state = CALL_DONE;
    c->rc = rc;
    list_push_back(&r->done, &c->link);
    loop_defer(r->loop, &r->done_task);
}

static void give_up(struct redis_call *c, int rc_waiting)
{
    struct redis_conn *r = c->conn;
    if (c->state == CALL_WAITING) {
        list_remove(&c->link);
        r->waiting_n--;
        done_later(c, rc_waiting);
    } else if (c->state == CALL_SENT) {
        r->ring[c->seq & r->ring_mask].call = NULL;
        redis_metrics_call(&r->metrics, c, ERR_UNCERTAIN, loop_now_us(r->loop));
        done_later(c, ERR_UNCERTAIN);
    }
}

static void on_deadline(struct timer *t)
{
    struct redis_call *c = container_of(t, struct redis_call, timer);
    struct redis_conn *r = c->conn;
    /* No connection within slot_us, though the caller had more time. */
    bool no_slot = loop_now_us(r->loop) < c->deadline_us;
    if (c->state == CALL_WAITING)
        metric_add(r->metrics.pool_timeouts, 1);
    give_up(c, no_slot ? ERR_UNAVAIL : ERR_DEADLINE);
}

static void set_timer(struct redis_call *c)
{
    struct redis_conn *r = c->conn;
    int64_t at = c->deadline_us;
    if (c->state == CALL_WAITING && r->phase != LINK_UP) {
        /* Not the loop's time: before its first turn, or in a long one, that lies far back. */
        int64_t slot = clock_mono_us() + r->config.slot_us;
        if (slot < at)
            at = slot;
    }
    sched_set(loop_sched(r->loop), &c->timer, at);
}

/* Waits for its turn on r. */
static void enqueue(struct redis_conn *r, struct redis_call *c)
{
    c->conn = r;
    c->connection = 0;
    c->seq = 0;
    if (r->closing) {
        done_later(c, ERR_CANCELED);
        return;
    }
    if ((size_t)r->waiting_n + pipeline_owed(r) >= (size_t)r->config.max_pending) {
        metric_add(r->metrics.overload, 1);
        done_later(c, ERR_OVERLOAD);
        return;
    }
    c->state = CALL_WAITING;
    list_push_back(&r->waiting, &c->link);
    r->waiting_n++;
    set_timer(c);
    if (r->phase == LINK_UP)
        loop_flush_later(r->loop, &r->flush);
}

void pipeline_send(struct redis_conn *r, struct redis_call *c)
{
    if (c->state != CALL_IDLE)
        panic("redis_send: the call is on its way already");
    c->repairs = c->hops = 0;
    c->asking = false;
    c->sent_us = c->received_us = 0;
    c->queued_us = loop_now_us(r->loop);
    c->timer = (struct timer){.on_fire = on_deadline};
    list_init(&c->link);
    enqueue(r, c);
}

void pipeline_move(struct redis_call *c, struct redis_conn *to, bool asking)
{
    c->repairs = 0;
    c->asking = asking;
    enqueue(to, c);
}

void redis_cancel(struct redis *owner, struct redis_call *c)
{
    (void)owner;
    give_up(c, ERR_CANCELED); /* DONE and IDLE: nothing to do */
}

static struct slot *push_slot(struct redis_conn *r, enum slot_kind kind, int64_t now)
{
    if (pipeline_owed(r) > r->ring_mask)
        panic("redis: more replies owed than slots");
    if (pipeline_owed(r) == 0)
        r->heard_us = now; /* the stall is measured from here */
    struct slot *s = &r->ring[r->tail++ & r->ring_mask];
    *s = (struct slot){.kind = kind, .sent_us = now, .end = r->written + (r->out.len - r->out_at)};
    return s;
}

void pipeline_words(struct redis_conn *r, enum slot_kind kind, const struct str *words, int n)
{
    writer_words(&r->out, words, n);
    if (!r->on_push || kind != SLOT_CALL)
        push_slot(r, kind, clock_mono_us());
}

/* At most one SCRIPT LOAD per script and flush of the server's: not when one has been sent since
 * the call was. */
static void load_again(struct redis_conn *r, const struct redis_call *c, int64_t now)
{
    int i = 0;
    while (i < r->loads_n && r->loads[i].script != c->script)
        i++;
    if (i < r->loads_n && r->loads[i].seq > c->seq)
        return;
    if (i == SCRIPTS_MAX)
        i = 0;
    else if (i == r->loads_n)
        r->loads_n++;
    struct str words[] = {STR("SCRIPT"), STR("LOAD"), str_of(c->script->body)};
    writer_words(&r->out, words, 3);
    r->loads[i].script = c->script;
    r->loads[i].seq = r->tail;
    push_slot(r, SLOT_ASIDE, now);
    metric_add(r->metrics.reloads, 1);
}

/* False: it did not fit into memory, and nothing of it is left in `out`. */
static bool encode(struct redis_conn *r, struct redis_call *c, int64_t now)
{
    if (c->repairs > 0 && c->repairs <= REPAIRS_MAX && c->script)
        load_again(r, c, now);
    if (c->asking) {
        struct str words[] = {STR("ASKING")};
        writer_words(&r->out, words, 1);
        push_slot(r, SLOT_ASIDE, now);
    }
    size_t before = r->out.len;
    c->connection = r->connection;
    if (c->on_begin)
        c->on_begin(c);
    writer_call(&r->out, c, c->repairs > REPAIRS_MAX);
    if (r->out.failed) {
        r->out.failed = false;
        r->out.len = before;
        return false;
    }
    c->sent_us = now;
    c->seq = r->tail;
    c->state = CALL_SENT;
    push_slot(r, SLOT_CALL, now)->call = c;
    return true;
}

static void on_flush(struct loop_flush *f)
{
    struct redis_conn *r = container_of(f, struct redis_conn, flush);
    if (r->phase != LINK_UP || r->leaving)
        return;
    int64_t now = clock_mono_us(); /* rule 15 needs the time of the write, not that of the turn */
    while (!list_empty(&r->waiting) && r->out.len - r->out_at < OUT_SOFT_MAX &&
           pipeline_owed(r) + 3 <= r->ring_mask) {
        struct redis_call *c = container_of(list_pop_front(&r->waiting), struct redis_call, link);
        r->waiting_n--;
        bool slot_timer = c->timer.at_us != c->deadline_us;
        if (!encode(r, c, now)) {
            metric_add(r->metrics.overload, 1);
            done_later(c, ERR_OVERLOAD);
            continue;
        }
        if (c->repairs == 0)
            metric_observe_us(r->metrics.pool_wait, now - c->queued_us);
        if (slot_timer)
            set_timer(c);
    }
    link_write(r);
}

void pipeline_up(struct redis_conn *r)
{
    list_for_each (n, &r->waiting)
        set_timer(container_of(n, struct redis_call, link));
    loop_flush_later(r->loop, &r->flush);
}

/* A command of which not all bytes were taken by the kernel was certainly not executed: it waits
 * again, in its place. */
void pipeline_lost(struct redis_conn *r)
{
    struct list again;
    list_init(&again);
    for (; r->head != r->tail; r->head++) {
        struct slot *s = &r->ring[r->head & r->ring_mask];
        struct redis_call *c = s->call;
        if (!c)
            continue;
        if (s->end > r->written) {
            c->state = CALL_WAITING;
            list_push_back(&again, &c->link);
            r->waiting_n++;
        } else {
            redis_metrics_call(&r->metrics, c, ERR_UNCERTAIN, loop_now_us(r->loop));
            done_later(c, ERR_UNCERTAIN);
        }
    }
    list_splice_back(&again, &r->waiting);
    list_splice_back(&r->waiting, &again);
    list_for_each (n, &r->waiting)
        set_timer(container_of(n, struct redis_call, link));
    strbuf_clear(&r->out);
    r->out_at = 0;
    r->written = 0;
}

static void repair(struct redis_conn *r, struct redis_call *c)
{
    c->repairs++;
    c->state = CALL_WAITING;
    list_push_back(&r->waiting, &c->link);
    r->waiting_n++;
    loop_flush_later(r->loop, &r->flush);
}

/* What an error reply means for more than its call. True: the call is on its way again. */
static bool go_on(struct redis_conn *r, struct redis_call *c, const struct redis_reply *reply)
{
    if (c->script && reply_is_noscript(reply)) {
        repair(r, c);
        return true;
    }
    if (str_starts(reply->s, STR("READONLY "))) /* a replica now: the master is somewhere else */
        link_leave(r);
    return r->on_refused && r->on_refused(r, c, reply);
}

static void reply_call(struct redis_conn *r, struct redis_call *c, const struct redis_reply *reply)
{
    if (reply->type == REDIS_ERROR && go_on(r, c, reply))
        return;
    int rc = reply_rc(reply);
    c->received_us = r->heard_us;
    sched_clear(loop_sched(r->loop), &c->timer);
    redis_metrics_call(&r->metrics, c, rc, c->received_us);
    finish(c, rc, reply);
}

void pipeline_reply(struct redis_conn *r, const struct redis_reply *reply)
{
    if (r->on_push && pipeline_owed(r) == 0) {
        r->on_push(r, reply);
        return;
    }
    if (pipeline_owed(r) == 0) {
        link_fail(r, "a reply that nobody asked for");
        return;
    }
    struct slot s = r->ring[r->head++ & r->ring_mask];
    switch (s.kind) {
    case SLOT_CALL:
        if (s.call)
            reply_call(r, s.call, reply);
        else
            metric_add(r->metrics.late, 1);
        break;
    case SLOT_ASIDE:
        break;
    case SLOT_GREETING:
    case SLOT_MASTER:
    case SLOT_ROLE:
    case SLOT_TIME:
        link_greeted(r, &s, reply);
        break;
    }
    if (r->leaving && pipeline_owed(r) == 0)
        link_fail(r, "a replica, not the master any more");
}

void pipeline_init(struct redis_conn *r)
{
    list_init(&r->waiting);
    list_init(&r->done);
    list_init(&r->done_task.link);
    r->done_task.on_run = on_done_task;
    list_init(&r->flush.link);
    r->flush.on_flush = on_flush;
    strbuf_init(&r->out, OUT_MAX);
    /* Each call and, while scripts are repaired, a load before it; and the greeting. */
    size_t slots = 16;
    while (slots < (size_t)r->config.max_pending * 2)
        slots *= 2;
    r->ring = calloc(slots, sizeof *r->ring);
    r->ring_mask = slots - 1;
}

void pipeline_cancel_all(struct redis_conn *r)
{
    pipeline_lost(r);
    while (!list_empty(&r->waiting))
        give_up(container_of(r->waiting.next, struct redis_call, link), ERR_CANCELED);
    while (!list_empty(&r->done)) /* what a callback sends is refused into `done` as well */
        run_done(r);
}

void pipeline_deinit(struct redis_conn *r)
{
    loop_defer_cancel(&r->done_task);
    loop_flush_cancel(&r->flush);
    strbuf_deinit(&r->out);
    free(r->ring);
}
