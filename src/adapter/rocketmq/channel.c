#include "adapter/rocketmq/session.h"

#include "base/log.h"
#include "base/panic.h"
#include <stdio.h>
#include <string.h>

/* An isolated channel's heartbeats come this soon, so that it is taken back soon. */
#define PROBE_US 1000000

/* "told=reached,…": what is reached instead of this address. */
static struct str mapped(const char *map, struct str told)
{
    struct str rest = str_of(map);
    while (rest.len > 0) {
        struct str pair, left;
        rest = str_split(rest, ',', &pair);
        struct str right = str_split(pair, '=', &left);
        if (right.ptr && str_eq(left, told))
            return right;
    }
    return told;
}

static struct rmq_channel *find(struct rocketmq *mq, struct str target)
{
    for (int i = 0; i < mq->n_channels; i++) {
        if (str_eq(str_of(mq->channels[i].target), target))
            return &mq->channels[i];
    }
    return NULL;
}

static struct rmq_channel *make(struct rocketmq *mq, struct str target)
{
    static struct log_limit limit;
    uint64_t suppressed;
    char err[160] = "there are too many proxies";
    struct rmq_channel *ch = NULL;
    if (mq->n_channels < RMQ_CHANNELS_MAX) {
        ch = &mq->channels[mq->n_channels];
        *ch = (struct rmq_channel){.mq = mq};
        if (!str_copy(ch->target, sizeof ch->target, target))
            return NULL;
        struct h2grpc_config c = {
            .target = ch->target,
            .tls = mq->c.tls,
            .ca_file = mq->c.ca_file[0] ? mq->c.ca_file : NULL,
            /* Sends are bounded here; the rest is polls, acks and a few streams. */
            .max_streams = mq->c.max_sends + 256,
            .metric_link = "rocketmq",
        };
        ch->h2 = h2grpc_new(mq->loop, &c, err, sizeof err);
    }
    if (ch && ch->h2) {
        mq->n_channels++;
        return ch;
    }
    if (log_allowed(&limit, rmq_now_us(mq), &suppressed))
        log_error("rocketmq: this proxy cannot be used", LOG_S("target", target),
                  LOG_Z("reason", err), LOG_I("suppressed", (int64_t)suppressed));
    return NULL;
}

struct rmq_channel *rmq_channel_get(struct rocketmq *mq, const char *host, int port)
{
    char told[RMQ_TARGET_MAX];
    bool bare = strchr(host, ':') && host[0] != '['; /* an IPv6 address as a route tells it */
    int n = snprintf(told, sizeof told, bare ? "[%s]:%d" : "%s:%d", host, port);
    if (n < 0 || (size_t)n >= sizeof told || port < 1 || port > 65535 || !host[0])
        return NULL;
    struct str target = mapped(mq->c.endpoint_map, (struct str){told, (size_t)n});
    struct rmq_channel *ch = find(mq, target);
    return ch || mq->ending ? ch : make(mq, target);
}

void rmq_channel_failed(struct rmq_channel *ch, const char *why)
{
    struct rocketmq *mq = ch->mq;
    if (ch->isolated || mq->ending)
        return;
    ch->isolated = true;
    metric_add(mq->m.isolations, 1);
    metric_gauge_add(mq->m.isolated, 1);
    log_warn("rocketmq: a proxy does not answer and is avoided", LOG_Z("target", ch->target),
             LOG_Z("reason", why));
    list_for_each (l, &mq->sessions) {
        struct rmq_session *s = container_of(l, struct rmq_session, link);
        struct rmq_member *m = rmq_session_member(s, ch);
        if (m && m->heartbeat_timer.slot)
            sched_set_in(loop_sched(mq->loop), &m->heartbeat_timer, rmq_jitter_us(mq, PROBE_US));
    }
}

void rmq_channel_alive(struct rmq_channel *ch)
{
    if (!ch->isolated)
        return;
    ch->isolated = false;
    metric_gauge_add(ch->mq->m.isolated, -1);
    log_info("rocketmq: a proxy answers again", LOG_Z("target", ch->target));
}

int64_t rmq_jitter_us(struct rocketmq *mq, int64_t us)
{
    return us - us / 5 + (int64_t)rng_below(&mq->rng, (uint64_t)(us / 5 * 2 + 1));
}
