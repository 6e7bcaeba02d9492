#include "adapter/rocketmq/telemetry.h"

#include "base/log.h"
#include <assert.h>
#include <stdio.h>
#include <string.h>

#define OPEN_MIN_US 1000000
#define OPEN_MAX_US 30000000
#define RESYNC_MIN_US 1000000
#define RECONNECT_MIN_US 30000000 /* what heartbeats may cost: a connection each half minute */
#define MISSED_MAX 2

static struct rmq_member *of_telemetry(struct rmq_call *c)
{
    return container_of(c, struct rmq_member, telemetry);
}

static bool over(const struct rmq_member *m)
{
    return m->leaving || m->session->closing || m->session->mq->ending;
}

static void set_state(struct rmq_member *m, enum rmq_member_state state)
{
    bool changed = (m->state == RMQ_MEMBER_SETTLED) != (state == RMQ_MEMBER_SETTLED);
    m->state = state;
    if (changed && m->session->on_settled && !m->session->mq->ending)
        m->session->on_settled(m->session, m);
}

/* --- settings --- */
struct settings {
    Rmq__TelemetryCommand command;
    Rmq__Settings settings;
    Rmq__Publishing publishing;
    Rmq__Subscription subscription;
    Rmq__SubscriptionEntry entry;
    Rmq__FilterExpression filter;
    Rmq__Resource topic, group;
    Rmq__UserAgent agent;
    Rmq__Duration request, poll;
    Rmq__Resource *topics[1];
    Rmq__SubscriptionEntry *entries[1];
};

static void fill_consumer(struct settings *x, struct rmq_session *s)
{
    rmq__subscription__init(&x->subscription);
    rmq__subscription_entry__init(&x->entry);
    rmq__filter_expression__init(&x->filter);
    x->group = rmq_resource(s->group);
    x->poll = rmq_duration(s->mq->c.poll_us);
    x->filter.has_type = true;
    x->filter.type = RMQ__FILTER_TYPE__TAG;
    x->filter.expression = (char *)(uintptr_t) "*";
    x->entry.topic = &x->topic;
    x->entry.expression = &x->filter;
    x->entries[0] = &x->entry;
    x->subscription.group = &x->group;
    x->subscription.n_subscriptions = 1;
    x->subscription.subscriptions = x->entries;
    x->subscription.long_polling_timeout = &x->poll;
    x->settings.client_type = RMQ__CLIENT_TYPE__SIMPLE_CONSUMER;
    x->settings.pub_sub_case = RMQ__SETTINGS__PUB_SUB_SUBSCRIPTION;
    x->settings.subscription = &x->subscription;
}

static void fill_producer(struct settings *x)
{
    rmq__publishing__init(&x->publishing);
    x->topics[0] = &x->topic;
    x->publishing.n_topics = 1;
    x->publishing.topics = x->topics;
    x->settings.client_type = RMQ__CLIENT_TYPE__PRODUCER;
    x->settings.pub_sub_case = RMQ__SETTINGS__PUB_SUB_PUBLISHING;
    x->settings.publishing = &x->publishing;
}

/* All of it each time: what a client says replaces what it said. No backoff_policy: a LOCAL proxy
 * would take a consumer's word for the number of deliveries. */
static const ProtobufCMessage *fill(struct settings *x, struct rmq_session *s)
{
    rmq__telemetry_command__init(&x->command);
    rmq__settings__init(&x->settings);
    rmq__user_agent__init(&x->agent);
    x->topic = rmq_resource(s->topic);
    x->request = rmq_duration(s->mq->c.request_us);
    x->settings.has_client_type = true;
    x->settings.access_point = &s->mq->access_point;
    x->settings.request_timeout = &x->request;
    x->agent.has_language = true;
    x->agent.language = RMQ__LANGUAGE__CPP;
    x->agent.version = rmq_text(SECKILL_VERSION);
    x->agent.platform = (char *)(uintptr_t) "linux";
    x->agent.hostname = s->mq->hostname;
    x->settings.user_agent = &x->agent;
    if (s->kind == RMQ_PRODUCER)
        fill_producer(x);
    else
        fill_consumer(x, s);
    x->command.command_case = RMQ__TELEMETRY_COMMAND__COMMAND_SETTINGS;
    x->command.settings = &x->settings;
    return &x->command.base;
}

/* --- the stream --- */
static void on_command(struct rmq_call *c, const ProtobufCMessage *message);
static void on_stream_end(struct rmq_call *c, const struct rmq_answer *a);

static void open_in(struct rmq_member *m, int64_t delay_us)
{
    if (!over(m))
        sched_set_in(loop_sched(m->session->mq->loop), &m->open_timer, delay_us);
}

static void open_stream(struct rmq_member *m)
{
    struct rocketmq *mq = m->session->mq;
    struct settings x;
    m->telemetry.on_message = on_command;
    m->telemetry.on_answer = on_stream_end;
    int rc = rmq_call_start(&m->telemetry, m->session, m->channel, RMQ_TELEMETRY,
                            fill(&x, m->session), INT64_MAX, false);
    assert(rc == 0);
    (void)rc;
    m->state = RMQ_MEMBER_OPEN;
    open_in(m, mq->c.request_us); /* by then it is settled, or begun anew */
}

static void on_open_timer(struct timer *t)
{
    struct rmq_member *m = container_of(t, struct rmq_member, open_timer);
    struct settings x;
    if (over(m)) { /* the proxy does not end what we ended: it would keep its channel in use */
        rmq_call_cancel(&m->telemetry);
        return;
    }
    if (!m->telemetry.busy) {
        open_stream(m);
        return;
    }
    if (m->state == RMQ_MEMBER_OPEN && m->resync_wanted) {
        m->resync_wanted = false;
        m->resync_after_us = rmq_now_us(m->session->mq) + RESYNC_MIN_US;
        if (rmq_call_write(&m->telemetry, fill(&x, m->session)) == 0) {
            open_in(m, m->session->mq->c.request_us);
            return;
        }
    }
    /* What waits for a connection goes out as soon as there is one. */
    int64_t patient_us = m->telemetry.h2.sent_us
                             ? m->telemetry.h2.sent_us + m->session->mq->c.request_us
                             : INT64_MAX;
    if (patient_us > rmq_now_us(m->session->mq))
        open_in(m, m->session->mq->c.request_us);
    else
        rmq_call_cancel(&m->telemetry); /* its end opens it again */
}

/* The broker's own bound has to come after rule 22's, or it gives up what we would not. */
static void heed_attempts(struct rmq_session *s, int max_attempts)
{
    if (max_attempts == s->max_attempts)
        return;
    s->max_attempts = max_attempts;
    if (max_attempts > 0 && max_attempts <= QUEUE_REPUBLISH_FROM && !s->may_lack)
        log_warn("rocketmq: the group's retries are too few: messages become dead letters early",
                 LOG_Z("consumer_group", s->group), LOG_I("max_attempts", max_attempts));
}

static void settled(struct rmq_member *m, const Rmq__Settings *settings)
{
    struct rmq_session *s = m->session;
    m->failures = 0;
    sched_clear(loop_sched(s->mq->loop), &m->open_timer);
    if (settings->backoff_policy && s->kind == RMQ_CONSUMER)
        heed_attempts(s, settings->backoff_policy->max_attempts);
    for (int what = 0; what < RMQ_COMPLAINTS; what++)
        rmq_content(s, (enum rmq_complaint)what, RMQ_TELEMETRY);
    set_state(m, RMQ_MEMBER_SETTLED);
}

static void answer_trace(struct rmq_member *m, const Rmq__PrintThreadStackTraceCommand *asked)
{
    Rmq__TelemetryCommand out = RMQ__TELEMETRY_COMMAND__INIT;
    Rmq__ThreadStackTrace trace = RMQ__THREAD_STACK_TRACE__INIT;
    Rmq__Status status = RMQ__STATUS__INIT;
    status.has_code = true;
    status.code = RMQ_CODE_OK;
    trace.nonce = asked->nonce;
    trace.thread_stack_trace = (char *)(uintptr_t) "one event loop; see /debug of the admin port";
    out.status = &status;
    out.command_case = RMQ__TELEMETRY_COMMAND__COMMAND_THREAD_STACK_TRACE;
    out.thread_stack_trace = &trace;
    rmq_call_write(&m->telemetry, &out.base);
}

static void answer_verify(struct rmq_member *m, const Rmq__VerifyMessageCommand *asked)
{
    Rmq__TelemetryCommand out = RMQ__TELEMETRY_COMMAND__INIT;
    Rmq__VerifyMessageResult result = RMQ__VERIFY_MESSAGE_RESULT__INIT;
    Rmq__Status status = RMQ__STATUS__INIT;
    status.has_code = true;
    status.code = RMQ_CODE_NOT_IMPLEMENTED;
    result.nonce = asked->nonce;
    out.status = &status;
    out.command_case = RMQ__TELEMETRY_COMMAND__COMMAND_VERIFY_MESSAGE_RESULT;
    out.verify_message_result = &result;
    rmq_call_write(&m->telemetry, &out.base);
}

static void on_command(struct rmq_call *c, const ProtobufCMessage *message)
{
    struct rmq_member *m = of_telemetry(c);
    const Rmq__TelemetryCommand *t = (const Rmq__TelemetryCommand *)(const void *)message;
    if (over(m))
        return;
    switch (t->command_case) {
    case RMQ__TELEMETRY_COMMAND__COMMAND_SETTINGS:
        settled(m, t->settings);
        break;
    case RMQ__TELEMETRY_COMMAND__COMMAND_PRINT_THREAD_STACK_TRACE:
        answer_trace(m, t->print_thread_stack_trace);
        break;
    case RMQ__TELEMETRY_COMMAND__COMMAND_VERIFY_MESSAGE:
        answer_verify(m, t->verify_message);
        break;
    case RMQ__TELEMETRY_COMMAND__COMMAND_RECONNECT_ENDPOINTS:
        /* Not from inside a message; and not all clients of a proxy at once. */
        sched_set_in(loop_sched(m->session->mq->loop), &m->reconnect_timer,
                     rmq_jitter_us(m->session->mq, OPEN_MIN_US));
        break;
    default: /* newer ones */
        break;
    }
}

static void on_reconnect_timer(struct timer *t)
{
    struct rmq_member *m = container_of(t, struct rmq_member, reconnect_timer);
    if (!over(m))
        h2grpc_reconnect(m->channel->h2, "asked to by the proxy");
}

/* 5.5 ends the stream where an older proxy takes the settings: the group has to be there. */
static bool group_missing(const struct rmq_session *s, const struct rmq_answer *a)
{
    return s->kind == RMQ_CONSUMER && a->class == RMQ_REFUSED && a->transport &&
           strstr(a->text, "group");
}

static void on_stream_end(struct rmq_call *c, const struct rmq_answer *a)
{
    struct rmq_member *m = of_telemetry(c);
    struct rmq_session *s = m->session;
    bool was_settled = m->state == RMQ_MEMBER_SETTLED;
    m->resync_wanted = false;
    sched_clear(loop_sched(s->mq->loop), &m->open_timer);
    set_state(m, RMQ_MEMBER_DOWN);
    if (over(m)) {
        rmq_session_check_closed(s);
        return;
    }
    struct rmq_answer heeded = *a;
    if (group_missing(s, a))
        heeded.class = RMQ_MISSING_GROUP;
    if (heeded.class != RMQ_OK && heeded.class != RMQ_RESYNC)
        rmq_session_heed(s, m->channel, &heeded);
    metric_add(s->mq->m.reopened, 1);
    int64_t delay_us = OPEN_MIN_US;
    if (!was_settled) {
        for (int i = 0; i < m->failures && delay_us < OPEN_MAX_US; i++)
            delay_us *= 2;
        m->failures++;
    }
    open_in(m, rmq_jitter_us(s->mq, delay_us < OPEN_MAX_US ? delay_us : OPEN_MAX_US));
}

void rmq_session_resync(struct rmq_session *s, struct rmq_channel *ch)
{
    struct rmq_member *m = rmq_session_member(s, ch);
    if (!m || over(m) || m->state == RMQ_MEMBER_DOWN || m->resync_wanted)
        return;
    if (m->state == RMQ_MEMBER_OPEN)
        return; /* on their way */
    metric_add(s->mq->m.resyncs, 1);
    m->resync_wanted = true;
    int64_t now_us = rmq_now_us(s->mq);
    sched_set(loop_sched(s->mq->loop), &m->open_timer,
              m->resync_after_us > now_us ? m->resync_after_us : now_us);
    set_state(m, RMQ_MEMBER_OPEN);
}

/* --- heartbeats, and the goodbye --- */
static struct rmq_member *of_heartbeat(struct rmq_call *c)
{
    return container_of(c, struct rmq_member, heartbeat);
}

static void heartbeat_in(struct rmq_member *m, int64_t delay_us)
{
    if (!over(m))
        sched_set_in(loop_sched(m->session->mq->loop), &m->heartbeat_timer,
                     rmq_jitter_us(m->session->mq, delay_us));
}

static void say_goodbye(struct rmq_member *m);

/* Two in a row unanswered on a connection that seems to be up: it leads nowhere. */
static void missed(struct rmq_member *m)
{
    struct rocketmq *mq = m->session->mq;
    struct rmq_channel *ch = m->channel;
    metric_add(mq->m.missed_heartbeats, 1);
    if (!h2grpc_up(ch->h2)) {
        m->missed = 0; /* being dialed anyhow */
        return;
    }
    if (++m->missed < MISSED_MAX || rmq_now_us(mq) < ch->reconnect_after_us)
        return;
    m->missed = 0;
    ch->reconnect_after_us = rmq_now_us(mq) + RECONNECT_MIN_US;
    log_warn("rocketmq: two heartbeats without an answer, dialing anew",
             LOG_Z("target", ch->target));
    h2grpc_reconnect(ch->h2, "heartbeats without an answer");
}

static void on_heartbeat(struct rmq_call *c, const struct rmq_answer *a)
{
    struct rmq_member *m = of_heartbeat(c);
    if (over(m)) {
        if (!m->told)
            say_goodbye(m);
        rmq_session_check_closed(m->session);
        return;
    }
    if (a->transport) {
        missed(m);
    } else {
        m->missed = 0;
        rmq_session_heed(m->session, m->channel, a);
    }
    heartbeat_in(m, m->channel->isolated ? OPEN_MIN_US : m->session->mq->c.heartbeat_us);
}

static void on_heartbeat_timer(struct timer *t)
{
    struct rmq_member *m = container_of(t, struct rmq_member, heartbeat_timer);
    struct rmq_session *s = m->session;
    Rmq__HeartbeatRequest r = RMQ__HEARTBEAT_REQUEST__INIT;
    Rmq__Resource group = rmq_resource(s->group);
    r.has_client_type = true;
    r.client_type =
        s->kind == RMQ_PRODUCER ? RMQ__CLIENT_TYPE__PRODUCER : RMQ__CLIENT_TYPE__SIMPLE_CONSUMER;
    if (s->kind == RMQ_CONSUMER)
        r.group = &group;
    m->heartbeat.on_answer = on_heartbeat;
    int rc = rmq_call_start(&m->heartbeat, s, m->channel, RMQ_HEARTBEAT, &r.base,
                            rmq_now_us(s->mq) + s->mq->c.request_us, true);
    assert(rc == 0);
    (void)rc;
}

static void on_goodbye(struct rmq_call *c, const struct rmq_answer *a)
{
    struct rmq_member *m = of_heartbeat(c);
    (void)a; /* it forgets us by itself after two minutes */
    if (over(m) && m->telemetry.busy) {
        struct rocketmq *mq = m->session->mq;
        h2grpc_close_send(&m->telemetry.h2);
        sched_set_in(loop_sched(mq->loop), &m->open_timer, mq->c.request_us);
    }
    if (!over(m)) /* the route has it again */
        heartbeat_in(m, OPEN_MIN_US);
    rmq_session_check_closed(m->session);
}

static void say_goodbye(struct rmq_member *m)
{
    struct rmq_session *s = m->session;
    Rmq__NotifyClientTerminationRequest r = RMQ__NOTIFY_CLIENT_TERMINATION_REQUEST__INIT;
    Rmq__Resource group = rmq_resource(s->group);
    m->told = true;
    if (s->mq->ending)
        return;
    if (!h2grpc_up(m->channel->h2)) {
        rmq_call_cancel(&m->telemetry);
        return;
    }
    if (s->kind == RMQ_CONSUMER)
        r.group = &group;
    m->heartbeat.on_answer = on_goodbye;
    int rc = rmq_call_start(&m->heartbeat, s, m->channel, RMQ_NOTIFY_TERMINATION, &r.base,
                            rmq_now_us(s->mq) + s->mq->c.request_us, true);
    assert(rc == 0);
    (void)rc;
}

/* --- membership --- */
void rmq_member_init(struct rmq_member *m, struct rmq_session *s, struct rmq_channel *ch)
{
    m->session = s;
    m->channel = ch;
    m->leaving = true; /* until it joins */
    m->open_timer.on_fire = on_open_timer;
    m->heartbeat_timer.on_fire = on_heartbeat_timer;
    m->reconnect_timer.on_fire = on_reconnect_timer;
    m->telemetry.buf = m->telemetry_buf;
    m->telemetry.buf_cap = sizeof m->telemetry_buf;
    m->heartbeat.buf = m->heartbeat_buf;
    m->heartbeat.buf_cap = sizeof m->heartbeat_buf;
}

void rmq_member_join(struct rmq_member *m)
{
    if (!m->leaving || m->session->closing)
        return;
    m->leaving = m->told = false;
    m->failures = m->missed = 0;
    if (m->telemetry.busy)
        rmq_call_cancel(&m->telemetry); /* half-closed: its end opens a new one */
    else
        open_in(m, 0);
    if (!m->heartbeat.busy)
        heartbeat_in(m, OPEN_MIN_US);
}

void rmq_member_leave(struct rmq_member *m)
{
    struct sched *sched = loop_sched(m->session->mq->loop);
    if (m->leaving)
        return;
    m->leaving = true;
    sched_clear(sched, &m->open_timer);
    sched_clear(sched, &m->heartbeat_timer);
    sched_clear(sched, &m->reconnect_timer);
    set_state(m, RMQ_MEMBER_DOWN);
    if (m->heartbeat.busy)
        rmq_call_cancel(&m->heartbeat); /* its end says it */
    else
        say_goodbye(m);
}
