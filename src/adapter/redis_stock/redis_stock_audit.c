/* A page of SCAN gives keys; each is read by a call of its own (HGETALL, then PEXPIRETIME), as many
 * at once as there are calls. Then `buyers` and `pending`, page by page.
 *
 *   head: SCAN ─► a page ─► record: HGETALL ─► PEXPIRETIME ─► on_record
 *           ▲                                                    │
 *           └──────────── the page is done ──────────────────────┘
 *
 * Any failure ends the reading when all calls under way have come back. */
#include "adapter/redis_stock/redis_stock_audit.h"

#include "adapter/redis_stock/keys.h"
#include "base/clock.h"
#include "base/parse.h"
#include <stdio.h>
#include <stdlib.h>

#define PAGE 512
#define KEY_MAX 192
#define TURN_US (INT64_C(30) * 1000 * 1000)

enum fetch { FETCH_KEYS, FETCH_RECORD, FETCH_EXPIRY, FETCH_BUYERS, FETCH_PENDING };

struct reading;
struct call {
    struct redis_call call;
    struct reading *r;
    enum fetch what;
    char key[KEY_MAX]; /* FETCH_RECORD, FETCH_EXPIRY */
    struct redis_stock_audit_record record;
    struct call *next;
};

struct reading {
    struct redis_stock_audit *audit;
    struct loop *loop;
    struct redis *redis;
    struct item item;
    char cursor[24];
    char pattern[128]; /* of the records' keys, with a * at its end */
    struct call head;  /* SCAN, HSCAN, ZSCAN */
    struct call *calls, *free;
    char (*keys)[KEY_MAX]; /* of the last page, not asked for yet */
    int n_keys, at_key, cap_keys;
    int under_way, rc;
};

const char *redis_stock_key_name(enum redis_stock_key k)
{
    static const char *const names[REDIS_STOCK_KEYS] = {
        [REDIS_STOCK_META] = "meta",     [REDIS_STOCK_STOCK] = "stock",
        [REDIS_STOCK_BUYERS] = "buyers", [REDIS_STOCK_PENDING] = "pending",
        [REDIS_STOCK_EVENTS] = "events", [REDIS_STOCK_RESULTS] = "results",
    };
    return names[k];
}

static void on_encode(struct redis_call *rc, struct redis_writer *w)
{
    struct call *k = container_of(rc, struct call, call);
    struct reading *r = k->r;
    switch (k->what) {
    case FETCH_KEYS:
        redis_put(w, STR("SCAN"));
        redis_put(w, str_of(r->cursor));
        redis_put(w, STR("MATCH"));
        redis_put(w, str_of(r->pattern));
        break;
    case FETCH_RECORD:
    case FETCH_EXPIRY:
        redis_put(w, k->what == FETCH_RECORD ? STR("HGETALL") : STR("PEXPIRETIME"));
        redis_put(w, str_of(k->key));
        return;
    case FETCH_BUYERS:
    case FETCH_PENDING:
        redis_put(w, k->what == FETCH_BUYERS ? STR("HSCAN") : STR("ZSCAN"));
        keys_put(w, r->item, k->what == FETCH_BUYERS ? "buyers" : "pending");
        redis_put(w, str_of(r->cursor));
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
    k->call.key_at = what == FETCH_KEYS ? 3 : 1; /* the pattern's tag is the keys' */
    k->call.deadline_us = clock_mono_us() + TURN_US;
    k->r->under_way++;
    redis_send(k->r->redis, &k->call);
}

/* --- what is read --- */

/* "<user>:<request>" */
static bool read_member(struct str text, int64_t *user, struct uuid *request)
{
    struct str head, rest = str_split(text, ':', &head);
    return parse_i64(head, 1, INT64_MAX, user) == 0 && uuid_parse(rest, request) == 0;
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

static void read_record(const struct redis_reply *reply, struct redis_stock_audit_record *r)
{
    struct str state = value_of(reply, STR("state"));
    int64_t created_ms;
    r->verdict = (struct verdict){VERDICT_QUEUED, REASON_NONE};
    /* All of them, whichever is unreadable. */
    bool ok = uuid_parse(value_of(reply, STR("reservation_id")), &r->reservation_id) == 0;
    ok &= uuid_parse(value_of(reply, STR("message_id")), &r->message_id) == 0;
    ok &= parse_i64(value_of(reply, STR("order_id")), 1, INT64_MAX, &r->order_id) == 0;
    ok &= parse_i64(value_of(reply, STR("epoch")), 0, INT64_MAX, &r->epoch) == 0;
    ok &= parse_i64(value_of(reply, STR("seq")), 0, INT64_MAX, &r->seq) == 0;
    ok &= parse_i64(value_of(reply, STR("created_at_ms")), 0, INT64_MAX, &created_ms) == 0;
    ok &= reservation_status_parse(value_of(reply, STR("status")), &r->status) == 0;
    ok &= !state.ptr || verdict_state_parse(state, &r->verdict.state) == 0;
    ok &= verdict_reason_parse(value_of(reply, STR("reason")), &r->verdict.reason) == 0;
    r->readable = ok;
    r->bad_rank = ok && !rank_is(value_of(reply, STR("rank")), state, r->verdict.state);
}

/* True: there is a record, whose expiry is to be asked for. */
static bool take_record(struct call *k, const struct redis_reply *reply)
{
    struct reading *r = k->r;
    size_t prefix = strlen(r->pattern) - 1;
    if (reply->type != REDIS_ARRAY || reply->n == 0)
        return false; /* expired meanwhile */
    k->record = (struct redis_stock_audit_record){0};
    if (!read_member(str_of(k->key + prefix), &k->record.user_id, &k->record.request_id)) {
        r->audit->on_stray(r->audit, "a key that is no reservation's", str_of(k->key));
        return false;
    }
    read_record(reply, &k->record);
    return true;
}

static int take_expiry(struct call *k, int64_t ms)
{
    struct reading *r = k->r;
    if (strncmp(k->key, r->pattern, strlen(r->pattern) - 1) == 0) {
        k->record.expires_ms = ms == -2 ? 0 : ms;
        return r->audit->on_record(r->audit, &k->record);
    }
    for (int i = 0; i < REDIS_STOCK_KEYS; i++) {
        if (strcmp(strrchr(k->key, ':') + 1, redis_stock_key_name((enum redis_stock_key)i)) == 0)
            r->audit->on_expiry(r->audit, (enum redis_stock_key)i, ms);
    }
    return 0;
}

/* "<reservation> <order> <request>" */
static int take_buyer(struct reading *r, struct str user, struct str value)
{
    struct str reservation, order, rest = str_split(value, ' ', &reservation);
    struct str request = str_split(rest, ' ', &order);
    struct redis_stock_audit_buyer b;
    if (parse_i64(user, 1, INT64_MAX, &b.user_id) < 0 ||
        uuid_parse(reservation, &b.reservation_id) < 0 ||
        parse_i64(order, 1, INT64_MAX, &b.order_id) < 0 || uuid_parse(request, &b.request_id) < 0) {
        r->audit->on_stray(r->audit, "buyers has an entry that makes no sense", user);
        return 0;
    }
    return r->audit->on_buyer(r->audit, &b);
}

static int take_pending(struct reading *r, struct str member)
{
    int64_t user;
    struct uuid request;
    if (read_member(member, &user, &request))
        return r->audit->on_pending(r->audit, user, &request);
    r->audit->on_stray(r->audit, "pending has a member that makes no sense", member);
    return 0;
}

/* --- pages --- */

static int keep_keys(struct reading *r, const struct redis_reply *page)
{
    if ((int)page->n > r->cap_keys) {
        free(r->keys);
        r->cap_keys = (int)page->n * 2;
        r->keys = malloc((size_t)r->cap_keys * KEY_MAX);
        if (!r->keys) {
            r->cap_keys = 0;
            return ERR_OVERLOAD;
        }
    }
    for (size_t i = 0; i < page->n; i++)
        r->n_keys += str_copy(r->keys[r->n_keys], KEY_MAX, page->items[i]->s);
    return 0;
}

static int take_page(struct reading *r, const struct redis_reply *reply)
{
    if (reply->type != REDIS_ARRAY || reply->n != 2 || reply->items[1]->type != REDIS_ARRAY ||
        !str_copy(r->cursor, sizeof(r->cursor), reply->items[0]->s))
        return ERR_INTERNAL;
    const struct redis_reply *page = reply->items[1];
    int rc = 0;
    r->n_keys = r->at_key = 0;
    if (r->head.what == FETCH_KEYS)
        return keep_keys(r, page);
    for (size_t i = 0; rc == 0 && i + 1 < page->n; i += 2)
        rc = r->head.what == FETCH_BUYERS ? take_buyer(r, page->items[i]->s, page->items[i + 1]->s)
                                          : take_pending(r, page->items[i]->s);
    return rc;
}

/* Sends for as many keys of the page as there are calls free; then goes on to the next page. */
static void go_on(struct reading *r)
{
    while (r->rc == 0 && r->free && r->at_key < r->n_keys) {
        struct call *k = r->free;
        r->free = k->next;
        memcpy(k->key, r->keys[r->at_key++], KEY_MAX);
        submit(k, FETCH_RECORD);
    }
    if (r->rc == 0 && r->at_key == r->n_keys && r->under_way == 0 && strcmp(r->cursor, "0") != 0)
        submit(&r->head, r->head.what);
    if (r->under_way == 0)
        loop_stop(r->loop);
}

static void on_reply(struct redis_call *rc_call, int rc, const struct redis_reply *reply)
{
    struct call *k = container_of(rc_call, struct call, call);
    struct reading *r = k->r;
    bool own = k == &r->head, more = false;
    r->under_way--;
    if (rc == 0 && own)
        rc = take_page(r, reply);
    else if (rc == 0 && k->what == FETCH_RECORD)
        more = take_record(k, reply);
    else if (rc == 0)
        rc = reply->type == REDIS_INT ? take_expiry(k, reply->i) : ERR_INTERNAL;
    if (rc != 0 && r->rc == 0)
        r->rc = rc;
    if (more) {
        submit(k, FETCH_EXPIRY);
    } else if (!own) {
        k->next = r->free;
        r->free = k;
    }
    go_on(r);
}

static int await(struct reading *r)
{
    while (r->under_way > 0)
        loop_run(r->loop);
    return r->rc;
}

static int fetch(struct reading *r, enum fetch what)
{
    strcpy(r->cursor, "0");
    r->n_keys = r->at_key = 0;
    submit(&r->head, what);
    return await(r);
}

static int fetch_expiries(struct reading *r, struct str item)
{
    strcpy(r->cursor, "0");
    for (int i = 0; i < REDIS_STOCK_KEYS && r->free; i++) {
        struct call *k = r->free;
        r->free = k->next;
        snprintf(k->key, sizeof(k->key), "sec:{" STR_FMT "}:%s", STR_ARG(item),
                 redis_stock_key_name((enum redis_stock_key)i));
        submit(k, FETCH_EXPIRY);
    }
    return await(r);
}

static int read_all(struct reading *r, int max_calls)
{
    char mem[48];
    struct str item = keys_item(mem, r->item);
    snprintf(r->pattern, sizeof(r->pattern), "sec:{" STR_FMT "}:reservation:*", STR_ARG(item));
    r->head = (struct call){.r = r, .call.on_encode = on_encode, .call.on_reply = on_reply};
    max_calls = max_calls > PAGE               ? PAGE
                : max_calls < REDIS_STOCK_KEYS ? REDIS_STOCK_KEYS
                                               : max_calls;
    r->calls = calloc((size_t)max_calls, sizeof(struct call));
    if (!r->calls)
        return ERR_OVERLOAD;
    for (int i = 0; i < max_calls; i++) {
        r->calls[i] = (struct call){
            .r = r, .call.on_encode = on_encode, .call.on_reply = on_reply, .next = r->free};
        r->free = &r->calls[i];
    }
    int rc = fetch_expiries(r, item);
    if (rc == 0)
        rc = fetch(r, FETCH_KEYS);
    if (rc == 0)
        rc = fetch(r, FETCH_BUYERS);
    if (rc == 0)
        rc = fetch(r, FETCH_PENDING);
    return rc;
}

int redis_stock_audit_read(struct loop *l, const struct redis_config *c, struct item item,
                           int max_calls, struct redis_stock_audit *a)
{
    struct reading r = {.audit = a, .loop = l, .item = item, .redis = redis_new(l, c)};
    int rc = r.redis ? read_all(&r, max_calls) : ERR_INVALID;
    a->ends_may_move = r.redis && redis_is_cluster(r.redis);
    if (r.redis)
        redis_free(r.redis);
    free(r.calls);
    free(r.keys);
    return rc;
}
