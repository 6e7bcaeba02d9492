#include "app/share.h"

#include "app/lanes.h"
#include "app/worker.h"

void share_init(struct worker *w)
{
    for (int c = 0; c < SHARE_CLASSES; c++)
        list_init(&w->share.waiting[c]);
}

static void finish(struct share_job *j)
{
    struct worker *w = j->w;
    w->share.running[j->class]--;
    /* The pump waits, so that what on_done submits competes on equal terms. */
    bool outer = !w->share.pumping;
    w->share.pumping = true;
    j->on_done(j);
    if (outer) {
        w->share.pumping = false;
        share_pump(w);
    }
}

static void on_job_done(struct job *job)
{
    finish(container_of(job, struct share_job, job));
}

static void on_refused(struct timer *t)
{
    finish(container_of(t, struct share_job, refused));
}

static void on_run(struct job *job, struct orders *o)
{
    struct share_job *j = container_of(job, struct share_job, job);
    j->run(j, o);
}

static void start_first(struct worker *w, enum share_class c)
{
    struct share *s = &w->share;
    struct share_job *j = container_of(list_pop_front(&s->waiting[c]), struct share_job, link);
    s->n_waiting[c]--;
    s->running[c]++;
    j->started_us = w->sched->now_us;
    metric_observe_us(w->metrics.pg_wait, j->started_us - j->asked_us);
    j->rc = ERR_OVERLOAD;
    j->job.run = on_run;
    j->job.on_done = on_job_done;
    if (w->jobs->ops->submit(w->jobs, &j->job) < 0)
        sched_set(w->sched, &j->refused, w->sched->now_us);
}

/* One step; false when nothing more can start. */
static bool start_one(struct worker *w)
{
    struct share *s = &w->share;
    int orders = s->running[SHARE_ORDERS], back = s->running[SHARE_BACK];
    if (orders + back >= w->jobs->threads)
        return false;
    /* The last free connection is not the background's while it has one and the orders have none.
     */
    bool back_may = s->n_waiting[SHARE_BACK] > 0 && (back == 0 || back < w->jobs->threads - 1);
    if (back_may && back == 0 && orders > 0) {
        start_first(w, SHARE_BACK);
        return true;
    }
    if (s->n_waiting[SHARE_ORDERS] > 0) {
        start_first(w, SHARE_ORDERS);
        return true;
    }
    if (lanes_start_one(w))
        return true;
    if (back_may) {
        start_first(w, SHARE_BACK);
        return true;
    }
    return false;
}

void share_pump(struct worker *w)
{
    if (w->share.pumping)
        return;
    w->share.pumping = true;
    while (start_one(w))
        ;
    w->share.pumping = false;
}

void share_submit(struct worker *w, struct share_job *j)
{
    struct share *s = &w->share;
    j->w = w;
    j->asked_us = w->sched->now_us;
    j->refused = (struct timer){.on_fire = on_refused};
    if (s->running[SHARE_ORDERS] + s->running[SHARE_BACK] >= w->jobs->threads)
        metric_add(w->metrics.pg_empty_acquire, 1);
    list_push_back(&s->waiting[j->class], &j->link);
    s->n_waiting[j->class]++;
    share_pump(w);
}

bool share_idle(const struct worker *w)
{
    const struct share *s = &w->share;
    return s->running[SHARE_ORDERS] + s->running[SHARE_BACK] + s->n_waiting[SHARE_ORDERS] +
               s->n_waiting[SHARE_BACK] ==
           0;
}
