/* The channel: one link for new calls, made when calls wait and made again after a wait when it is
 * lost; links that were told to go away finish their streams beside it. */
#include "adapter/h2grpc/internal.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/panic.h"
#include <stdio.h>
#include <stdlib.h>

static void on_dial_timer(struct timer *t)
{
    struct h2grpc *ch = container_of(t, struct h2grpc, dial_timer);
    if (ch->current || (list_empty(&ch->waiting) && !ch->asked))
        return;
    ch->asked = false;
    ch->current = h2_link_new(ch);
    if (!ch->current) {
        str_copy(ch->error, sizeof ch->error, STR("no memory"));
        h2_channel_lost(ch, 0, false);
    }
}

void h2_channel_want(struct h2grpc *ch)
{
    if (ch->closing || (list_empty(&ch->waiting) && !ch->asked))
        return;
    if (ch->current && ch->current->phase == LINK_UP)
        loop_flush_later(ch->loop, &ch->flush);
    else if (!ch->current && !ch->dial_timer.slot)
        sched_set(loop_sched(ch->loop), &ch->dial_timer, ch->dial_at_us);
}

/* 0.2 s, 0.32 s, … 10 s, each 20 % more or less. */
static int64_t next_wait_us(struct h2grpc *ch)
{
    double wait = (double)ch->config.backoff_min_us;
    for (int i = 0; i < ch->attempt && wait < (double)ch->config.backoff_max_us; i++)
        wait *= 1.6;
    if (wait > (double)ch->config.backoff_max_us)
        wait = (double)ch->config.backoff_max_us;
    if (ch->attempt < 64)
        ch->attempt++;
    return (int64_t)(wait * (0.8 + 0.4 * ((double)rng_below(&ch->rng, 1000) / 1000)));
}

static bool was_steady(struct h2grpc *ch, int64_t up_us)
{
    bool steady = up_us && clock_mono_us() - up_us > STEADY_US;
    if (steady)
        ch->attempt = 0;
    return steady;
}

static void fail_the_hasty(struct h2grpc *ch)
{
    list_for_each_safe (n, &ch->waiting) {
        struct h2grpc_call *c = container_of(n, struct h2grpc_call, link);
        if (!c->fail_fast)
            continue;
        list_remove(&c->link);
        ch->waiting_n--;
        metric_gauge_add(ch->metrics.pending, -1);
        h2_call_done_later(c, ERR_UNAVAIL, -1, ch->error);
    }
}

void h2_channel_lost(struct h2grpc *ch, int64_t up_us, bool idle)
{
    was_steady(ch, up_us);
    ch->current = NULL;
    ch->dial_at_us = clock_mono_us() + next_wait_us(ch);
    metric_add(ch->metrics.reconnects, 1);
    if (!idle) {
        if (!ch->failing)
            log_warn("grpc connection lost", LOG_Z("link", ch->metrics.link),
                     LOG_Z("peer", ch->target.authority), LOG_Z("error", ch->error));
        ch->failing = true;
        fail_the_hasty(ch);
    }
    h2_channel_want(ch);
}

void h2_channel_drain(struct h2grpc *ch, struct h2_link *k)
{
    if (k != ch->current)
        return;
    ch->current = NULL;
    ch->draining++;
    /* A server that sends everybody away at once is not dialled in a circle; one that does so after
     * so many calls (nginx, Envoy) is, however soon these are over. */
    bool fair = was_steady(ch, k->up_us) || k->answered >= FAIR_CALLS;
    ch->dial_at_us = clock_mono_us() + (fair ? 0 : next_wait_us(ch));
    if (ch->draining > DRAINING_MAX)
        h2_link_doom(container_of(ch->links.next, struct h2_link, node), "drained for too long");
    h2_channel_want(ch);
}

void h2_channel_up(struct h2grpc *ch)
{
    if (ch->failing)
        log_info("grpc connection up", LOG_Z("link", ch->metrics.link),
                 LOG_Z("peer", ch->target.authority));
    ch->failing = false;
    loop_flush_later(ch->loop, &ch->flush);
}

void h2_channel_submit(struct h2grpc *ch, struct h2_link *k)
{
    int64_t now = clock_mono_us(); /* a long turn costs the deadline too */
    while (!list_empty(&ch->waiting) && !k->doomed && k->phase == LINK_UP && h2_session_room(k)) {
        struct h2grpc_call *c =
            container_of(list_pop_front(&ch->waiting), struct h2grpc_call, link);
        ch->waiting_n--;
        metric_gauge_add(ch->metrics.pending, -1);
        if (c->deadline_us <= now) {
            h2_call_done_later(c, ERR_DEADLINE, -1, "no time was left");
            continue;
        }
        struct h2grpc_stream *s = h2_stream_get(ch, c);
        if (!s) {
            metric_add(ch->metrics.overload, 1);
            h2_call_done_later(c, ERR_OVERLOAD, -1, "no memory");
            continue;
        }
        c->sent_us = now;
        c->state = CALL_WIRE;
        int rc = h2_session_submit(k, s);
        if (rc > 0) {
            h2_call_refused(s, "the connection takes no more streams");
        } else if (rc < 0) {
            c->sent_us = 0;
            h2_call_done_later(c, rc, -1, "the server takes no such headers");
        } else {
            h2_session_pump(k);
        }
    }
}

static void on_flush(struct loop_flush *f)
{
    struct h2grpc *ch = container_of(f, struct h2grpc, flush);
    ch->busy++;
    list_for_each_safe (n, &ch->links)
        h2_link_flush(container_of(n, struct h2_link, node));
    ch->busy--;
    h2_stream_reap(ch);
}

static void on_done_task(struct loop_task *t)
{
    struct h2grpc *ch = container_of(t, struct h2grpc, done_task);
    ch->busy++;
    h2_call_run_done(ch);
    ch->busy--;
}

static int64_t or_default(int64_t v, int64_t fallback)
{
    return v > 0 ? v : fallback;
}

static void take_config(struct h2grpc *ch, const struct h2grpc_config *c)
{
    ch->config = (struct h2grpc_config){
        .prefer_ipv4 = c->prefer_ipv4,
        .dial_us = or_default(c->dial_us, 2000000),
        .backoff_min_us = or_default(c->backoff_min_us, 200000),
        .backoff_max_us = or_default(c->backoff_max_us, 10000000),
        .user_timeout_us = or_default(c->user_timeout_us, 15000000),
        .max_streams = (int)or_default(c->max_streams, 256),
        .max_pending = (int)or_default(c->max_pending, 4096),
        .max_message = c->max_message ? c->max_message : (4 << 20) + (64 << 10),
    };
}

struct h2grpc *h2grpc_new(struct loop *l, const struct h2grpc_config *c, char *err, size_t err_cap)
{
    struct h2grpc *ch = calloc(1, sizeof *ch);
    if (!ch) {
        snprintf(err, err_cap, "no memory");
        return NULL;
    }
    ch->loop = l;
    take_config(ch, c);
    if (!h2_target_parse(&ch->target, c->target, c->authority)) {
        snprintf(err, err_cap, "\"%s\" is no host:port", c->target ? c->target : "");
        free(ch);
        return NULL;
    }
    if (c->tls && !(ch->tls = h2_tls_create(c->ca_file, err, err_cap))) {
        free(ch);
        return NULL;
    }
    grpc_metrics_init(&ch->metrics, c->metric_link);
    rng_init(&ch->rng);
    list_init(&ch->links);
    list_init(&ch->waiting);
    list_init(&ch->done);
    list_init(&ch->gone);
    list_init(&ch->spare);
    list_init(&ch->done_task.link);
    ch->done_task.on_run = on_done_task;
    list_init(&ch->flush.link);
    ch->flush.on_flush = on_flush;
    ch->dial_timer.on_fire = on_dial_timer;
    return ch;
}

void h2grpc_free(struct h2grpc *ch)
{
    if (!ch)
        return;
    if (ch->busy)
        panic("h2grpc_free: inside a callback of its own");
    ch->closing = true;
    sched_clear(loop_sched(ch->loop), &ch->dial_timer);
    h2_call_cancel_all(ch);
    list_for_each_safe (n, &ch->links) {
        struct h2_link *k = container_of(n, struct h2_link, node);
        h2_session_goodbye(k);
        h2_link_close(k, "the channel ends");
    }
    loop_defer_cancel(&ch->done_task);
    loop_flush_cancel(&ch->flush);
    h2_stream_free_all(ch);
    h2_tls_free(ch->tls);
    free(ch);
}

bool h2grpc_up(const struct h2grpc *ch)
{
    return ch->current && ch->current->phase == LINK_UP && !ch->current->doomed;
}

void h2grpc_reconnect(struct h2grpc *ch, const char *why)
{
    if (!ch->current)
        return;
    str_copy(ch->error, sizeof ch->error, str_of(why));
    h2_link_doom(ch->current, ch->error);
}
