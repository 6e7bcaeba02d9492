#include "adapter/rocketmq/session.h"

#include "adapter/rocketmq/route.h"
#include "adapter/rocketmq/telemetry.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/panic.h"
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ROUTE_RETRY_US 1500000 /* with its jitter 1.2–1.8 s */
#define REFRESH_MIN_US 1000000

/* --- members --- */
struct rmq_member *rmq_session_member(struct rmq_session *s, const struct rmq_channel *ch)
{
    return s->members[ch - s->mq->channels];
}

bool rmq_session_settled(const struct rmq_session *s, const struct rmq_channel *ch)
{
    const struct rmq_member *m = s->members[ch - s->mq->channels];
    return m && m->state == RMQ_MEMBER_SETTLED && !m->leaving;
}

/* Members of channels that left the route say goodbye and stay as memory: the channel may come
 * back, and their calls may still be ending. */
static void fit_members(struct rmq_session *s)
{
    for (int i = 0; i < s->mq->n_channels; i++) {
        struct rmq_channel *ch = &s->mq->channels[i];
        struct rmq_member *m = s->members[i];
        bool wanted = rmq_route_has(&s->route, ch);
        if (wanted && !m) {
            m = s->members[i] = calloc(1, sizeof *m);
            if (!m)
                panic("rocketmq: no memory for a member");
            rmq_member_init(m, s, ch);
        }
        if (wanted)
            rmq_member_join(m);
        else if (m)
            rmq_member_leave(m);
    }
}

struct rmq_channel *rmq_broker_channel(struct rmq_session *s, const struct rmq_broker *b,
                                       bool settled)
{
    struct rmq_channel *isolated = NULL;
    for (int i = 0; i < b->n_channels; i++) {
        struct rmq_channel *ch = b->channels[i];
        if (settled && !rmq_session_settled(s, ch))
            continue;
        if (!ch->isolated)
            return ch;
        if (!isolated)
            isolated = ch;
    }
    return isolated;
}

/* --- the route --- */
static void route_in(struct rmq_session *s, int64_t delay_us)
{
    if (!s->closing && !s->mq->ending)
        sched_set_in(loop_sched(s->mq->loop), &s->route_timer, delay_us);
}

static struct rmq_route_query *query_of(struct rmq_call *c)
{
    return container_of(c, struct rmq_route_query, call);
}

static void on_route_message(struct rmq_call *c, const ProtobufCMessage *message)
{
    struct rmq_route_query *q = query_of(c);
    struct rmq_session *s = q->session;
    struct rmq_route route;
    if (c->code != RMQ_CODE_OK || s->closing || s->mq->ending ||
        !rmq_route_read(s->mq, (const Rmq__QueryRouteResponse *)(const void *)message, &route))
        return;
    q->answered = true;
    route.known_us = rmq_now_us(s->mq);
    bool differs = !rmq_route_same(&route, &s->route);
    s->route = route;
    if (!differs)
        return;
    log_info("rocketmq: a new route", LOG_Z("topic", s->topic), LOG_I("brokers", route.n),
             LOG_Z("first_proxy", route.brokers[0].channels[0]->target));
    fit_members(s);
    rmq_channels_rest(s->mq);
    if (s->on_route)
        s->on_route(s);
}

/* One configured proxy after the other is asked without much waiting; then there is a pause. A
 * route that is known stays as it is. */
static void route_failed(struct rmq_session *s, struct rmq_channel *ch, const struct rmq_answer *a)
{
    struct rocketmq *mq = s->mq;
    s->route_failures++;
    metric_add(mq->m.route_failures, 1);
    bool has_its_own = a->class == RMQ_DENIED || a->class == RMQ_MISSING_TOPIC;
    if (!has_its_own && s->route_failures >= mq->n_access) {
        char text[sizeof s->said[0].text];
        snprintf(text, sizeof text, "no proxy tells a route; %s: %d %.120s", ch->target, a->code,
                 a->text);
        rmq_complain(s, RMQ_SAYS_UNREACHABLE, RMQ_QUERY_ROUTE, text);
    }
    if (s->route_failures % mq->n_access != 0)
        route_in(s, 50000);
    else if (s->route.n == 0 || s->route_failures < 4 * mq->n_access)
        route_in(s, rmq_jitter_us(mq, ROUTE_RETRY_US));
    else
        route_in(s, rmq_jitter_us(mq, mq->c.refresh_us));
}

static void on_route_answer(struct rmq_call *c, const struct rmq_answer *a)
{
    struct rmq_route_query *q = query_of(c);
    struct rmq_session *s = q->session;
    if (s->closing || s->mq->ending) {
        rmq_session_check_closed(s);
        return;
    }
    rmq_session_heed(s, c->channel, a);
    if (q->answered) {
        s->route_failures = 0;
        rmq_content(s, RMQ_SAYS_UNREACHABLE, RMQ_QUERY_ROUTE);
        route_in(s, rmq_jitter_us(s->mq, s->mq->c.refresh_us));
    } else if (s->route.n == 0 || !s->queries[0].call.busy) {
        route_failed(s, c->channel, a);
    }
}

static void ask(struct rmq_session *s, struct rmq_route_query *q)
{
    struct rocketmq *mq = s->mq;
    struct rmq_channel *ch = mq->access[s->next_access++ % mq->n_access];
    Rmq__QueryRouteRequest r = RMQ__QUERY_ROUTE_REQUEST__INIT;
    Rmq__Resource topic = rmq_resource(s->topic);
    r.topic = &topic;
    r.endpoints = &mq->access_point;
    q->answered = false;
    q->call.buf = q->buf;
    q->call.buf_cap = sizeof q->buf;
    q->call.on_message = on_route_message;
    q->call.on_answer = on_route_answer;
    int rc = rmq_call_start(&q->call, s, ch, RMQ_QUERY_ROUTE, &r.base,
                            rmq_now_us(mq) + mq->c.request_us, false);
    assert(rc == 0); /* the configuration bounds what goes into it */
    (void)rc;
}

static void on_route_timer(struct timer *t)
{
    struct rmq_session *s = container_of(t, struct rmq_session, route_timer);
    /* At the start two proxies at once: the first answer counts, and a dead one holds nobody up. */
    int wanted = s->route.n == 0 && s->mq->n_access > 1 ? 2 : 1;
    for (int i = 0; i < wanted; i++) {
        if (!s->queries[i].call.busy)
            ask(s, &s->queries[i]);
    }
    s->route_asked_us = rmq_now_us(s->mq);
}

void rmq_session_refresh(struct rmq_session *s)
{
    int64_t at = s->route_asked_us + REFRESH_MIN_US;
    if (s->route_timer.slot && s->route_timer.at_us > at && !s->closing)
        sched_set(loop_sched(s->mq->loop), &s->route_timer, at);
}

/* --- begin and end --- */
/* host@pid@index@time, as the reference clients write it: no two lives share one. */
static void make_client_id(struct rmq_session *s)
{
    uint64_t v = (uint64_t)clock_wall_us();
    char base36[16];
    int n = sizeof base36 - 1;
    base36[n] = '\0';
    for (; v && n > 0; v /= 36)
        base36[--n] = "0123456789abcdefghijklmnopqrstuvwxyz"[v % 36];
    snprintf(s->client_id, sizeof s->client_id, "%.40s@%d@%u@%s", s->mq->hostname, (int)getpid(),
             s->mq->next_index++, base36 + n);
}

static void on_closed_task(struct loop_task *t)
{
    struct rmq_session *s = container_of(t, struct rmq_session, closed_task);
    if (s->on_closed)
        s->on_closed(s);
}

void rmq_session_check_closed(struct rmq_session *s)
{
    if (!s->closing || s->closed || s->mq->ending)
        return;
    if (s->queries[0].call.busy || s->queries[1].call.busy)
        return;
    for (int i = 0; i < s->mq->n_channels; i++) {
        const struct rmq_member *m = s->members[i];
        if (m && (m->telemetry.busy || m->heartbeat.busy))
            return;
    }
    s->closed = true;
    sched_clear(loop_sched(s->mq->loop), &s->close_timer);
    loop_defer(s->mq->loop, &s->closed_task);
}

static void cancel_all(struct rmq_session *s)
{
    for (int i = 0; i < 2; i++)
        rmq_call_cancel(&s->queries[i].call);
    for (int i = 0; i < s->mq->n_channels; i++) {
        if (s->members[i]) {
            s->members[i]->told = true;
            rmq_call_cancel(&s->members[i]->telemetry);
            rmq_call_cancel(&s->members[i]->heartbeat);
        }
    }
}

static void on_close_timer(struct timer *t)
{
    cancel_all(container_of(t, struct rmq_session, close_timer));
}

void rmq_session_init(struct rmq_session *s, struct rocketmq *mq)
{
    s->mq = mq;
    s->next_access = (int)rng_below(&mq->rng, (uint64_t)mq->n_access);
    s->route_timer.on_fire = on_route_timer;
    s->close_timer.on_fire = on_close_timer;
    s->closed_task.on_run = on_closed_task;
    list_init(&s->closed_task.link);
    for (int i = 0; i < 2; i++)
        s->queries[i].session = s;
    make_client_id(s);
    list_push_back(&mq->sessions, &s->link);
    route_in(s, 0);
}

void rmq_session_close(struct rmq_session *s, int64_t deadline_us)
{
    struct sched *sched = loop_sched(s->mq->loop);
    if (s->closing)
        return;
    s->closing = true;
    sched_clear(sched, &s->route_timer);
    for (int i = 0; i < 2; i++)
        rmq_call_cancel(&s->queries[i].call);
    for (int i = 0; i < s->mq->n_channels; i++) {
        if (s->members[i])
            rmq_member_leave(s->members[i]);
    }
    sched_set(sched, &s->close_timer, deadline_us);
    rmq_session_check_closed(s);
}

void rmq_session_deinit(struct rmq_session *s)
{
    struct sched *sched = loop_sched(s->mq->loop);
    sched_clear(sched, &s->route_timer);
    sched_clear(sched, &s->close_timer);
    loop_defer_cancel(&s->closed_task);
    for (int i = 0; i < RMQ_CHANNELS_MAX; i++) {
        struct rmq_member *m = s->members[i];
        if (!m)
            continue;
        assert(!m->telemetry.busy && !m->heartbeat.busy);
        sched_clear(sched, &m->open_timer);
        sched_clear(sched, &m->heartbeat_timer);
        sched_clear(sched, &m->reconnect_timer);
        free(m);
    }
    for (int i = 0; i < RMQ_COMPLAINTS; i++) {
        if (s->said[i].set)
            metric_gauge_add(s->mq->m.complaints[i], -1);
    }
    list_remove(&s->link);
}
