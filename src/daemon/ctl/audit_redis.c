/* Redis into the model: the item, its reservations (found by SCAN, since they are no member of
 * anything once they are settled), who stands in `buyers` and in `pending`. A page of keys is read
 * with one pipeline. */
#include "adapter/redis_stock/keys.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/parse.h"
#include "daemon/ctl/audit.h"
#include "daemon/ctl/item_args.h"
#include <stdio.h>
#include <stdlib.h>

#define PAGE 512
#define KEY_MAX 192
#define TURN_US (INT64_C(30) * 1000 * 1000)

enum fetch { FETCH_KEYS, FETCH_RECORD, FETCH_EXPIRY, FETCH_BUYERS, FETCH_PENDING };

struct fetcher;
struct call {
    struct redis_call call;
    struct fetcher *f;
    enum fetch what;
    char key[KEY_MAX]; /* FETCH_RECORD, FETCH_EXPIRY */
    struct call *next;
};

struct fetcher {
    struct audit *a;
    char cursor[24];
    char pattern[128];
    struct call head;     /* SCAN, HSCAN, ZSCAN */
    struct call *records; /* [PAGE], a free list */
    struct call *free;
    char (*keys)[KEY_MAX]; /* of the last page, not asked for yet */
    int n_keys, at_key, cap_keys;
    int under_way, rc;
};

static void on_encode(struct redis_call *rc, struct redis_writer *w)
{
    struct call *k = container_of(rc, struct call, call);
    struct fetcher *f = k->f;
    switch (k->what) {
    case FETCH_KEYS:
        redis_put(w, STR("SCAN"));
        redis_put(w, str_of(f->cursor));
        redis_put(w, STR("MATCH"));
        redis_put(w, str_of(f->pattern));
        break;
    case FETCH_RECORD:
    case FETCH_EXPIRY:
        redis_put(w, k->what == FETCH_RECORD ? STR("HGETALL") : STR("PEXPIRETIME"));
        redis_put(w, str_of(k->key));
        return;
    case FETCH_BUYERS:
    case FETCH_PENDING:
        redis_put(w, k->what == FETCH_BUYERS ? STR("HSCAN") : STR("ZSCAN"));
        keys_put(w, f->a->item, k->what == FETCH_BUYERS ? "buyers" : "pending");
        redis_put(w, str_of(f->cursor));
        break;
    }
    redis_put(w, STR("COUNT"));
    redis_put_i64(w, PAGE);
}

static void submit(struct call *k, enum fetch what)
{
    static const int args[] = {[FETCH_KEYS] = 6,
                               [FETCH_RECORD] = 2,
                               [FETCH_EXPIRY] = 2,
                               [FETCH_BUYERS] = 5,
                               [FETCH_PENDING] = 5};
    k->what = what;
    k->call.args = args[what];
    k->call.deadline_us = clock_mono_us() + TURN_US;
    k->f->under_way++;
    redis_send(k->f->a->c->redis, &k->call);
}

/* "<user>:<request>" */
static bool read_member(struct str text, int64_t *user, struct uuid *key)
{
    struct str head, rest = str_split(text, ':', &head);
    return parse_i64(head, 1, INT64_MAX, user) == 0 && uuid_parse(rest, key) == 0;
}

static struct str value_of(const struct redis_reply *r, struct str name)
{
    for (size_t i = 0; i + 1 < r->n; i += 2) {
        if (str_eq(r->items[i]->s, name))
            return r->items[i + 1]->s;
    }
    return (struct str){NULL, 0};
}

/* Absent: QUEUED and 1; both or none (lua/README.md). */
static bool rank_is(struct str rank, struct str state, enum verdict_state is)
{
    int64_t n;
    if (!state.ptr || !rank.ptr)
        return !state.ptr && !rank.ptr;
    return parse_i64(rank, 1, 4, &n) == 0 && n == verdict_rank(is);
}

/* True: there is a record, whose expiry is to be asked for. */
static bool take_record(struct fetcher *f, const struct call *k, const struct redis_reply *r)
{
    size_t prefix = strlen(f->pattern) - 1; /* without its * */
    int64_t user, created_ms, seq;
    struct uuid key;
    if (r->type != REDIS_ARRAY || r->n == 0)
        return false; /* expired meanwhile */
    if (!read_member(str_of(k->key + prefix), &user, &key)) {
        audit_broken(f->a, AUDIT_I5, "a key that is no reservation's: %s", k->key);
        return false;
    }
    struct audit_stored *s = audit_stored(&f->a->model, user, &key);
    if (!s)
        return false;
    struct str state = value_of(r, STR("state"));
    f->a->counts.records += !s->record;
    s->record = true;
    s->verdict = (struct verdict){VERDICT_QUEUED, REASON_NONE};
    /* All of them, whichever is unreadable. */
    bool ok = uuid_parse(value_of(r, STR("reservation_id")), &s->record_reservation) == 0;
    ok &= uuid_parse(value_of(r, STR("message_id")), &s->record_message) == 0;
    ok &= parse_i64(value_of(r, STR("order_id")), 1, INT64_MAX, &s->record_order_id) == 0;
    ok &= parse_i64(value_of(r, STR("epoch")), 0, INT64_MAX, &s->epoch) == 0;
    ok &= parse_i64(value_of(r, STR("seq")), 0, INT64_MAX, &seq) == 0;
    ok &= parse_i64(value_of(r, STR("created_at_ms")), 0, INT64_MAX, &created_ms) == 0;
    ok &= reservation_status_parse(value_of(r, STR("status")), &s->status) == 0;
    ok &= !state.ptr || verdict_state_parse(state, &s->verdict.state) == 0;
    ok &= verdict_reason_parse(value_of(r, STR("reason")), &s->verdict.reason) == 0;
    s->bad_record = !ok;
    s->bad_rank = ok && !rank_is(value_of(r, STR("rank")), state, s->verdict.state);
    if (ok && s->epoch == f->a->counts.info.version.epoch && seq > f->a->counts.max_seq)
        f->a->counts.max_seq = seq;
    return true;
}

static void take_expiry(struct fetcher *f, const struct call *k, int64_t ms)
{
    size_t prefix = strlen(f->pattern) - 1;
    int64_t user;
    struct uuid key;
    if (strncmp(k->key, f->pattern, prefix) == 0) {
        struct audit_stored *s = read_member(str_of(k->key + prefix), &user, &key)
                                     ? audit_find_stored(&f->a->model, user, &key)
                                     : NULL;
        if (s)
            s->expires_ms = ms == -2 ? 0 : ms; /* -2: gone meanwhile */
        return;
    }
    for (int i = 0; i < AUDIT_KEYS; i++) {
        if (strcmp(strrchr(k->key, ':') + 1, audit_keys[i]) == 0)
            f->a->counts.key_expires_ms[i] = ms;
    }
}

/* "<reservation> <order> <request>" */
static void take_buyer(struct fetcher *f, struct str user_text, struct str value)
{
    struct str reservation_text, order_text, rest = str_split(value, ' ', &reservation_text);
    struct str request_text = str_split(rest, ' ', &order_text);
    int64_t user, order;
    struct uuid reservation, key;
    if (parse_i64(user_text, 1, INT64_MAX, &user) < 0 ||
        uuid_parse(reservation_text, &reservation) < 0 ||
        parse_i64(order_text, 1, INT64_MAX, &order) < 0 || uuid_parse(request_text, &key) < 0) {
        audit_broken(f->a, AUDIT_I5, "buyers has an entry that makes no sense: " STR_FMT,
                     STR_ARG(user_text));
        return;
    }
    struct audit_stored *s = audit_stored(&f->a->model, user, &key);
    if (!s || s->buyer)
        return; /* HSCAN may say it twice */
    f->a->counts.buyers++;
    s->buyer = true;
    s->buyer_reservation = reservation;
    s->buyer_order_id = order;
}

static void take_pending(struct fetcher *f, struct str member)
{
    int64_t user;
    struct uuid key;
    if (!read_member(member, &user, &key)) {
        audit_broken(f->a, AUDIT_I5, "pending has a member that makes no sense: " STR_FMT,
                     STR_ARG(member));
        return;
    }
    struct audit_stored *s = audit_stored(&f->a->model, user, &key);
    if (!s || s->pending)
        return;
    f->a->counts.pending++;
    s->pending = true;
}

/* Sends for as many keys of the page as there are calls free; then goes on to the next page. */
static void go_on(struct fetcher *f)
{
    while (f->rc == 0 && f->free && f->at_key < f->n_keys) {
        struct call *k = f->free;
        f->free = k->next;
        memcpy(k->key, f->keys[f->at_key++], KEY_MAX);
        submit(k, FETCH_RECORD);
    }
    if (f->rc == 0 && f->at_key == f->n_keys && f->under_way == 0 && strcmp(f->cursor, "0") != 0)
        submit(&f->head, f->head.what);
    if (f->under_way == 0)
        loop_stop(f->a->c->loop);
}

static bool take_page(struct fetcher *f, const struct redis_reply *r)
{
    if (r->type != REDIS_ARRAY || r->n != 2 || r->items[1]->type != REDIS_ARRAY ||
        !str_copy(f->cursor, sizeof(f->cursor), r->items[0]->s))
        return false;
    const struct redis_reply *page = r->items[1];
    f->n_keys = f->at_key = 0;
    if (f->head.what == FETCH_KEYS) {
        if ((int)page->n > f->cap_keys) {
            free(f->keys);
            f->cap_keys = (int)page->n * 2;
            f->keys = malloc((size_t)f->cap_keys * KEY_MAX);
        }
        for (size_t i = 0; f->keys && i < page->n; i++)
            f->n_keys += str_copy(f->keys[f->n_keys], KEY_MAX, page->items[i]->s);
        return f->keys || page->n == 0;
    }
    for (size_t i = 0; i + 1 < page->n; i += 2) {
        if (f->head.what == FETCH_BUYERS)
            take_buyer(f, page->items[i]->s, page->items[i + 1]->s);
        else
            take_pending(f, page->items[i]->s);
    }
    return true;
}

static void on_reply(struct redis_call *rc_call, int rc, const struct redis_reply *reply)
{
    struct call *k = container_of(rc_call, struct call, call);
    struct fetcher *f = k->f;
    f->under_way--;
    bool own = k == &f->head, more = false;
    if (rc == 0 && k->what == FETCH_RECORD)
        more = take_record(f, k, reply);
    else if (rc == 0 && k->what == FETCH_EXPIRY && reply->type == REDIS_INT)
        take_expiry(f, k, reply->i);
    else if (rc == 0 && (!own || !take_page(f, reply)))
        rc = ERR_INTERNAL;
    if (more) {
        submit(k, FETCH_EXPIRY);
    } else if (!own) {
        k->next = f->free;
        f->free = k;
    }
    if (rc != 0 && f->rc == 0)
        f->rc = rc;
    go_on(f);
}

static int fetch_end(struct fetcher *f)
{
    while (f->under_way > 0)
        loop_run(f->a->c->loop);
    return f->rc;
}

static int fetch(struct fetcher *f, enum fetch what)
{
    strcpy(f->cursor, "0");
    f->n_keys = f->at_key = 0;
    submit(&f->head, what);
    return fetch_end(f);
}

static int fetch_key_expiries(struct fetcher *f, struct str item)
{
    strcpy(f->cursor, "0");
    for (int i = 0; i < AUDIT_KEYS && f->free; i++) {
        struct call *k = f->free;
        f->free = k->next;
        snprintf(k->key, sizeof(k->key), "sec:{" STR_FMT "}:%s", STR_ARG(item), audit_keys[i]);
        submit(k, FETCH_EXPIRY);
    }
    return fetch_end(f);
}

int audit_read_redis(struct audit *a)
{
    struct fetcher f = {.a = a};
    int rc = item_in_redis(a->c, "audit", a->item, &a->counts.info);
    if (rc == 1)
        ctl_complain("audit: %lld:%lld is not in Redis: nothing can be said about it",
                     (long long)a->item.activity_id, (long long)a->item.sku_id);
    if (rc != 0 || !ctl_redis(a->c))
        return CTL_UNKNOWN;
    char item[48];
    struct str name = keys_item(item, a->item);
    snprintf(f.pattern, sizeof(f.pattern), "sec:{" STR_FMT "}:reservation:*", STR_ARG(name));
    f.head = (struct call){.f = &f, .call.on_encode = on_encode, .call.on_reply = on_reply};
    f.records = calloc(PAGE, sizeof(struct call));
    int calls = a->c->settings.redis.max_pending / 2 < PAGE
                    ? (int)a->c->settings.redis.max_pending / 2
                    : PAGE;
    for (int i = 0; f.records && i < calls; i++) {
        f.records[i] = (struct call){
            .f = &f, .call.on_encode = on_encode, .call.on_reply = on_reply, .next = f.free};
        f.free = &f.records[i];
    }
    a->counts.records = a->counts.buyers = a->counts.pending = a->counts.max_seq = 0;
    rc = f.free ? fetch_key_expiries(&f, name) : ERR_OVERLOAD;
    if (rc == 0)
        rc = fetch(&f, FETCH_KEYS);
    if (rc == 0)
        rc = fetch(&f, FETCH_BUYERS);
    if (rc == 0)
        rc = fetch(&f, FETCH_PENDING);
    if (rc != 0)
        ctl_stock_failed(a->c, "audit", rc);
    else if (a->model.full)
        ctl_complain("audit: no memory for so many requests");
    free(f.records);
    free(f.keys);
    return rc == 0 && !a->model.full ? 0 : CTL_UNKNOWN;
}
