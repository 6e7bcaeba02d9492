#include "adapter/rocketmq/route.h"

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

/* Proxies of a cluster come with a new address after each restart: what nobody needs any more makes
 * room for them. */
static bool needed(struct rocketmq *mq, const struct rmq_channel *ch)
{
    for (int i = 0; i < mq->n_access; i++) {
        if (mq->access[i] == ch)
            return true;
    }
    list_for_each (l, &mq->sessions) {
        if (rmq_route_has(&container_of(l, struct rmq_session, link)->route, ch))
            return true;
    }
    return false;
}

void rmq_channels_rest(struct rocketmq *mq)
{
    for (int i = 0; i < mq->n_channels; i++) {
        if (mq->channels[i].isolated && !needed(mq, &mq->channels[i]))
            rmq_channel_alive(&mq->channels[i]);
    }
}

static struct rmq_channel *place(struct rocketmq *mq)
{
    if (mq->n_channels < RMQ_CHANNELS_MAX)
        return &mq->channels[mq->n_channels];
    for (int i = 0; i < mq->n_channels; i++) {
        struct rmq_channel *ch = &mq->channels[i];
        if (ch->calls == 0 && ch->named != mq->readings && !needed(mq, ch))
            return ch;
    }
    return NULL;
}

static struct h2grpc *open_link(struct rocketmq *mq, const char *target, char *err, size_t err_cap)
{
    struct h2grpc_config c = {
        .target = target,
        .tls = mq->c.tls,
        .ca_file = mq->c.ca_file[0] ? mq->c.ca_file : NULL,
        .prefer_ipv4 = true, /* a LOCAL proxy refuses every send that came over IPv6 */
        /* Sends are bounded here; the rest is polls, acks and a few streams. */
        .max_streams = mq->c.max_sends + 256,
        .metric_link = "rocketmq",
    };
    return h2grpc_new(mq->loop, &c, err, err_cap);
}

static struct rmq_channel *make(struct rocketmq *mq, struct str target)
{
    static struct log_limit limit;
    uint64_t suppressed;
    char err[160] = "there are too many proxies", name[RMQ_TARGET_MAX];
    struct rmq_channel *ch = place(mq);
    struct h2grpc *h2 = NULL;
    if (ch && str_copy(name, sizeof name, target))
        h2 = open_link(mq, name, err, sizeof err);
    if (h2) {
        rmq_channel_alive(ch);
        if (ch->h2)
            h2grpc_free(ch->h2);
        else
            mq->n_channels++;
        *ch = (struct rmq_channel){.mq = mq, .h2 = h2, .turned = ch->turned + 1};
        str_copy(ch->target, sizeof ch->target, target);
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
    if (!ch && !mq->ending)
        ch = make(mq, target);
    if (ch)
        ch->named = mq->readings;
    return ch;
}

void rmq_channel_failed(struct rmq_channel *ch, const char *why)
{
    struct rocketmq *mq = ch->mq;
    if (ch->isolated || mq->ending || !needed(mq, ch))
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
    log_info("rocketmq: a proxy is no longer avoided", LOG_Z("target", ch->target));
}

int64_t rmq_jitter_us(struct rocketmq *mq, int64_t us)
{
    return us - us / 5 + (int64_t)rng_below(&mq->rng, (uint64_t)(us / 5 * 2 + 1));
}
