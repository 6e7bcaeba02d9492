/* A fetch: encodes it, puts what came into slots, and notes where its stream stands.
 * What to fetch next, and for whom, is stream_read.c's. */
#include "adapter/redis_stream/stream.h"

#include "base/err.h"
#include "base/log.h"
#include "base/panic.h"
#include "base/parse.h"

#define FETCH_US 1000000   /* a fetch that takes longer is unknown */
#define INTERVAL_US 250000 /* between looks for ended leases while something is pending */
#define BROKEN_US 1000000  /* a key of another type is not asked before this */

static int64_t interval_us(const struct stream *s)
{
    return s->c.lease_us / 4 < INTERVAL_US ? s->c.lease_us / 4 : INTERVAL_US;
}

static void reclaim_by(struct stream_item *it, int64_t at_us)
{
    if (at_us < it->reclaim_at_us)
        it->reclaim_at_us = at_us;
}

/* --- messages into slots --- */
static struct str body_of(const struct redis_reply *fields)
{
    for (size_t i = 0; fields && fields->type == REDIS_ARRAY && i + 1 < fields->n; i += 2) {
        if (str_eq(fields->items[i]->s, STR("b")))
            return fields->items[i + 1]->s;
    }
    return STR(""); /* malformed: the worker's decoder refuses it and stores it as a dead letter
                       (rule 24) */
}

static void take(const struct stream_fetch *f, struct str id, int64_t deliveries,
                 const struct redis_reply *fields)
{
    struct stream *s = f->s;
    struct stream_item *it = f->item;
    struct list *l = list_pop_front(&s->free_slots);
    if (!l) /* more than COUNT: not Redis. It stays pending and comes back. */
        return;
    struct stream_slot *slot = container_of(l, struct stream_slot, free_link);
    struct str body = body_of(fields), ms;
    if (body.len > STREAM_BODY_MAX) {
        metric_add(s->cut_bodies, 1);
        body.len = STREAM_BODY_MAX;
    }
    s->n_free--;
    metric_gauge_add(s->in_hand, 1);
    memcpy(slot->body, body.ptr, body.len);
    slot->m = (struct queue_message){.item = it->item,
                                     .body = {slot->body, body.len},
                                     .deliveries = (int)deliveries,
                                     .lease_until_us = f->call.sent_us + s->c.lease_us};
    str_copy(slot->m.id, sizeof slot->m.id, id);
    str_split(id, '-', &ms);
    if (parse_i64(ms, 0, INT64_MAX, &slot->m.enqueued_ms))
        slot->m.enqueued_ms = 0;
    list_push_back(&s->ready, &slot->m.link);
    s->n_ready++;
    it->used = true;
}

/* --- fetches --- */
static void put_z(struct redis_writer *w, const char *z)
{
    redis_put(w, str_of(z));
}

static void encode_fetch(struct redis_call *c, struct redis_writer *w)
{
    const struct stream_fetch *f = container_of(c, struct stream_fetch, call);
    const struct stream *s = f->s;
    switch (f->kind) {
    case FETCH_READ:
        put_z(w, "XREADGROUP");
        put_z(w, "GROUP");
        put_z(w, s->group);
        put_z(w, s->consumer);
        put_z(w, "COUNT");
        redis_put_i64(w, f->count);
        put_z(w, "STREAMS");
        put_z(w, f->item->key);
        put_z(w, ">");
        break;
    case FETCH_RECLAIM:
        put_z(w, f->item->key);
        put_z(w, s->group);
        put_z(w, s->consumer);
        redis_put_i64(w, stream_lease_ms(s));
        redis_put_i64(w, f->count);
        break;
    case FETCH_POSITION:
        put_z(w, "XINFO");
        put_z(w, "GROUPS");
        put_z(w, f->item->key);
        break;
    case FETCH_CREATE:
        put_z(w, "XGROUP");
        put_z(w, "CREATE");
        put_z(w, f->item->key);
        put_z(w, s->group);
        put_z(w, "0");
        break;
    }
}

static void on_fetched(struct redis_call *c, int rc, const struct redis_reply *reply);

static struct stream_fetch *idle_fetch(struct stream *s)
{
    for (int i = 0; i < STREAM_FETCHES; i++) {
        if (!s->fetches[i].busy)
            return &s->fetches[i];
    }
    panic("stream fetch: too many");
}

bool stream_may_fetch(const struct stream *s, const struct stream_item *it)
{
    if (s->n_fetches == 0)
        return true;
    if (!s->cluster || s->n_fetches == STREAM_FETCHES)
        return false;
    int server = redis_server(s->redis, str_of(it->key));
    for (int i = 0; i < STREAM_FETCHES; i++) {
        const struct stream_fetch *f = &s->fetches[i];
        /* Its slot may have moved since. */
        if (f->busy && (f->server == server || f->item == it))
            return false;
    }
    return true;
}

void stream_fetch(struct stream *s, struct stream_item *it, int kind, int count)
{
    static const struct {
        const char *name;
        struct redis_script *script;
        int keys, args, key_at;
    } how[] = {[FETCH_READ] = {"xreadgroup", NULL, 0, 9, 7},
               [FETCH_RECLAIM] = {NULL, &stream_script_reclaim, 1, 5, 0},
               [FETCH_POSITION] = {"xinfo", NULL, 0, 3, 2},
               [FETCH_CREATE] = {"xgroup", NULL, 0, 5, 2}};
    struct stream_fetch *f = idle_fetch(s);
    f->s = s;
    f->call = (struct redis_call){.script = how[kind].script,
                                  .name = how[kind].name,
                                  .keys = how[kind].keys,
                                  .args = how[kind].args,
                                  .key_at = how[kind].key_at,
                                  .on_encode = encode_fetch,
                                  .on_reply = on_fetched,
                                  .deadline_us = loop_now_us(s->loop) + FETCH_US};
    f->item = stream_ref(it);
    f->kind = kind;
    f->count = count;
    f->server = redis_server(s->redis, str_of(it->key));
    f->busy = true;
    s->n_fetches++;
    s->promised += count;
    if (kind == FETCH_READ) {
        it->rung = false;
        s->visits++;
    }
    redis_send(s->redis, &f->call);
}

/* There is no such stream: nothing to read until somebody makes it; then the bell rings for its
 * first entry. */
static void absent(struct stream *s, struct stream_item *it)
{
    stream_cool(s, it);
    str_copy(it->pos, sizeof it->pos, STR("0-0"));
    it->pos_known = true;
    it->reclaim_at_us = loop_now_us(s->loop) + s->c.lease_us;
    if (s->cluster)
        it->not_before_us = loop_now_us(s->loop) + INTERVAL_US;
}

static void broken(struct stream *s, struct stream_item *it, const struct redis_reply *reply)
{
    static struct log_limit limit;
    uint64_t suppressed;
    it->not_before_us = loop_now_us(s->loop) + BROKEN_US;
    it->reclaim_at_us = it->not_before_us;
    metric_add(s->receive_failures, 1);
    if (log_allowed(&limit, loop_now_us(s->loop), &suppressed))
        log_error("event stream is unusable", LOG_I("activity_id", it->item.activity_id),
                  LOG_I("sku_id", it->item.sku_id), LOG_S("error", reply->s),
                  LOG_I("suppressed", (int64_t)suppressed));
}

static void entries_read(const struct stream_fetch *f, const struct redis_reply *reply)
{
    struct stream *s = f->s;
    struct stream_item *it = f->item;
    const struct redis_reply *entries = NULL;
    if (reply->type == REDIS_ARRAY && reply->n == 1 && reply->items[0]->n == 2)
        entries = reply->items[0]->items[1];
    size_t n = entries && entries->type == REDIS_ARRAY ? entries->n : 0;
    for (size_t i = 0; i < n; i++) {
        const struct redis_reply *e = entries->items[i];
        if (e->type != REDIS_ARRAY || e->n != 2)
            continue;
        take(f, e->items[0]->s, 1, e->items[1]);
        str_copy(it->pos, sizeof it->pos, e->items[0]->s);
    }
    it->pos_known = n > 0;
    if (n)
        reclaim_by(it, loop_now_us(s->loop) + interval_us(s));
    bool more = (int)n >= f->count || it->rung;
    stream_cool(s, it);
    if (more)
        stream_heat(s, it); /* to the end of the rotation */
}

static void leases_taken(const struct stream_fetch *f, const struct redis_reply *reply)
{
    struct stream *s = f->s;
    struct stream_item *it = f->item;
    int64_t now = loop_now_us(s->loop);
    if (reply->type != REDIS_ARRAY || reply->n != 3 || reply->items[2]->type != REDIS_ARRAY) {
        it->reclaim_at_us = now + BROKEN_US;
        return;
    }
    const struct redis_reply *taken = reply->items[2];
    for (size_t i = 0; i < taken->n; i++) {
        const struct redis_reply *e = taken->items[i];
        if (e->type == REDIS_ARRAY && e->n == 3)
            take(f, e->items[0]->s, e->items[1]->i, e->items[2]);
    }
    metric_add(s->reclaimed, taken->n);
    s->reclaimed_last = taken->n > 0;
    int64_t wait = reply->items[1]->i * 1000, most = interval_us(s);
    if ((int)taken->n >= f->count)
        it->reclaim_at_us = now;
    else if (reply->items[0]->i > 0)
        it->reclaim_at_us = now + (wait < 2000 ? 2000 : wait < most ? wait : most);
    else {
        /* Nothing is pending for anybody: look again in a lease's time. That one read more is the
         * backstop for whatever a bell could miss (a stream made anew with earlier ids). */
        it->reclaim_at_us = now + s->c.lease_us;
        stream_heat(s, it);
    }
}

static void position_told(struct stream *s, struct stream_item *it, const struct redis_reply *reply)
{
    for (size_t i = 0; reply->type == REDIS_ARRAY && i < reply->n; i++) {
        const struct redis_reply *g = reply->items[i];
        bool ours = false;
        for (size_t k = 0; k + 1 < g->n; k += 2) {
            const struct redis_reply *v = g->items[k + 1];
            if (str_eq(g->items[k]->s, STR("name")))
                ours = str_eq(v->s, str_of(s->group));
            else if (ours && str_eq(g->items[k]->s, STR("pending")) && v->i > 0)
                reclaim_by(it, loop_now_us(s->loop) + interval_us(s));
            else if (ours && str_eq(g->items[k]->s, STR("last-delivered-id")))
                it->pos_known = str_copy(it->pos, sizeof it->pos, v->s);
        }
        if (ours)
            return;
    }
    stream_fetch(s, it, FETCH_CREATE, 0);
}

static void answered(const struct stream_fetch *f, const struct redis_reply *reply)
{
    switch (f->kind) {
    case FETCH_READ:
        entries_read(f, reply);
        break;
    case FETCH_RECLAIM:
        leases_taken(f, reply);
        break;
    case FETCH_POSITION:
        position_told(f->s, f->item, reply);
        break;
    case FETCH_CREATE:
        stream_heat(f->s, f->item);
        break;
    }
}

static void refused(const struct stream_fetch *f, const struct redis_reply *reply)
{
    struct stream *s = f->s;
    struct stream_item *it = f->item;
    if (stream_says(reply, "NOGROUP"))
        stream_fetch(s, it, FETCH_CREATE, 0);
    else if (stream_says(reply, "BUSYGROUP"))
        stream_heat(s, it);
    else if (f->kind == FETCH_CREATE || f->kind == FETCH_POSITION) {
        if (stream_says(reply, "WRONGTYPE"))
            broken(s, it, reply);
        else
            absent(s, it); /* "requires the key to exist", "no such key" */
    } else {
        broken(s, it, reply);
    }
}

void stream_away(struct stream_item *it, int64_t now_us)
{
    it->not_before_us = now_us + INTERVAL_US;
    if (it->reclaim_at_us < it->not_before_us)
        it->reclaim_at_us = it->not_before_us;
}

/* A cluster's other servers may be well: their streams are read on, in this very receive. */
static void failed(struct stream *s, struct stream_item *it, int rc)
{
    reclaim_by(it, loop_now_us(s->loop) + interval_us(s));
    if (!s->cluster) {
        stream_fetch_failed(s, rc);
        return;
    }
    metric_add(s->receive_failures, 1);
    stream_away(it, loop_now_us(s->loop));
}

static void on_fetched(struct redis_call *c, int rc, const struct redis_reply *reply)
{
    struct stream_fetch *f = container_of(c, struct stream_fetch, call);
    struct stream *s = f->s;
    const struct stream_fetch was = *f; /* its place may be taken by what is fetched next */
    f->busy = false;
    s->n_fetches--;
    s->promised -= f->count;
    if (s->ending)
        ;
    else if (rc == 0)
        answered(&was, reply);
    else if (rc == ERR_INTERNAL && reply)
        refused(&was, reply);
    else
        failed(s, was.item, rc);
    stream_unref(s, was.item);
    if (!s->ending)
        stream_pump(s);
}
