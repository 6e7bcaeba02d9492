#include "adapter/redis_stream/redis_stream.h"

#include "adapter/redis_stream/stream.h"
#include "base/err.h"
#include "base/panic.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

/* The bell's reply takes up to its BLOCK: the connection is not stalled before that. */
#define BELL_STALL_US 3000000

extern const char lua_lease[], lua_reclaim[], lua_backlog[], lua_locate[], lua_tidy[];
struct redis_script stream_script_lease = {.name = "lease"};
struct redis_script stream_script_reclaim = {.name = "reclaim"};
struct redis_script stream_script_backlog = {.name = "backlog"};
struct redis_script stream_script_locate = {.name = "locate"};
struct redis_script stream_script_tidy = {.name = "tidy"};

static pthread_once_t scripts_once = PTHREAD_ONCE_INIT;

static void init_scripts(void)
{
    static const struct {
        struct redis_script *script;
        const char *body;
    } scripts[] = {{&stream_script_lease, lua_lease},
                   {&stream_script_reclaim, lua_reclaim},
                   {&stream_script_backlog, lua_backlog},
                   {&stream_script_locate, lua_locate},
                   {&stream_script_tidy, lua_tidy}};
    for (size_t i = 0; i < sizeof scripts / sizeof scripts[0]; i++) {
        scripts[i].script->body = scripts[i].body;
        redis_script_init(scripts[i].script);
    }
}

/* --- items --- */
void stream_key(struct item item, char key[72])
{
    snprintf(key, 72, "sec:{%lld:%lld}:events", (long long)item.activity_id,
             (long long)item.sku_id);
}

struct stream_item *stream_find(const struct stream *s, struct item item)
{
    list_for_each (l, &s->items) {
        struct stream_item *it = container_of(l, struct stream_item, link);
        if (item_eq(it->item, item))
            return it;
    }
    return NULL;
}

void stream_heat(struct stream *s, struct stream_item *it)
{
    it->rung = true;
    if (it->hot || it->gone)
        return;
    it->hot = true;
    s->n_hot++;
    list_push_back(&s->hot, &it->hot_link);
}

void stream_cool(struct stream *s, struct stream_item *it)
{
    if (!it->hot)
        return;
    it->hot = false;
    s->n_hot--;
    list_remove(&it->hot_link);
}

static void free_if_gone(struct stream_item *it)
{
    if (it->gone && it->refs == 0)
        free(it);
}

void stream_unref(struct stream *s, struct stream_item *it)
{
    (void)s;
    it->refs--;
    free_if_gone(it);
}

static struct stream_item *item_new(struct item item)
{
    struct stream_item *it = calloc(1, sizeof *it);
    if (!it)
        panic("redis_stream: no memory for an item");
    it->item = item;
    it->waiting = it->age_ms = -1;
    list_init(&it->hot_link);
    stream_key(item, it->key);
    return it;
}

static int compare(const void *a, const void *b)
{
    const struct item *x = a, *y = b;
    if (x->activity_id != y->activity_id)
        return x->activity_id < y->activity_id ? -1 : 1;
    return x->sku_id < y->sku_id ? -1 : x->sku_id > y->sku_id;
}

static void drop_item(struct stream *s, struct stream_item *it)
{
    stream_cool(s, it);
    it->gone = true;
    free_if_gone(it);
}

/* The first known item that is not before this one; those before it are not among the items any
 * more. */
static struct stream_item *next_known(struct stream *s, struct list *old, struct item item)
{
    while (!list_empty(old)) {
        struct stream_item *it = container_of(old->next, struct stream_item, link);
        int order = compare(&it->item, &item);
        if (order > 0)
            return NULL;
        list_remove(&it->link);
        if (order == 0)
            return it;
        drop_item(s, it);
    }
    return NULL;
}

/* s->items is in the order of the ids, so that old and new are merged in one pass. */
static void set_items(struct queue *q, const struct item *items, int n)
{
    struct stream *s = stream_of(q);
    struct item *sorted = malloc(((size_t)n + 1) * sizeof *sorted);
    if (!sorted)
        panic("redis_stream: no memory for %d items", n);
    if (n > 0)
        memcpy(sorted, items, (size_t)n * sizeof *sorted);
    qsort(sorted, (size_t)n, sizeof *sorted, compare);
    struct list old;
    list_init(&old);
    list_splice_back(&old, &s->items);
    s->n_items = 0;
    for (int i = 0; i < n; i++) {
        if (i > 0 && item_eq(sorted[i], sorted[i - 1]))
            continue;
        struct stream_item *it = next_known(s, &old, sorted[i]);
        if (!it) {
            it = item_new(sorted[i]);
            stream_heat(s, it);
        }
        list_push_back(&s->items, &it->link);
        s->n_items++;
    }
    for (struct list *l; (l = list_pop_front(&old));)
        drop_item(s, container_of(l, struct stream_item, link));
    free(sorted);
    stream_pump_later(s);
}

bool stream_says(const struct redis_reply *reply, const char *word)
{
    return reply && reply->type == REDIS_ERROR && str_starts(reply->s, str_of(word));
}

/* --- the port --- */
static void release(struct queue *q, struct queue_message *m)
{
    struct stream *s = stream_of(q);
    struct stream_slot *slot = container_of(m, struct stream_slot, m);
    list_push_back(&s->free_slots, &slot->free_link);
    s->n_free++;
    metric_gauge_add(s->in_hand, -1);
    if (stream_room(s) == 1 && !list_empty(&s->receives))
        stream_pump_later(s);
}

void stream_call_start(struct stream *s, struct stream_call *c, struct op *op)
{
    c->s = s;
    c->op = op;
    c->call.deadline_us = op->deadline_us;
    list_push_back(&s->calls, &c->link);
    redis_send(s->redis, &c->call);
}

static void cancel(struct queue *q, struct op *op)
{
    struct stream *s = stream_of(q);
    if (stream_receive_cancel(s, op))
        return;
    list_for_each (l, &s->calls) {
        struct stream_call *c = container_of(l, struct stream_call, link);
        if (c->op == op) {
            redis_cancel(s->redis, &c->call);
            return;
        }
    }
}

static const struct queue_ops ops = {
    .publish = stream_publish,
    .receive = stream_receive,
    .ack = stream_ack,
    .extend = stream_extend,
    .retry_later = stream_retry_later,
    .locate = stream_locate,
    .lag = stream_lag,
    .release = release,
    .cancel = cancel,
    .set_items = set_items,
};

static void register_metrics(struct stream *s)
{
    static const double sizes[] = {1, 2, 4, 8, 16, 32, 64, 128};
    s->batch_size =
        metric_histogram("seckill_mq_receive_batch_size", "messages per receive that returned any",
                         NULL, sizes, sizeof sizes / sizeof sizes[0]);
    s->receive_failures =
        metric_counter("seckill_mq_receive_failures_total", "receives that failed", NULL);
    s->lag = metric_gauge("seckill_mq_consumer_lag", "events not yet delivered, all items", NULL);
    s->age = metric_gauge("seckill_mq_oldest_age_seconds",
                          "age of the oldest event that waits (rule 26)", NULL);
    s->trimmed = metric_counter("seckill_mq_stream_trimmed_total",
                                "entries removed from streams, acked by all", NULL);
    s->reclaimed =
        metric_counter("seckill_mq_reclaimed_total", "messages taken over after their lease", NULL);
    s->cut_bodies =
        metric_counter("seckill_mq_body_too_long_total", "messages whose body was cut", NULL);
    s->in_hand = metric_gauge("seckill_mq_in_hand", "messages in memory", NULL);
    metric_set(s->in_hand, 0);
    metric_set_unknown(s->lag);
    metric_set_unknown(s->age);
}

static int check(const struct redis_stream_config *c, char *err, size_t err_cap)
{
    if (c->max_in_hand < 1 || c->lease_us < 10000 || !c->group[0] || strlen(c->group) >= 64 ||
        !c->consumer[0] || strlen(c->consumer) >= 128) {
        snprintf(err, err_cap,
                 "redis_stream: max_in_hand, lease_us, group or consumer is out of bounds");
        return ERR_INVALID;
    }
    return 0;
}

struct queue *redis_stream_new(struct loop *l, const struct redis_stream_config *c, char *err,
                               size_t err_cap)
{
    if (check(c, err, err_cap))
        return NULL;
    struct stream *s = calloc(1, sizeof *s);
    struct redis_config bell = c->redis;
    if (bell.stall_us < BELL_STALL_US)
        bell.stall_us = BELL_STALL_US;
    bell.metric_link = "doorbell";
    if (s) {
        s->slots = calloc((size_t)c->max_in_hand, sizeof *s->slots);
        s->redis = redis_new(l, &c->redis);
        /* XREAD takes no streams of different slots: a cluster's are polled. */
        s->cluster = s->redis && redis_is_cluster(s->redis);
        s->bell = c->publish_only || s->cluster ? NULL : redis_new(l, &bell);
    }
    if (!s || !s->slots || !s->redis || (!s->bell && !c->publish_only && !s->cluster)) {
        snprintf(err, err_cap, "redis_stream: the URL is wrong, or there is no memory");
        if (s && s->redis)
            redis_free(s->redis);
        if (s && s->bell)
            redis_free(s->bell);
        if (s)
            free(s->slots);
        free(s);
        return NULL;
    }
    pthread_once(&scripts_once, init_scripts);
    s->port.ops = &ops;
    s->loop = l;
    s->c = *c;
    str_copy(s->group, sizeof s->group, str_of(c->group));
    str_copy(s->consumer, sizeof s->consumer, str_of(c->consumer));
    list_init(&s->items);
    list_init(&s->hot);
    list_init(&s->calls);
    list_init(&s->free_slots);
    for (int i = 0; i < c->max_in_hand; i++) {
        list_push_back(&s->free_slots, &s->slots[i].free_link);
        s->n_free++;
    }
    if (!c->publish_only)
        register_metrics(s);
    stream_read_init(s);
    stream_tidy_init(s);
    return &s->port;
}

void redis_stream_free(struct queue *q)
{
    struct stream *s = stream_of(q);
    s->ending = true;
    /* Inside these every call under way completes; nothing new is begun. */
    redis_free(s->redis);
    if (s->bell)
        redis_free(s->bell);
    stream_read_end(s);
    stream_tidy_end(s);
    free(s->ring.items);
    if (s->in_hand)
        metric_gauge_add(s->in_hand, s->n_free - s->c.max_in_hand);
    for (struct list *l; (l = list_pop_front(&s->items));)
        free(container_of(l, struct stream_item, link));
    free(s->slots);
    free(s);
}
