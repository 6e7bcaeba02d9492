/* What is wrong, for people, and what follows from an answer for the session. */
#include "adapter/rocketmq/session.h"

#include "base/log.h"
#include <stdio.h>
#include <string.h>

void rmq_complain(struct rmq_session *s, enum rmq_complaint what, enum rmq_method by,
                  const char *text)
{
    struct rmq_said *said = &s->said[what];
    said->by = by;
    str_copy(said->text, sizeof said->text, str_of(text));
    if (said->set)
        return; /* in other words, of another proxy: once is enough for the log */
    metric_gauge_add(s->mq->m.complaints[what], 1);
    said->set = true;
    log_error("rocketmq: something has to be put right", LOG_Z("complaint", said->text));
}

void rmq_content(struct rmq_session *s, enum rmq_complaint what, enum rmq_method by)
{
    struct rmq_said *said = &s->said[what];
    if (!said->set || said->by != by)
        return;
    said->set = false;
    metric_gauge_add(s->mq->m.complaints[what], -1);
    log_info("rocketmq: this is right again", LOG_Z("complaint", said->text));
}

static const char *namesrv_of(const struct rocketmq *mq)
{
    return mq->c.namesrv[0] ? mq->c.namesrv : "NAMESRV:9876";
}

static void complain_topic(struct rmq_session *s, const struct rmq_channel *ch,
                           const struct rmq_answer *a)
{
    char text[sizeof s->said[0].text];
    snprintf(text, sizeof text,
             "topic \"%s\" is not known at %s, or not of type NORMAL (%d %s); create it: mqadmin "
             "updateTopic -n %s -c CLUSTER -t %s -r 4 -w 4 -a +message.type=NORMAL",
             s->topic, ch->target, a->code, rmq_code_name(a->code), namesrv_of(s->mq), s->topic);
    rmq_complain(s, RMQ_SAYS_NO_TOPIC, a->method, text);
}

static void complain_group(struct rmq_session *s, const struct rmq_channel *ch,
                           const struct rmq_answer *a)
{
    char text[sizeof s->said[0].text];
    snprintf(text, sizeof text,
             "consumer group \"%s\" is not known at %s (%.60s); create it: mqadmin updateSubGroup "
             "-n %s -c CLUSTER -g %s -s true -r %d",
             s->group, ch->target, a->text, namesrv_of(s->mq), s->group, s->may_lack ? 1000 : 16);
    rmq_complain(s, RMQ_SAYS_NO_GROUP, a->method, text);
}

static void complain_denied(struct rmq_session *s, const struct rmq_channel *ch,
                            const struct rmq_answer *a)
{
    char text[sizeof s->said[0].text];
    snprintf(text, sizeof text, "%s refuses us (%s, access key \"%.64s\"): %.120s", ch->target,
             rmq_method_info(a->method)->name, s->mq->c.access_key, a->text);
    rmq_complain(s, RMQ_SAYS_DENIED, a->method, text);
}

/* A refused send, ack or change is about one message; everything else is about us. */
static void complain_refused(struct rmq_session *s, const struct rmq_channel *ch,
                             const struct rmq_answer *a)
{
    char text[sizeof s->said[0].text];
    if (a->method != RMQ_RECEIVE && a->method != RMQ_TELEMETRY && a->method != RMQ_HEARTBEAT &&
        a->method != RMQ_QUERY_ROUTE)
        return;
    snprintf(text, sizeof text, "%s takes no %s of ours (%d %s: %.120s); see rocketmq.* settings",
             ch->target, rmq_method_info(a->method)->name, a->code,
             a->code ? rmq_code_name(a->code) : "none", a->text);
    rmq_complain(s, RMQ_SAYS_REFUSED, a->method, text);
}

void rmq_session_heed(struct rmq_session *s, struct rmq_channel *ch, const struct rmq_answer *a)
{
    switch (a->class) {
    case RMQ_OK:
    case RMQ_EMPTY:
        for (int what = 0; what < RMQ_COMPLAINTS; what++)
            rmq_content(s, (enum rmq_complaint)what, a->method);
        break;
    case RMQ_DENIED:
        complain_denied(s, ch, a);
        break;
    case RMQ_MISSING_TOPIC:
        if (!s->may_lack)
            complain_topic(s, ch, a);
        if (a->method != RMQ_QUERY_ROUTE)
            rmq_session_refresh(s);
        break;
    case RMQ_MISSING_GROUP:
        complain_group(s, ch, a);
        break;
    case RMQ_NO_QUEUE:
        rmq_session_refresh(s);
        break;
    case RMQ_RESYNC:
        rmq_session_resync(s, ch);
        break;
    case RMQ_THROTTLED:
        metric_add(s->mq->m.throttled, 1);
        break;
    case RMQ_REFUSED:
        complain_refused(s, ch, a);
        break;
    case RMQ_MIXED:
    case RMQ_EXPIRED:
    case RMQ_UNKNOWN:
        break;
    }
}

/* The weightiest of all sessions; RMQ_COMPLAINTS: none. */
static enum rmq_complaint weightiest(const struct queue *q, const char **text)
{
    const struct rocketmq *mq = rmq_of_const(q);
    *text = NULL;
    for (int what = 0; what < RMQ_COMPLAINTS; what++) {
        list_for_each (l, &mq->sessions) {
            const struct rmq_session *s = container_of(l, struct rmq_session, link);
            if (s->said[what].set) {
                *text = s->said[what].text;
                return (enum rmq_complaint)what;
            }
        }
    }
    return RMQ_COMPLAINTS;
}

const char *rocketmq_queue_complaint(const struct queue *q)
{
    const char *text;
    weightiest(q, &text);
    return text;
}

bool rocketmq_queue_complaint_lasts(const struct queue *q)
{
    const char *text;
    return weightiest(q, &text) < RMQ_SAYS_UNREACHABLE;
}
