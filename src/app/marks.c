#include "app/marks.h"

#include "app/worker.h"
#include "base/crashpoint.h"
#include "base/panic.h"
#include <stdlib.h>

static void run(struct share_job *j, struct orders *o)
{
    struct marks *m = container_of(j, struct marks, job);
    const struct worker *w = container_of(m, struct worker, marks);
    int others = m->sent - m->told;
    crashpoint("before_mark_settled");
    j->rc = m->told > 0 ? o->ops->mark_settled(o, &m->ctx, m->ids, m->told, false) : 0;
    m->marked = j->rc < 0 ? 0 : m->told;
    if (j->rc >= 0 && others > 0)
        j->rc = o->ops->mark_settled(o, &m->ctx, m->ids + m->told, others, w->results != NULL);
    m->marked += j->rc < 0 ? 0 : others;
    crashpoint("after_mark_settled");
}

/* Takes the first of those that wait. */
static void take(struct marks *m)
{
    int at[2] = {0, 0}; /* where the next other one is put, and the next told one */
    m->sent = m->n < MARKS_BATCH ? m->n : MARKS_BATCH;
    for (int i = 0; i < m->sent; i++)
        at[0] += m->waiting[i].told;
    m->told = at[0];
    for (int i = 0; i < m->sent; i++)
        m->ids[at[m->waiting[i].told]++] = m->waiting[i].outbox_id;
    m->n -= m->sent;
    memmove(m->waiting, m->waiting + m->sent, (size_t)m->n * sizeof m->waiting[0]);
}

static void send(struct worker *w)
{
    struct marks *m = &w->marks;
    if (m->busy || m->n == 0)
        return;
    sched_clear(w->sched, &m->timer);
    m->busy = true;
    take(m);
    ctx_init(&m->ctx, NULL, w->sched->now_us + w->cfg.tx_budget_us);
    share_submit(w, &m->job);
}

static void on_done(struct share_job *j)
{
    struct marks *m = container_of(j, struct marks, job);
    struct worker *w = container_of(m, struct worker, marks);
    metric_add(w->metrics.marks_dropped, (uint64_t)(m->sent - m->marked));
    m->sent = 0;
    m->busy = false;
    if (m->n >= MARKS_BATCH || (m->n > 0 && w->stopping))
        send(w);
    else if (m->n > 0)
        sched_set_in(w->sched, &m->timer, MARKS_WAIT_US);
    worker_changed(w);
}

static void on_timer(struct timer *t)
{
    send(container_of(t, struct worker, marks.timer));
}

void marks_init(struct worker *w)
{
    w->marks = (struct marks){.timer.on_fire = on_timer,
                              .job = {.class = SHARE_BACK, .run = run, .on_done = on_done}};
    w->marks.waiting = malloc(MARKS_MAX * sizeof w->marks.waiting[0]);
    w->marks.ids = malloc(MARKS_BATCH * sizeof w->marks.ids[0]);
    if (!w->marks.waiting || !w->marks.ids)
        panic("no memory for marks");
}

void marks_deinit(struct worker *w)
{
    sched_clear(w->sched, &w->marks.timer);
    free(w->marks.waiting);
    free(w->marks.ids);
}

void marks_add(struct worker *w, int64_t outbox_id, bool told)
{
    struct marks *m = &w->marks;
    if (m->n == MARKS_MAX) {
        metric_add(w->metrics.marks_dropped, 1);
        return;
    }
    m->waiting[m->n++] = (struct mark){outbox_id, told};
    if (m->busy)
        return;
    if (m->n >= MARKS_BATCH)
        send(w);
    else if (m->n == 1)
        sched_set_in(w->sched, &m->timer, MARKS_WAIT_US);
}

void marks_flush(struct worker *w)
{
    send(w);
}

bool marks_idle(const struct worker *w)
{
    return w->marks.n == 0 && !w->marks.busy;
}
