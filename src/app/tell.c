#include "app/tell.h"

#include "app/worker.h"
#include "base/crashpoint.h"
#include "base/panic.h"
#include <stdlib.h>

static void begin_calls(struct worker *w);

static bool away(const struct worker *w)
{
    return !w->tell.calls || w->sched->now_us < w->tell.away_until_us;
}

static void on_published(struct op *op, int rc)
{
    struct tell_call *c = container_of(op, struct tell_call, publish.op);
    struct worker *w = c->w;
    int told = 0;
    crashpoint("after_tell");
    for (int i = 0; i < c->publish.n; i++) {
        bool arrived = rc >= 0 && c->rows[i].published;
        marks_add(w, c->rows[i].result.id, arrived);
        told += arrived;
    }
    if (project_topic_away(rc))
        w->tell.away_until_us = w->sched->now_us + TELL_AWAY_US;
    project_note(w, &c->publish, rc, told);
    c->busy = false;
    w->tell.under_way--;
    if (w->tell.timer.slot == 0) /* those that wait found no free call */
        begin_calls(w);
    worker_op_ended(w);
}

/* The first that waits, with others of its item. */
static void begin_call(struct worker *w, struct tell_call *c)
{
    struct tell *t = &w->tell;
    struct results_publish *b = &c->publish;
    int left = 0;
    *b = (struct results_publish){.op = {on_published, worker_store_deadline(w)},
                                  .item = t->waiting[0].item,
                                  .rows = c->rows};
    for (int i = 0; i < t->n; i++) {
        const struct result *r = &t->waiting[i];
        if (b->n < RESULTS_MAX && item_eq(r->item, b->item))
            c->rows[b->n++] = (struct results_row){.result = *r};
        else
            t->waiting[left++] = *r;
    }
    t->n = left;
    c->w = w;
    c->busy = true;
    t->under_way++;
    worker_op_begun(w);
    crashpoint("before_tell");
    w->results->ops->publish(w->results, b);
}

static void begin_calls(struct worker *w)
{
    struct tell *t = &w->tell;
    sched_clear(w->sched, &t->timer);
    if (away(w)) {
        for (int i = 0; i < t->n; i++)
            marks_add(w, t->waiting[i].id, false);
        t->n = 0;
    }
    for (int i = 0; i < TELL_CALLS && t->n > 0 && !w->canceled; i++) {
        if (!t->calls[i].busy)
            begin_call(w, &t->calls[i]);
    }
}

static void on_timer(struct timer *t)
{
    begin_calls(container_of(t, struct worker, tell.timer));
}

void tell_init(struct worker *w)
{
    struct tell *t = &w->tell;
    *t = (struct tell){.timer.on_fire = on_timer};
    if (!w->results)
        return;
    t->waiting = malloc(TELL_MAX * sizeof t->waiting[0]);
    t->calls = calloc(TELL_CALLS, sizeof t->calls[0]);
    if (!t->waiting || !t->calls)
        panic("no memory to tell results");
}

void tell_deinit(struct worker *w)
{
    sched_clear(w->sched, &w->tell.timer);
    free(w->tell.waiting);
    free(w->tell.calls);
}

void tell_add(struct worker *w, const struct result *result)
{
    struct tell *t = &w->tell;
    if (away(w) || t->n == TELL_MAX) {
        marks_add(w, result->id, false);
        return;
    }
    t->waiting[t->n++] = *result;
    if (t->n == TELL_CALLS * RESULTS_MAX && t->under_way == 0)
        begin_calls(w);
    else if (t->n == 1)
        sched_set_in(w->sched, &t->timer, TELL_WAIT_US);
}

void tell_flush(struct worker *w)
{
    begin_calls(w);
}

bool tell_idle(const struct worker *w)
{
    return w->tell.n == 0 && w->tell.under_way == 0;
}
