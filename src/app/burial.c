#include "app/burial.h"

#include "app/disposal.h"
#include "app/worker.h"
#include "base/crashpoint.h"
#include "base/panic.h"
#include <stdlib.h>

struct burial {
    struct share_job job;
    struct ctx ctx;
    struct work *k;
    struct orders_dead_letter letter;
    void (*on_end)(struct worker *w);
};

static void run(struct share_job *j, struct orders *o)
{
    struct burial *b = container_of(j, struct burial, job);
    j->rc = o->ops->quarantine(o, &b->ctx, &b->letter);
    if (j->rc >= 0)
        crashpoint("quarantine_stored");
}

static void on_done(struct share_job *j)
{
    struct burial *b = container_of(j, struct burial, job);
    struct work *k = b->k;
    struct worker *w = k->w;
    struct item item = k->m->item.activity_id ? k->m->item : k->e.item;
    if (b->on_end)
        b->on_end(w);
    if (j->rc < 0) {
        static struct log_limit limit;
        uint64_t more;
        if (log_allowed(&limit, w->sched->now_us, &more))
            log_error("dead letter not stored; not acknowledged",
                      LOG_Z("consumer_group", EVENT_GROUP), LOG_Z("broker_message_id", k->m->id),
                      LOG_I("activity_id", item.activity_id), LOG_I("sku_id", item.sku_id),
                      LOG_Z("error_kind", err_name(j->rc)), LOG_Z("outcome", "retry"),
                      LOG_B("retryable", true), LOG_I("retry_attempt", k->m->deliveries),
                      LOG_I("suppressed", (int64_t)more));
        worker_outcome(k, OUTCOME_RETRY);
        disposal_retry_later(w, item, &k, 1, k->m->deliveries);
    } else {
        /* rc 1: it was settled before, so there is nothing to bury. */
        if (j->rc == 0)
            metric_add(w->metrics.dead_letters, 1);
        worker_outcome(k, j->rc == 0 ? OUTCOME_QUARANTINED : OUTCOME_DUPLICATE);
        disposal_ack(w, item, &k, 1);
    }
    free(b);
    worker_op_ended(w);
}

/* A bad deployment upstream makes thousands of them: a line a second says so, the metric counts
 * them, dead_letters has each. One whose event is known is always named. */
static void tell(const struct work *k, bool decoded, const char *why)
{
    static struct log_limit limit;
    uint64_t more;
    if (decoded)
        log_error("message quarantined", LOG_EVENT(k), LOG_Z("reason", why), LOG_B("decoded", true),
                  LOG_I("delivery_attempt", k->m->deliveries), LOG_Z("outcome", "quarantined"),
                  LOG_B("retryable", false));
    else if (log_allowed(&limit, k->w->sched->now_us, &more))
        log_error("message quarantined", LOG_Z("consumer_group", EVENT_GROUP),
                  LOG_Z("broker_message_id", k->m->id),
                  LOG_I("activity_id", k->m->item.activity_id), LOG_I("sku_id", k->m->item.sku_id),
                  LOG_Z("reason", why), LOG_B("decoded", false),
                  LOG_I("delivery_attempt", k->m->deliveries), LOG_Z("outcome", "quarantined"),
                  LOG_B("retryable", false), LOG_I("suppressed", (int64_t)more));
}

static void start(struct work *k, bool decoded, const char *why, void (*on_end)(struct worker *w))
{
    struct worker *w = k->w;
    struct burial *b = calloc(1, sizeof *b);
    if (!b)
        panic("no memory for a dead letter");
    tell(k, decoded, why);
    b->k = k;
    b->on_end = on_end;
    b->letter = (struct orders_dead_letter){.decoded = decoded,
                                            .item = decoded ? k->e.item : k->m->item,
                                            .broker_id = str_of(k->m->id),
                                            .body = k->m->body,
                                            .reason = str_of(why),
                                            .deliveries = k->m->deliveries};
    if (decoded) {
        b->letter.message_id = k->e.message_id;
        b->letter.request_id = k->e.request_id;
        b->letter.reservation_id = k->e.reservation_id;
        b->letter.user_id = k->e.user_id;
        b->letter.order_id = k->e.order_id;
    }
    b->job = (struct share_job){.class = SHARE_BACK, .run = run, .on_done = on_done};
    ctx_init(&b->ctx, &w->root, hand_deadline_us(k));
    worker_op_begun(w);
    share_submit(w, &b->job);
}

void burial_undecodable(struct work *k, const char *why)
{
    start(k, false, why, NULL);
}

void burial_start(struct work *k, const char *why, void (*on_end)(struct worker *w))
{
    start(k, true, why, on_end);
}
