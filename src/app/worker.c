#include "app/worker.h"
#include "app/place.h"

#include "base/panic.h"
#include "core/suspect.h"

static void on_changed(struct timer *t)
{
    struct worker *w = container_of(t, struct worker, changed);
    suspects_poke(w);
    returned_poke(w);
    share_pump(w);
    intake_poke(w);
    if (!w->stopping || !w->on_idle || w->hand.used > 0 || !intake_stopped(w))
        return;
    /* The last outbox rows are marked before the end. */
    if (!w->canceled && (!tell_idle(w) || !marks_idle(w))) {
        tell_flush(w);
        marks_flush(w);
        return;
    }
    if (w->ops > 0 || !share_idle(w) || !relay_idle(w) || !recover_idle(w) || !sweep_idle(w) ||
        !reconcile_idle(w) || !project_idle(w) || !retain_idle(w) || !epoch_watch_idle(w))
        return;
    void (*on_idle)(struct worker *) = w->on_idle;
    w->on_idle = NULL;
    on_idle(w);
}

void worker_changed(struct worker *w)
{
    if (w->changed.slot == 0)
        sched_set(w->sched, &w->changed, w->sched->now_us);
}

void worker_init(struct worker *w)
{
    if (w->cfg.batch_max > PLACE_BATCH_MAX || w->cfg.batch_max < 1)
        panic("batch_max %d", w->cfg.batch_max);
    batch_limit_init(&w->batch_limit, w->cfg.batch_max, w->cfg.batch_target_us);
    w->changed = (struct timer){.on_fire = on_changed};
    rng_init(&w->rng);
    ctx_init(&w->root, NULL, CTX_NO_DEADLINE);
    worker_metrics_init(&w->metrics);
    int slots = w->cfg.workers + w->cfg.queue;
    hand_init(w, slots);
    lanes_init(w, slots);
    share_init(w);
    suspects_init(w);
    returned_init(w);
    burial_init(w);
    unsure_init(&w->unsure);
    marks_init(w);
    tell_init(w);
    progress_init(w);
    catalog_init(w);
}

void worker_start(struct worker *w)
{
    health_start(w);
    catalog_start(w);
    lease_start(w);
    relay_start(w);
    recover_start(w);
    sweep_start(w);
    reconcile_start(w);
    project_start(w);
    retain_start(w);
    epoch_watch_start(w);
    intake_start(w);
}

void worker_stop(struct worker *w, void (*on_idle)(struct worker *w))
{
    w->stopping = true;
    w->on_idle = on_idle;
    progress_stop(w);
    catalog_stop(w);
    relay_stop(w);
    recover_stop(w);
    sweep_stop(w);
    reconcile_stop(w);
    project_stop(w);
    retain_stop(w);
    epoch_watch_stop(w);
    intake_stop(w);
    tell_flush(w);
    marks_flush(w);
    worker_changed(w);
}

/* What waits goes now; what is under way ends by its ctx and is given back without an ack. */
void worker_cancel(struct worker *w)
{
    w->canceled = true;
    ctx_cancel(&w->root);
    for (int i = 0; i < w->hand.size; i++) {
        struct work *k = &w->hand.works[i];
        if (!k->m || !k->waiting)
            continue;
        worker_unroute(k);
        hand_put(k);
    }
    worker_changed(w);
}

void worker_deinit(struct worker *w)
{
    health_stop(w);
    lease_stop(w);
    sched_clear(w->sched, &w->changed);
    relay_deinit(w);
    recover_deinit(w);
    sweep_deinit(w);
    reconcile_deinit(w);
    project_deinit(w);
    epoch_watch_deinit(w);
    progress_stop(w);
    tell_deinit(w);
    marks_deinit(w);
    unsure_deinit(&w->unsure);
    burial_deinit(w);
    catalog_deinit(w);
    lanes_deinit(w);
    hand_deinit(w);
}

/* The broker's count goes on where it gave a message up, and says nothing any more: what is in a
 * lane from there has an outcome (returned.h). */
static bool suspected(const struct work *k)
{
    return !k->m->dead && suspect_group(k->m->deliveries) > 0;
}

void worker_route(struct work *k)
{
    if (suspected(k))
        suspects_add(k);
    else if (k->again > 0)
        lanes_add_front(k);
    else
        lanes_add(k);
}

void worker_return(struct work *k)
{
    if (suspected(k))
        suspects_add(k);
    else
        lanes_add_front(k);
}

void worker_unroute(struct work *k)
{
    if (suspects_has(k))
        suspects_remove(k);
    else if (returned_has(k))
        returned_remove(k);
    else
        lanes_remove(k);
}

bool worker_may_place(const struct worker *w)
{
    return !w->canceled && health_usable(w);
}

void worker_outcome(struct work *k, enum work_outcome outcome)
{
    metric_observe_us(k->w->metrics.process[outcome], k->w->sched->now_us - k->received_us);
}

int64_t worker_store_deadline(const struct worker *w)
{
    return w->sched->now_us + w->cfg.store_us;
}
