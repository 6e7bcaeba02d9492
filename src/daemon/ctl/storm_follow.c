#include "daemon/ctl/storm_follow.h"

#include "base/err.h"
#include "base/list.h"
#include "core/location_token.h"
#include "daemon/ctl/storm_answer.h"
#include <stdio.h>
#include <stdlib.h>

#define ABSENT_US (INT64_C(200) * 1000)
#define TOKEN_TTL_S 86400
#define REQUEST_MAX (512 + TOKEN_MAX)

static const int64_t delays_us[] = {200000, 400000, 800000, 1600000, 2000000};
#define DELAYS ((int)(sizeof(delays_us) / sizeof(delays_us[0])))

struct entry {
    struct list link;
    int64_t j, due_us, until_us;
    int delay; /* the next one, of delays_us */
    uint8_t token_len;
    char token[LOCATION_TOKEN_MAX]; /* without one of a service that makes none */
};

struct asker {
    struct follow *f;
    struct http_client *client;
    struct http_call call;
    struct asker *next_free;
    struct entry *e;
    int64_t since_us;
    char request[REQUEST_MAX];
};

struct follow {
    struct storm_config c;
    void (*on_change)(void *arg);
    void *arg;
    struct follow_totals totals;
    struct entry *entries;
    struct list spare, waiting[DELAYS]; /* of one delay each, so in order of time */
    struct asker askers[FOLLOW_CONNECTIONS], *free;
    struct timer timer;
    int busy;
    int64_t n, heard_us, absent_until_us;
    bool stopping;
};

static void wait_for_turn(struct follow *f, struct entry *e)
{
    e->due_us = loop_now_us(f->c.loop) + delays_us[e->delay];
    list_push_back(&f->waiting[e->delay], &e->link);
    if (e->delay + 1 < DELAYS)
        e->delay++;
}

static void forget(struct follow *f, struct entry *e)
{
    f->n--;
    list_push_back(&f->spare, &e->link);
}

static struct entry *front(const struct follow *f)
{
    struct entry *first = NULL;
    for (int i = 0; i < DELAYS; i++) {
        if (list_empty(&f->waiting[i]))
            continue;
        struct entry *e = container_of(f->waiting[i].next, struct entry, link);
        if (!first || e->due_us < first->due_us)
            first = e;
    }
    return first;
}

static void path_of(const struct follow *f, int64_t j, char *out, size_t cap)
{
    struct uuid key = storm_key(&f->c, j);
    char id[UUID_TEXT + 1] = {0};
    uuid_format(&key, id);
    snprintf(out, cap, "/v1/activities/%lld/skus/%lld/requests/%s",
             (long long)f->c.item.activity_id, (long long)f->c.item.sku_id, id);
}

static bool ask(struct follow *f, struct entry *e)
{
    struct asker *a = f->free;
    char path[160], token[TOKEN_MAX];
    const char *host = f->c.query[0] == '/' ? "localhost" : f->c.query;
    int bearer = token_mint(f->c.mint, storm_user(&f->c, e->j), loop_wall_us(f->c.loop) / 1000000,
                            TOKEN_TTL_S, token, sizeof(token));
    if (bearer < 0)
        return false;
    path_of(f, e->j, path, sizeof(path));
    int len =
        snprintf(a->request, sizeof(a->request),
                 "GET %s%s%.*s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %.*s\r\n\r\n", path,
                 e->token_len ? "?t=" : "", (int)e->token_len, e->token, host, bearer, token);
    if (len < 0 || (size_t)len >= sizeof(a->request))
        return false;
    f->free = a->next_free;
    f->busy++;
    list_remove(&e->link);
    a->e = e;
    a->since_us = loop_wall_us(f->c.loop);
    a->call.request = (struct str){a->request, (size_t)len};
    a->call.op.deadline_us = loop_now_us(f->c.loop) + f->c.timeout_us;
    f->totals.asked++;
    http_client_send(a->client, &a->call);
    return true;
}

static void pump(struct follow *f)
{
    int64_t now_us = loop_now_us(f->c.loop);
    struct entry *e = NULL;
    while (!f->stopping && f->free && now_us >= f->absent_until_us && (e = front(f)) &&
           e->due_us <= now_us)
        f->stopping |= !ask(f, e);
    e = f->stopping || !f->free ? NULL : front(f);
    if (!e) {
        sched_clear(loop_sched(f->c.loop), &f->timer);
        return;
    }
    int64_t at_us = e->due_us > f->absent_until_us ? e->due_us : f->absent_until_us;
    sched_set(loop_sched(f->c.loop), &f->timer, at_us);
}

static void on_timer(struct timer *t)
{
    pump(container_of(t, struct follow, timer));
}

/* A 404 is told only where a token was shown: without one it says nothing (docs/api.md). */
static void note(struct follow *f, const struct asker *a, const struct verdict *v)
{
    int status = a->call.status;
    if (!f->c.history || (status != 200 && (status != 404 || a->e->token_len == 0)))
        return;
    struct history_event event = {.type = HISTORY_STATE,
                                  .t_us = loop_wall_us(f->c.loop),
                                  .user = storm_user(&f->c, a->e->j),
                                  .key = storm_key(&f->c, a->e->j),
                                  .item = f->c.item,
                                  .status = status,
                                  .since_us = a->since_us,
                                  .has_state = v != NULL};
    if (v)
        event.verdict = *v;
    history_add(f->c.history, &event);
}

/* Whether that was its end. */
static bool ended(struct follow *f, struct asker *a, int rc)
{
    struct follow_totals *t = &f->totals;
    struct uuid key = storm_key(&f->c, a->e->j);
    struct verdict v;
    const char *why;
    if (rc != 0)
        return false;
    f->heard_us = loop_now_us(f->c.loop);
    switch (a->call.status) {
    case 200:
        if (storm_state_read(a->call.body, &key, &v, &why) < 0)
            break;
        note(f, a, &v);
        t->final += verdict_terminal(v.state);
        return verdict_terminal(v.state);
    case 404:
        note(f, a, NULL);
        t->missing += a->e->token_len > 0;
        return a->e->token_len > 0;
    case 429:
    case 500:
    case 503:
    case 504:
        return false;
    default:
        why = "no answer of a status call";
    }
    t->malformed++;
    t->malformed_status = a->call.status;
    t->malformed_why = why;
    return true;
}

static void on_answered(struct op *op, int rc)
{
    struct asker *a = container_of(container_of(op, struct http_call, op), struct asker, call);
    struct follow *f = a->f;
    int64_t now_us = loop_now_us(f->c.loop);
    struct entry *e = a->e;
    if (ended(f, a, rc)) {
        forget(f, e);
    } else if (now_us >= e->until_us) {
        f->totals.waiting++;
        forget(f, e);
    } else {
        wait_for_turn(f, e);
    }
    if (rc == ERR_UNAVAIL)
        f->absent_until_us = now_us + ABSENT_US;
    f->busy--;
    a->next_free = f->free;
    f->free = a;
    pump(f);
    f->on_change(f->arg);
}

bool follow_add(struct follow *f, int64_t j, struct str location, const char **why)
{
    char path[160];
    struct location_token token;
    path_of(f, j, path, sizeof(path));
    *why = "an acceptance without the Location of its request";
    if (!str_starts(location, str_of(path)))
        return false;
    struct str rest = {location.ptr + strlen(path), location.len - strlen(path)};
    if (rest.len) {
        *why = "a Location whose token is none";
        if (!str_starts(rest, STR("?t=")))
            return false;
        rest = (struct str){rest.ptr + 3, rest.len - 3};
        if (location_token_parse(rest, &token) < 0)
            return false;
    }
    struct list *spare = list_pop_front(&f->spare);
    if (!spare || f->stopping) {
        if (spare)
            list_push_back(&f->spare, spare);
        f->totals.passed_over++;
        return true;
    }
    struct entry *e = container_of(spare, struct entry, link);
    f->n++;
    f->totals.followed++;
    e->j = j;
    e->delay = 0;
    e->until_us = loop_now_us(f->c.loop) + f->c.follow_us;
    e->token_len = (uint8_t)rest.len;
    memcpy(e->token, rest.ptr, rest.len);
    wait_for_turn(f, e);
    pump(f);
    return true;
}

struct follow *follow_new(const struct storm_config *c, void (*on_change)(void *arg), void *arg)
{
    struct follow *f = calloc(1, sizeof(*f));
    bool ok = f && (f->entries = calloc(FOLLOW_MAX, sizeof(struct entry))) != NULL;
    if (!ok) {
        free(f);
        return NULL;
    }
    f->c = *c;
    f->on_change = on_change;
    f->arg = arg;
    f->timer.on_fire = on_timer;
    list_init(&f->spare);
    for (int i = 0; i < DELAYS; i++)
        list_init(&f->waiting[i]);
    for (int i = 0; i < FOLLOW_MAX; i++)
        list_push_back(&f->spare, &f->entries[i].link);
    for (int i = FOLLOW_CONNECTIONS - 1; ok && i >= 0; i--) {
        struct asker *a = &f->askers[i];
        a->f = f;
        a->call.op.on_done = on_answered;
        a->client = http_client_new(c->loop, c->query);
        a->next_free = f->free;
        f->free = a;
        ok = a->client != NULL;
    }
    if (ok)
        return f;
    follow_cut(f);
    follow_free(f);
    return NULL;
}

void follow_stop(struct follow *f)
{
    if (!f || f->stopping)
        return;
    f->stopping = true;
    sched_clear(loop_sched(f->c.loop), &f->timer);
    for (int i = 0; i < DELAYS; i++) {
        for (struct list *at; (at = list_pop_front(&f->waiting[i]));) {
            f->totals.waiting++;
            forget(f, container_of(at, struct entry, link));
        }
    }
}

bool follow_over(const struct follow *f)
{
    return !f || (f->busy == 0 && (f->n == 0 || f->stopping));
}

void follow_totals(const struct follow *f, struct follow_totals *out)
{
    if (f)
        *out = f->totals;
}

int64_t follow_heard_us(const struct follow *f)
{
    return f ? f->heard_us : 0;
}

void follow_cut(struct follow *f)
{
    follow_stop(f);
    for (int i = 0; f && i < FOLLOW_CONNECTIONS; i++) {
        http_client_free(f->askers[i].client);
        f->askers[i].client = NULL;
    }
}

int follow_busy(const struct follow *f)
{
    return f ? f->busy : 0;
}

void follow_free(struct follow *f)
{
    if (!f)
        return;
    free(f->entries);
    free(f);
}
