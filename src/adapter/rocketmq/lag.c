/* The backlog, which gRPC has no call for: asked for over the remoting protocol at the name server
 * and at every broker's master.
 *
 *   asked ─► 105 (masters of the topic) ─► at each: 208 and 303, topic and retry topic ─► all of
 *            those who had asked when it began are told the same
 *
 * Who asks meanwhile waits for the next look: an answer never is older than its question. Anything
 * that cannot be had makes the whole unknown, never zero (rule 31). It does not see what other
 * consumers hold and what waits out a delay; the fleet's figure is the maximum over live workers
 * (rule 26). */
#include "adapter/rocketmq/backlog.h"
#include "adapter/rocketmq/inner.h"
#include "adapter/rocketmq/remoting.h"
#include "base/err.h"
#include "base/log.h"
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

enum { ASK_STATS = 208, ASK_SPANS = 303, ASK_ROUTE = 105, NAMESRVS_MAX = 8 };
#define PERIOD_US 100000 /* between two looks */

struct waiter {
    struct list link;
    struct queue_lag *op;
    struct rmq_lag *l;
    struct timer timer;
    bool canceled;
};
static_assert(sizeof(struct waiter) <= sizeof(struct op_space), "op_space");
static_assert(BACKLOG_BROKERS == RMQ_BROKERS_MAX,
              "a broker is received from and asked, or neither");

/* What is asked at each broker. */
enum { TOPIC_STATS, RETRY_STATS, TOPIC_SPANS, RETRY_SPANS, DEAD_STATS, DEAD_SPANS, QUESTIONS };

struct broker {
    struct rmq_lag *l;
    struct remoting *to;
    struct remoting_call call;
    struct remoting_field fields[2];
    int question;
    bool wanted; /* among the topic's masters, by the last route */
};

struct rmq_lag {
    struct rmq_consumer *c;
    struct list asked, served; /* struct waiter: the next look's, this look's */
    struct timer timer;
    int64_t next_us;
    bool busy;
    struct remoting *namesrvs[NAMESRVS_MAX];
    int n_namesrvs, turn, tried;
    struct remoting_call route;
    struct remoting_field route_field;
    struct broker *brokers[BACKLOG_BROKERS];
    int n_brokers, left;
    int rc;
    int64_t waiting, oldest_ms;
    int64_t until_us;
    char retry[2 * RMQ_NAME_MAX + 16];
};

/* --- answers --- */
static void tell(struct waiter *w, int rc)
{
    sched_clear(loop_sched(w->l->c->mq->loop), &w->timer);
    list_remove(&w->link);
    w->op->op.on_done(&w->op->op, rc);
}

/* What this consumer holds: delivered, so the broker does not count it any more. */
static void look_at_hand(const struct rmq_consumer *c, struct queue_lag *out)
{
    int64_t now_ms = loop_wall_us(c->mq->loop) / 1000;
    for (int i = 0; i < c->n_slots; i++) {
        const struct rmq_slot *s = &c->slots[i];
        if (!list_empty(&s->free_link) || s->hold != RMQ_HELD)
            continue;
        out->in_hand++;
        int64_t age = now_ms - s->m.enqueued_ms;
        if (s->m.deliveries == 1 && !s->m.dead && s->m.enqueued_ms > 0 && age > out->oldest_age_ms)
            out->oldest_age_ms = age;
    }
    /* Came between the two questions: the second one saw it. */
    if (out->oldest_age_ms > 0 && out->waiting + out->in_hand == 0)
        out->waiting = 1;
    /* 0 means that nothing is there. */
    if (out->oldest_age_ms == 0 && out->waiting + out->in_hand > 0)
        out->oldest_age_ms = 1;
}

static void look(struct rmq_lag *l);

static void done(struct rmq_lag *l, int rc)
{
    struct rmq_consumer *c = l->c;
    l->busy = false;
    struct queue_lag found = {.waiting = l->waiting, .oldest_age_ms = l->oldest_ms};
    look_at_hand(c, &found);
    if (rc) {
        metric_set_unknown(c->m.lag);
        metric_set_unknown(c->m.age);
    } else {
        metric_set(c->m.lag, found.waiting);
        metric_set(c->m.age, (found.oldest_age_ms + 999) / 1000);
    }
    struct list served;
    list_init(&served);
    list_splice_back(&served, &l->served);
    while (!list_empty(&served)) {
        struct waiter *w = container_of(served.next, struct waiter, link);
        w->op->waiting = found.waiting;
        w->op->in_hand = found.in_hand;
        w->op->oldest_age_ms = found.oldest_age_ms;
        w->op->of_all_items = true;
        tell(w, rc);
    }
    if (!list_empty(&l->asked) && !c->mq->ending)
        sched_set(loop_sched(c->mq->loop), &l->timer, l->next_us);
}

static void failed(struct rmq_lag *l, int rc, const char *where, int code)
{
    static struct log_limit limit;
    uint64_t more;
    if (l->rc == 0)
        l->rc = rc;
    if (log_allowed(&limit, rmq_consumer_now(l->c), &more))
        log_warn("rocketmq: the backlog is unknown", LOG_Z("at", where),
                 LOG_Z("error_kind", err_name(rc)), LOG_I("code", code),
                 LOG_I("suppressed", (int64_t)more));
}

/* --- at a broker --- */
static void ask_broker(struct broker *b);

static int understand(struct broker *b, const struct remoting_answer *a)
{
    struct rmq_lag *l = b->l;
    const struct rmq_consumer *c = l->c;
    bool topic = b->question == TOPIC_STATS || b->question == TOPIC_SPANS;
    int queues;
    /* A retry topic, or dead letter topic, that is not there: nothing is in it. */
    if (a->code == REMOTING_NO_TOPIC && !topic)
        return 0;
    if (a->code != REMOTING_OK)
        return a->code == REMOTING_DENIED ? ERR_DENIED : ERR_UNAVAIL;
    switch (b->question) {
    case TOPIC_STATS:
        queues = backlog_waiting(a->body, c->group.topic, &l->waiting);
        return queues < 0 ? queues : queues == 0 ? ERR_UNAVAIL : 0; /* an empty table is no zero */
    case RETRY_STATS:
        queues = backlog_waiting(a->body, "%RETRY%*", &l->waiting);
        return queues < 0 ? queues : 0;
    case DEAD_STATS:
        queues = backlog_waiting(a->body, c->dead.topic, &l->waiting);
        return queues < 0 ? queues : 0;
    default:
        return backlog_oldest_ms(a->body, &l->oldest_ms);
    }
}

static void on_stats(struct remoting_call *call, int rc, const struct remoting_answer *a)
{
    struct broker *b = container_of(call, struct broker, call);
    struct rmq_lag *l = b->l;
    if (rc == 0)
        rc = understand(b, a);
    if (rc)
        failed(l, rc, remoting_address(b->to), a ? a->code : 0);
    else if (++b->question < QUESTIONS) {
        ask_broker(b);
        return;
    }
    if (--l->left == 0)
        done(l, l->rc);
}

static void ask_broker(struct broker *b)
{
    struct rmq_lag *l = b->l;
    const struct rmq_consumer *c = l->c;
    int q = b->question;
    bool dead = q == DEAD_STATS || q == DEAD_SPANS;
    const char *group = dead ? c->dead.group : c->group.group;
    const char *topic = dead ? c->dead.topic : q == RETRY_SPANS ? l->retry : c->group.topic;
    b->call.code = q == TOPIC_STATS || q == RETRY_STATS || q == DEAD_STATS ? ASK_STATS : ASK_SPANS;
    /* In the order of the names, for the signature. 208 without a topic is of all of the group's,
     * the retry topic among them. */
    b->fields[0] =
        (struct remoting_field){b->call.code == ASK_STATS ? "consumerGroup" : "group", group};
    b->fields[1] = (struct remoting_field){"topic", topic};
    b->call.fields = b->fields;
    b->call.n = q == RETRY_STATS ? 1 : 2;
    b->call.deadline_us = l->until_us;
    b->call.on_done = on_stats;
    remoting_ask(b->to, &b->call);
}

/* The brokers of the last route; connections of others end. Never inside a call of theirs. */
static int fit_brokers(struct rmq_lag *l, char (*addresses)[BACKLOG_ADDRESS], int n)
{
    const struct rocketmq_config *config = &l->c->mq->c;
    struct broker *old[BACKLOG_BROKERS];
    int n_old = l->n_brokers;
    memcpy(old, l->brokers, sizeof old);
    l->n_brokers = 0;
    for (int i = 0; i < n; i++) {
        struct broker *b = NULL;
        for (int k = 0; k < n_old && !b; k++) {
            if (old[k] && strcmp(remoting_address(old[k]->to), addresses[i]) == 0) {
                b = old[k];
                old[k] = NULL;
            }
        }
        if (!b) {
            struct remoting *to =
                remoting_new(l->c->mq->loop, addresses[i], config->access_key, config->secret_key);
            b = to ? calloc(1, sizeof *b) : NULL;
            if (!b) {
                remoting_free(to);
                break;
            }
            b->l = l;
            b->to = to;
        }
        l->brokers[l->n_brokers++] = b;
    }
    for (int k = 0; k < n_old; k++) {
        if (old[k]) {
            remoting_free(old[k]->to);
            free(old[k]);
        }
    }
    return l->n_brokers == n ? 0 : ERR_INTERNAL;
}

/* --- at the name server --- */
static void ask_route(struct rmq_lag *l);

static void on_masters(struct remoting_call *call, int rc, const struct remoting_answer *a)
{
    struct rmq_lag *l = container_of(call, struct rmq_lag, route);
    char addresses[BACKLOG_BROKERS][BACKLOG_ADDRESS];
    const char *at = remoting_address(l->namesrvs[l->turn]);
    int n = rc ? rc : a->code != REMOTING_OK ? ERR_UNAVAIL : backlog_masters(a->body, addresses);
    if (n >= 0 && (rc = fit_brokers(l, addresses, n)) < 0)
        n = rc;
    if (n < 0) {
        failed(l, n, at, a ? a->code : 0);
        l->turn = (l->turn + 1) % l->n_namesrvs;
        if (++l->tried < l->n_namesrvs && rmq_consumer_now(l->c) < l->until_us &&
            !l->c->mq->ending) {
            l->rc = 0;
            ask_route(l);
        } else {
            done(l, l->rc);
        }
        return;
    }
    l->left = n;
    for (int i = 0; i < n; i++) {
        l->brokers[i]->question = TOPIC_STATS;
        ask_broker(l->brokers[i]);
    }
}

static void ask_route(struct rmq_lag *l)
{
    /* Its share of the time: a dead one leaves the next one some. */
    int64_t now = rmq_consumer_now(l->c), left = l->n_namesrvs - l->tried;
    l->route_field = (struct remoting_field){"topic", l->c->group.topic};
    l->route.code = ASK_ROUTE;
    l->route.fields = &l->route_field;
    l->route.n = 1;
    l->route.deadline_us = now + (l->until_us - now) / (left + 1);
    l->route.on_done = on_masters;
    remoting_ask(l->namesrvs[l->turn], &l->route);
}

static void look(struct rmq_lag *l)
{
    int64_t now = rmq_consumer_now(l->c);
    l->busy = true;
    l->next_us = now + PERIOD_US;
    l->until_us = now + l->c->mq->c.request_us;
    l->rc = l->tried = 0;
    l->waiting = l->oldest_ms = 0;
    list_splice_back(&l->served, &l->asked);
    if (l->n_namesrvs == 0)
        done(l, ERR_UNAVAIL);
    else
        ask_route(l);
}

static void on_timer(struct timer *t)
{
    struct rmq_lag *l = container_of(t, struct rmq_lag, timer);
    if (!l->busy && !list_empty(&l->asked))
        look(l);
}

/* --- the operation --- */
static void on_deadline(struct timer *t)
{
    struct waiter *w = container_of(t, struct waiter, timer);
    tell(w, w->canceled ? ERR_CANCELED : ERR_DEADLINE);
}

void rmq_lag_ask(struct rmq_lag *l, struct queue_lag *op)
{
    struct sched *sched = loop_sched(l->c->mq->loop);
    struct waiter *w = (struct waiter *)(void *)op->space.bytes;
    *w = (struct waiter){.op = op, .l = l, .timer = {.on_fire = on_deadline}};
    op->waiting = op->in_hand = op->oldest_age_ms = 0;
    op->of_all_items = true;
    list_push_back(&l->asked, &w->link);
    sched_set(sched, &w->timer, op->op.deadline_us);
    if (!l->busy && !l->timer.slot)
        sched_set(sched, &l->timer, l->next_us);
}

static bool cancel_in(struct list *waiters, struct op *op)
{
    list_for_each (i, waiters) {
        struct waiter *w = container_of(i, struct waiter, link);
        if (&w->op->op == op) {
            w->canceled = true;
            sched_set(loop_sched(w->l->c->mq->loop), &w->timer, 0);
            return true;
        }
    }
    return false;
}

bool rmq_lag_cancel(struct rmq_lag *l, struct op *op)
{
    return cancel_in(&l->asked, op) || cancel_in(&l->served, op);
}

struct rmq_lag *rmq_lag_new(struct rmq_consumer *c)
{
    const struct rocketmq_config *config = &c->mq->c;
    struct rmq_lag *l = calloc(1, sizeof *l);
    if (!l)
        return NULL;
    l->c = c;
    l->timer.on_fire = on_timer;
    list_init(&l->asked);
    list_init(&l->served);
    snprintf(l->retry, sizeof l->retry, "%%RETRY%%%s_%s", c->group.group, c->group.topic);
    struct str rest = str_of(config->namesrv ? config->namesrv : ""), one;
    while (rest.len > 0 && l->n_namesrvs < NAMESRVS_MAX) {
        char address[BACKLOG_ADDRESS];
        rest = str_split(rest, ',', &one);
        struct remoting *to =
            str_copy(address, sizeof address, one)
                ? remoting_new(c->mq->loop, address, config->access_key, config->secret_key)
                : NULL;
        if (to)
            l->namesrvs[l->n_namesrvs++] = to;
        else
            log_error("rocketmq: no address of a name server", LOG_S("address", one));
    }
    return l;
}

void rmq_lag_free(struct rmq_lag *l)
{
    if (!l)
        return;
    struct sched *sched = loop_sched(l->c->mq->loop);
    sched_clear(sched, &l->timer);
    /* Ends the look that is under way, and so those that it serves. */
    for (int i = 0; i < l->n_namesrvs; i++)
        remoting_free(l->namesrvs[i]);
    for (int i = 0; i < l->n_brokers; i++)
        remoting_free(l->brokers[i]->to);
    for (int i = 0; i < l->n_brokers; i++)
        free(l->brokers[i]);
    while (!list_empty(&l->asked))
        tell(container_of(l->asked.next, struct waiter, link), ERR_CANCELED);
    free(l);
}
