#include "app/suspects.h"

#include "app/burial.h"
#include "app/disposal.h"
#include "app/place.h"
#include "app/worker.h"
#include "base/crashpoint.h"
#include "core/suspect.h"

void suspects_init(struct worker *w)
{
    w->suspects = (struct suspects){0};
    list_init(&w->suspects.unasked);
    list_init(&w->suspects.known);
}

void suspects_add(struct work *k)
{
    struct suspects *s = &k->w->suspects;
    list_push_back(&s->unasked, &k->link);
    s->n_unasked++;
    k->suspect = WORK_UNASKED;
    hand_set_waiting(k, true);
    worker_changed(k->w);
}

bool suspects_none(const struct worker *w)
{
    const struct suspects *s = &w->suspects;
    return s->n_unasked + s->n_known == 0 && !s->busy;
}

bool suspects_hold(const struct worker *w)
{
    return w->suspects.n_known > 0 || w->suspects.running;
}

bool suspects_has(const struct work *k)
{
    return k->suspect != WORK_HEALTHY;
}

void suspects_remove(struct work *k)
{
    struct suspects *s = &k->w->suspects;
    list_remove(&k->link);
    if (k->suspect == WORK_UNASKED)
        s->n_unasked--;
    else
        s->n_known--;
    k->suspect = WORK_HEALTHY;
    hand_set_waiting(k, false);
    worker_changed(k->w);
}

static void submit(struct worker *w, void (*run)(struct share_job *, struct orders *),
                   void (*on_done)(struct share_job *))
{
    struct suspects *s = &w->suspects;
    s->busy = true;
    s->job = (struct share_job){.class = SHARE_ORDERS, .run = run, .on_done = on_done};
    ctx_init(&s->ctx, &w->root, w->sched->now_us + w->cfg.tx_budget_us);
    share_submit(w, &s->job);
}

static struct worker *worker_of(struct share_job *j)
{
    return container_of(j, struct worker, suspects.job);
}

/* --- ask --- */

static void run_ask(struct share_job *j, struct orders *o)
{
    struct suspects *s = container_of(j, struct suspects, job);
    j->rc = o->ops->inbox(o, &s->ctx, s->ids, s->inbox, s->n_asked);
    if (j->rc >= 0)
        j->rc = o->ops->attempts(o, &s->ctx, s->ids, s->counts, s->n_asked);
}

static void on_asked(struct share_job *j)
{
    struct worker *w = worker_of(j);
    struct suspects *s = &w->suspects;
    s->busy = false;
    for (int i = 0; i < s->n_asked; i++) {
        struct work *k = s->asked[i];
        if (j->rc < 0) {
            worker_outcome(k, OUTCOME_RETRY);
            disposal_retry_later(w, k->e.item, &k, 1, k->m->deliveries);
        } else if (s->inbox[i].found || s->counts[i] > 0) {
            lanes_add(k);
        } else {
            metric_add(w->metrics.suspects, 1);
            list_push_back(&s->known, &k->link);
            s->n_known++;
            k->suspect = WORK_KNOWN;
            hand_set_waiting(k, true);
        }
    }
    worker_changed(w);
}

static void ask(struct worker *w)
{
    struct suspects *s = &w->suspects;
    s->n_asked = 0;
    while (s->n_asked < SUSPECTS_ASK_MAX && s->n_unasked > 0) {
        struct work *k = container_of(s->unasked.next, struct work, link);
        suspects_remove(k);
        s->ids[s->n_asked] = k->e.message_id;
        s->asked[s->n_asked++] = k;
    }
    submit(w, run_ask, on_asked);
}

/* --- run --- */

static void end_run(struct worker *w)
{
    w->suspects.busy = w->suspects.running = false;
    worker_changed(w);
}

static void run_clear(struct share_job *j, struct orders *o)
{
    struct suspects *s = container_of(j, struct suspects, job);
    struct worker *w = container_of(s, struct worker, suspects);
    j->rc = o->ops->suspect_clear(o, &s->ctx, &s->alone, 1, str_of(w->life));
}

static void on_cleared(struct share_job *j)
{
    end_run(worker_of(j));
}

static void on_group_end(struct batch *b)
{
    lanes_end(b->w, b->item);
    end_run(b->w);
}

/* It ended and we are alive: this life's mark goes. If that cannot be written, this life must end
 * before the mark counts; then it may be alone once more. */
static void on_alone_end(struct batch *b)
{
    lanes_end(b->w, b->item);
    submit(b->w, run_clear, on_cleared);
}

static void run_begin(struct share_job *j, struct orders *o)
{
    struct suspects *s = container_of(j, struct suspects, job);
    struct worker *w = container_of(s, struct worker, suspects);
    j->rc = o->ops->suspect_begin(o, &s->ctx, &s->alone, str_of(w->life), &s->dead_alone);
    crashpoint("suspect_marked");
}

static void on_begun(struct share_job *j)
{
    struct worker *w = worker_of(j);
    struct suspects *s = &w->suspects;
    struct work *k = s->alone_work;
    if (j->rc < 0) {
        worker_outcome(k, OUTCOME_RETRY);
        disposal_retry_later(w, k->e.item, &k, 1, k->m->deliveries);
        lanes_end(w, s->item);
        end_run(w);
    } else if (s->dead_alone >= SUSPECT_DEAD_ALONE) {
        lanes_end(w, s->item);
        burial_start(k, "ended the process each time", end_run);
    } else {
        place_start(w, s->item, &k, 1, on_alone_end);
    }
}

static void run_group(struct worker *w)
{
    struct suspects *s = &w->suspects;
    struct work *first = container_of(s->known.next, struct work, link);
    struct item item = first->e.item;
    if (!lanes_begin(w, item))
        return;
    int group = suspect_group(first->m->deliveries), n = 0;
    int limit = batch_limit_now(&w->batch_limit);
    group = group > limit ? limit : group;
    struct work *taken[PLACE_BATCH_MAX];
    list_for_each_safe (it, &s->known) {
        struct work *k = container_of(it, struct work, link);
        if (n == group)
            break;
        if (!item_eq(k->e.item, item) || k->e.command != first->e.command ||
            suspect_group(k->m->deliveries) != suspect_group(first->m->deliveries))
            continue;
        suspects_remove(k);
        taken[n++] = k;
    }
    s->busy = s->running = true;
    s->item = item;
    if (suspect_group(first->m->deliveries) > 1) {
        place_start(w, item, taken, n, on_group_end);
        return;
    }
    s->alone_work = taken[0];
    s->alone = taken[0]->e.message_id;
    submit(w, run_begin, on_begun);
}

void suspects_poke(struct worker *w)
{
    struct suspects *s = &w->suspects;
    if (s->busy || !worker_may_place(w))
        return;
    if (s->n_unasked > 0)
        ask(w);
    else if (s->n_known > 0 && hand_active(&w->hand) == 0)
        run_group(w);
}
