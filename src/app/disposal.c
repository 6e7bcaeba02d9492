#include "app/disposal.h"

#include "app/worker.h"
#include "base/crashpoint.h"
#include "base/panic.h"
#include "core/retry.h"
#include <stdlib.h>

struct disposal {
    struct worker *w;
    struct queue_batch op;
    struct timer pause;
    bool ack;
    int tries, n;
    struct work **works;              /* [n] */
    struct queue_message *messages[]; /* [n] */
};

static void end(struct disposal *d)
{
    struct worker *w = d->w;
    for (int i = 0; i < d->n; i++)
        hand_put(d->works[i]);
    free(d->works);
    free(d);
    worker_op_ended(w);
}

static void send(struct disposal *d)
{
    struct worker *w = d->w;
    d->tries++;
    d->op.op.deadline_us = worker_store_deadline(w);
    if (d->ack) {
        crashpoint("before_ack");
        w->queue->ops->ack(w->queue, &d->op);
    } else {
        crashpoint("before_retry_later");
        w->queue->ops->retry_later(w->queue, &d->op);
    }
}

static void on_pause(struct timer *t)
{
    send(container_of(t, struct disposal, pause));
}

static void on_done(struct op *op, int rc)
{
    struct disposal *d = container_of(op, struct disposal, op.op);
    struct worker *w = d->w;
    if (d->ack && rc < 0) {
        if (d->tries < w->cfg.ack_attempts && !w->canceled) {
            int64_t delay =
                retry_delay_us(&w->rng, w->cfg.ack_base_us, w->cfg.ack_max_us, d->tries - 1);
            sched_set_in(w->sched, &d->pause, delay);
            return;
        }
        metric_add(w->metrics.ack_failures, (uint64_t)d->n);
        static struct log_limit limit;
        uint64_t more;
        if (log_allowed(&limit, w->sched->now_us, &more))
            log_warn("ack given up; the messages will be delivered again",
                     LOG_Z("consumer_group", EVENT_GROUP),
                     LOG_I("activity_id", d->op.item.activity_id),
                     LOG_I("sku_id", d->op.item.sku_id), LOG_Z("error_kind", err_name(rc)),
                     LOG_I("messages", d->n), LOG_Z("broker_message_id", d->messages[0]->id),
                     LOG_I("retry_attempt", d->tries), LOG_Z("outcome", "redelivery"),
                     LOG_B("retryable", true), LOG_I("suppressed", (int64_t)more));
    }
    if (rc >= 0) {
        if (d->ack)
            crashpoint("after_ack");
        else
            crashpoint("after_retry_later");
    }
    end(d);
}

static void start(struct worker *w, struct item item, struct work **works, int n, bool ack,
                  int64_t delay_us)
{
    struct disposal *d = calloc(1, sizeof *d + (size_t)n * sizeof d->messages[0]);
    struct work **copy = malloc((size_t)n * sizeof copy[0]);
    if (!d || !copy)
        panic("no memory to end %d messages", n);
    memcpy(copy, works, (size_t)n * sizeof copy[0]);
    *d = (struct disposal){.w = w, .pause.on_fire = on_pause, .ack = ack, .n = n, .works = copy};
    for (int i = 0; i < n; i++)
        d->messages[i] = works[i]->m;
    d->op = (struct queue_batch){
        .op.on_done = on_done, .item = item, .messages = d->messages, .n = n, .delay_us = delay_us};
    worker_op_begun(w);
    send(d);
}

void disposal_ack(struct worker *w, struct item item, struct work **works, int n)
{
    start(w, item, works, n, true, 0);
}

void disposal_leave(struct worker *w, struct work **works, int n)
{
    static struct log_limit limit;
    uint64_t more;
    if (log_allowed(&limit, w->sched->now_us, &more))
        log_warn("messages that the broker gave up are left to their lease",
                 LOG_Z("consumer_group", EVENT_GROUP), LOG_I("messages", n),
                 LOG_Z("broker_message_id", works[0]->m->id), LOG_Z("outcome", "redelivery"),
                 LOG_B("retryable", true), LOG_I("suppressed", (int64_t)more));
    for (int i = 0; i < n; i++) {
        worker_outcome(works[i], OUTCOME_RETRY);
        hand_put(works[i]);
    }
}

void disposal_retry_later(struct worker *w, struct item item, struct work **works, int n,
                          int attempt)
{
    /* Half fixed, half jitter: a message must not come back at once, nor all of them together. */
    int64_t bound = w->cfg.redeliver_base_us;
    for (int i = 1; i < attempt && bound < w->cfg.redeliver_max_us; i++)
        bound *= 2;
    bound = bound > w->cfg.redeliver_max_us ? w->cfg.redeliver_max_us : bound;
    int64_t delay = bound / 2 + retry_delay_us(&w->rng, bound / 2, bound / 2, 0);
    if (w->canceled) {
        for (int i = 0; i < n; i++)
            hand_put(works[i]);
        return;
    }
    log_debug("messages go back to the queue", LOG_Z("consumer_group", EVENT_GROUP),
              LOG_I("activity_id", item.activity_id), LOG_I("sku_id", item.sku_id),
              LOG_I("messages", n), LOG_Z("broker_message_id", works[0]->m->id),
              LOG_I("retry_attempt", attempt), LOG_I("delay_ms", delay / 1000),
              LOG_Z("outcome", "retry"), LOG_B("retryable", true));
    start(w, item, works, n, false, delay);
}
