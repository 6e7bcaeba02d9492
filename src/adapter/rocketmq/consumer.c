/* The consumer half's life: two sessions, the group's and the one that reads its dead letter topic;
 * an outlet for each broker of their routes.
 *
 *   new ─► routes, settings (session.h) ─► polls, whenever somebody receives
 *   close ─► no new polls; what is ready goes back ─► polls and operations end ─► sessions say
 *            goodbye ─► on_closed */
#include "adapter/rocketmq/consumer.h"

#include "adapter/rocketmq/inner.h"
#include "base/err.h"
#include "base/log.h"
#include <stdio.h>
#include <stdlib.h>

#define GOODBYE_US 500000 /* of the close's time, kept for the sessions */

/* --- outlets --- */
static struct rmq_outlet *find(const struct rmq_source *s, const char *broker)
{
    for (int i = 0; i < s->n_outlets; i++) {
        if (strcmp(s->outlets[i]->name, broker) == 0)
            return s->outlets[i];
    }
    return NULL;
}

static bool unused(const struct rmq_outlet *o)
{
    return !o->present && o->slots == 0 && o->polling == 0 && list_empty(&o->acks);
}

/* A new one; where there are too many, in the place of one whose broker is gone. */
static struct rmq_outlet *make(struct rmq_source *s)
{
    for (int i = 0; s->n_outlets == RMQ_BROKERS_MAX && i < s->n_outlets; i++) {
        if (unused(s->outlets[i]))
            return s->outlets[i];
    }
    struct rmq_outlet *o = s->n_outlets < RMQ_BROKERS_MAX ? calloc(1, sizeof *s->outlets[0]) : NULL;
    if (!o)
        return NULL;
    o->source = s;
    list_init(&o->acks);
    for (int i = 0; i < RMQ_POLLS; i++)
        o->polls[i].from = o;
    s->outlets[s->n_outlets++] = o;
    return o;
}

static void on_route(struct rmq_session *session)
{
    struct rmq_source *s = container_of(session, struct rmq_source, session);
    const struct rmq_route *r = &session->route;
    for (int i = 0; i < s->n_outlets; i++)
        s->outlets[i]->present = false;
    for (int i = 0; i < r->n; i++) {
        const struct rmq_broker *b = &r->brokers[i];
        struct rmq_outlet *o = find(s, b->name);
        if (!o && (o = make(s))) {
            str_copy(o->name, sizeof o->name, str_of(b->name));
            o->failures = 0;
            o->not_before_us = 0;
            o->channel = NULL;
        }
        if (!o) {
            log_error("rocketmq: too many brokers; this one is not received from",
                      LOG_Z("broker", b->name));
            continue;
        }
        o->present = b->readable > 0;
        o->queue_id = b->queue_id;
    }
    rmq_receive_pump_later(s->c);
}

static void on_settled(struct rmq_session *session, struct rmq_member *m)
{
    struct rmq_source *s = container_of(session, struct rmq_source, session);
    if (m->state == RMQ_MEMBER_SETTLED)
        rmq_receive_pump_later(s->c);
}

struct rmq_channel *rmq_outlet_channel(struct rmq_outlet *o, bool settled)
{
    struct rmq_session *s = &o->source->session;
    for (int i = 0; i < s->route.n; i++) {
        const struct rmq_broker *b = &s->route.brokers[i];
        if (strcmp(b->name, o->name) == 0) {
            struct rmq_channel *ch = rmq_broker_channel(s, b, settled);
            if (ch) {
                o->channel = ch;
                o->turned = ch->turned;
            }
            return ch;
        }
    }
    /* The route lost this broker; what it gave us is still to be acked there, and nowhere else. */
    bool there = o->channel && o->channel->turned == o->turned;
    return settled || !there ? NULL : o->channel;
}

/* --- begin --- */
static void init_metrics(struct rmq_consumer *c)
{
    static const double sizes[] = {1, 2, 4, 8, 16, 32, 64, 128};
    struct rmq_consumer_metrics *m = &c->m;
    m->batch_size =
        metric_histogram("seckill_mq_receive_batch_size", "messages per receive that returned any",
                         NULL, sizes, sizeof sizes / sizeof sizes[0]);
    m->receive_failures =
        metric_counter("seckill_mq_receive_failures_total", "receives that failed", NULL);
    m->receive_duration =
        metric_histogram("seckill_mq_receive_duration_seconds",
                         "from a long poll's start to its first message", NULL, NULL, 0);
    m->redelivered =
        metric_counter("seckill_mq_redelivered_total", "messages received again", NULL);
    m->lease_lost = metric_counter("seckill_mq_lease_lost_total",
                                   "messages that were not ours any more, or nobody knows", NULL);
    m->surplus = metric_counter("seckill_mq_surplus_total",
                                "messages beyond what was asked for, left to their lease", NULL);
    m->damaged = metric_counter("seckill_mq_damaged_total",
                                "messages that fail their digest or have no usable handle", NULL);
    m->cut = metric_counter("seckill_mq_body_too_long_total", "messages whose body was cut", NULL);
    m->polls = metric_gauge("seckill_mq_polls_inflight", "long polls under way", NULL);
    m->expired =
        metric_counter("seckill_mq_unclaimed_total",
                       "messages that nobody received before most of their lease was over", NULL);
    m->in_hand = metric_gauge("seckill_mq_in_hand", "messages in the adapter's memory", NULL);
    m->again =
        metric_counter("seckill_mq_republished_total",
                       "messages published again instead of delivered again (rule 22)", NULL);
    m->lag = metric_gauge("seckill_mq_consumer_lag", "events not yet delivered, all items", NULL);
    m->age = metric_gauge("seckill_mq_oldest_age_seconds",
                          "age of the oldest event that waits (rule 26)", NULL);
    metric_gauge_add(m->polls, 0);
    metric_gauge_add(m->in_hand, 0);
}

static void on_session_closed(struct rmq_session *session)
{
    struct rmq_source *s = container_of(session, struct rmq_source, session);
    struct rmq_consumer *c = s->c;
    s->closed = true;
    if (c->group.closed && c->dead.closed)
        c->on_closed(c->mq);
}

static void begin(struct rmq_consumer *c, struct rmq_source *s)
{
    s->c = c;
    s->session = (struct rmq_session){.kind = RMQ_CONSUMER,
                                      .topic = s->topic,
                                      .group = s->group,
                                      .may_lack = s->dead,
                                      .on_route = on_route,
                                      .on_settled = on_settled,
                                      .on_closed = on_session_closed};
    rmq_session_init(&s->session, c->mq);
}

static void on_flush(struct loop_flush *f)
{
    struct rmq_consumer *c = container_of(f, struct rmq_consumer, flush);
    rmq_ack_flush(c);
    rmq_change_flush(c);
}

static void on_close_timer(struct timer *t);

int rmq_consumer_new(struct rocketmq *mq, char *err, size_t err_cap)
{
    struct rmq_consumer *c = calloc(1, sizeof *c);
    if (!c) {
        snprintf(err, err_cap, "no memory");
        return ERR_OVERLOAD;
    }
    c->mq = mq;
    c->dead.dead = true;
    c->dead_polled_us = rmq_now_us(mq);
    char dlq[RMQ_NAME_MAX];
    bool fits = snprintf(dlq, sizeof dlq, "%%DLQ%%%s", mq->c.group) < (int)sizeof dlq &&
                str_copy(c->group.topic, sizeof c->group.topic, str_of(mq->c.topic)) &&
                str_copy(c->group.group, sizeof c->group.group, str_of(mq->c.group)) &&
                str_copy(c->dead.group, sizeof c->dead.group, str_of(mq->c.dead_group)) &&
                str_copy(c->dead.topic, sizeof c->dead.topic, str_of(dlq));
    if (!fits) {
        snprintf(err, err_cap, "the names of topic and groups are too long");
        free(c);
        return ERR_INVALID;
    }
    list_init(&c->idle_acks);
    list_init(&c->flush.link);
    c->flush.on_flush = on_flush;
    c->close_timer.on_fire = on_close_timer;
    rmq_receive_init(c);
    rmq_work_init(c);
    if (rmq_change_init(c) || rmq_slots_init(c, mq->c.max_in_hand) || !(c->lag = rmq_lag_new(c))) {
        snprintf(err, err_cap, "no memory for %d messages", mq->c.max_in_hand);
        rmq_change_deinit(c);
        free(c->slots);
        free(c);
        return ERR_OVERLOAD;
    }
    init_metrics(c);
    mq->consumer = c;
    begin(c, &c->group);
    begin(c, &c->dead);
    return 0;
}

bool rmq_consumer_ready(const struct rocketmq *mq)
{
    const struct rmq_consumer *c = mq->consumer;
    if (c && c->group.session.said[RMQ_SAYS_NO_GROUP].set)
        return false; /* not every proxy asks for the group when it takes the settings */
    for (int i = 0; c && i < mq->n_channels; i++) {
        if (rmq_session_settled(&c->group.session, &mq->channels[i]))
            return true;
    }
    return false;
}

/* --- end --- */
static void each_poll(struct rmq_source *s, void (*f)(struct rmq_poll *p))
{
    for (int i = 0; i < s->n_outlets; i++) {
        for (int k = 0; k < RMQ_POLLS; k++) {
            if (s->outlets[i]->polls[k].busy)
                f(&s->outlets[i]->polls[k]);
        }
    }
}

int rmq_source_polling(const struct rmq_source *s)
{
    int n = 0;
    for (int i = 0; i < s->n_outlets; i++)
        n += s->outlets[i]->polling;
    return n;
}

bool rmq_polls_run(const struct rmq_consumer *c)
{
    return rmq_source_polling(&c->group) + rmq_source_polling(&c->dead) > 0;
}

static void cancel_poll(struct rmq_poll *p)
{
    rmq_call_cancel(&p->call);
}

/* Time is short: a poll that is cut may strand a message until its lease ends. */
static void on_close_timer(struct timer *t)
{
    struct rmq_consumer *c = container_of(t, struct rmq_consumer, close_timer);
    each_poll(&c->group, cancel_poll);
    each_poll(&c->dead, cancel_poll);
}

void rmq_consumer_moved(struct rmq_consumer *c)
{
    if (!c->closing || c->mq->ending || c->leaving || rmq_polls_run(c) || c->n_ready ||
        !list_empty(&c->works))
        return;
    c->leaving = true;
    sched_clear(loop_sched(c->mq->loop), &c->close_timer);
    rmq_session_close(&c->group.session, c->close_deadline_us);
    rmq_session_close(&c->dead.session, c->close_deadline_us);
}

void rmq_consumer_close(struct rocketmq *mq, int64_t deadline_us,
                        void (*on_closed)(struct rocketmq *))
{
    struct rmq_consumer *c = mq->consumer;
    int64_t now = rmq_now_us(mq), cut = deadline_us - GOODBYE_US;
    c->closing = true;
    c->on_closed = on_closed;
    c->close_deadline_us = deadline_us;
    rmq_receive_end(c);
    rmq_receive_give_back(c);
    sched_set(loop_sched(mq->loop), &c->close_timer, cut > now ? cut : now);
    rmq_consumer_moved(c);
}

static void free_source(struct rmq_source *s)
{
    rmq_session_deinit(&s->session);
    for (int i = 0; i < s->n_outlets; i++)
        free(s->outlets[i]);
}

void rmq_consumer_free(struct rocketmq *mq)
{
    struct rmq_consumer *c = mq->consumer;
    if (!c)
        return;
    rmq_lag_free(c->lag);
    rmq_receive_end(c);
    rmq_work_end(c);
    loop_flush_cancel(&c->flush);
    sched_clear(loop_sched(mq->loop), &c->close_timer);
    rmq_ack_deinit(c);
    rmq_change_deinit(c);
    free_source(&c->group);
    free_source(&c->dead);
    rmq_slots_deinit(c);
    free(c);
    mq->consumer = NULL;
}

/* --- the rest of the port --- */
void rmq_queue_release(struct queue *q, struct queue_message *m)
{
    (void)q;
    rmq_slot_free(rmq_slot_of(m));
}

void rmq_queue_lag(struct queue *q, struct queue_lag *l)
{
    struct rmq_consumer *c = rmq_consumer_of(q);
    if (c)
        rmq_lag_ask(c->lag, l);
    else
        rmq_later_start(rmq_of(q), &l->space, &l->op, ERR_INVALID);
}

bool rmq_consumer_cancel(struct rocketmq *mq, struct op *op)
{
    struct rmq_consumer *c = mq->consumer;
    return c && (rmq_receive_cancel(c, op) || rmq_work_cancel(c, op) || rmq_lag_cancel(c->lag, op));
}
