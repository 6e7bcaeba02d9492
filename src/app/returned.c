#include "app/returned.h"

#include "app/burial.h"
#include "app/disposal.h"
#include "app/worker.h"

void returned_init(struct worker *w)
{
    w->returned = (struct returned){0};
    list_init(&w->returned.waiting);
}

void returned_add(struct work *k)
{
    struct returned *r = &k->w->returned;
    list_push_back(&r->waiting, &k->link);
    r->n_waiting++;
    k->returned = true;
    hand_set_waiting(k, true);
    worker_changed(k->w);
}

bool returned_has(const struct work *k)
{
    return k->returned;
}

void returned_remove(struct work *k)
{
    list_remove(&k->link);
    k->w->returned.n_waiting--;
    k->returned = false;
    hand_set_waiting(k, false);
}

static void run_ask(struct share_job *j, struct orders *o)
{
    struct returned *r = container_of(j, struct returned, job);
    j->rc = o->ops->inbox(o, &r->ctx, r->ids, r->inbox, r->n);
    if (j->rc >= 0)
        j->rc = o->ops->attempts(o, &r->ctx, r->ids, r->counts, r->n);
}

static void publish_again(struct work *k, int failures)
{
    struct worker *w = k->w;
    static struct log_limit limit;
    uint64_t more;
    metric_add(w->metrics.returned, 1);
    if (log_allowed(&limit, w->sched->now_us, &more))
        log_warn("the broker gave a message up; it is published again", LOG_EVENT(k),
                 LOG_I("delivery_attempt", k->m->deliveries), LOG_I("retry_attempt", failures),
                 LOG_Z("outcome", "retry"), LOG_B("retryable", true),
                 LOG_I("suppressed", (int64_t)more));
    worker_outcome(k, OUTCOME_RETRY);
    disposal_retry_later(w, k->e.item, &k, 1, 1);
}

static void decide(struct work *k, const struct orders_inbox *inbox, int failures)
{
    if (inbox->found && strcmp(inbox->status, "QUARANTINED") == 0)
        burial_start(k, "quarantined before, and given up by the broker", NULL);
    else if (inbox->found)
        lanes_add(k);
    else if (failures >= k->w->cfg.max_attempts)
        burial_start(k, "failed by its own fault too often", NULL);
    else
        publish_again(k, failures);
}

static void on_asked(struct share_job *j)
{
    struct worker *w = container_of(j, struct worker, returned.job);
    struct returned *r = &w->returned;
    r->busy = false;
    for (int i = 0; i < r->n; i++) {
        if (j->rc < 0)
            disposal_leave(w, &r->asked[i], 1);
        else
            decide(r->asked[i], &r->inbox[i], r->counts[i]);
    }
    worker_changed(w);
}

void returned_poke(struct worker *w)
{
    struct returned *r = &w->returned;
    if (r->busy || r->n_waiting == 0 || !worker_may_place(w))
        return;
    r->n = 0;
    while (r->n < RETURNED_ASK_MAX && r->n_waiting > 0) {
        struct work *k = container_of(r->waiting.next, struct work, link);
        returned_remove(k);
        r->ids[r->n] = k->e.message_id;
        r->asked[r->n++] = k;
    }
    r->busy = true;
    r->job = (struct share_job){.class = SHARE_BACK, .run = run_ask, .on_done = on_asked};
    ctx_init(&r->ctx, &w->root, w->sched->now_us + w->cfg.tx_budget_us);
    share_submit(w, &r->job);
}
