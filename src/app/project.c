#include "app/project.h"

#include "app/worker.h"
#include "base/crashpoint.h"
#include "base/panic.h"
#include <stdlib.h>

enum { IDLE, READ, PICK, PUBLISH, MARK, STATES };

static struct worker *worker_of(struct flow *f)
{
    return container_of(f, struct worker, project.flow);
}

static void on_job_done(struct job *j)
{
    flow_resume(&container_of(j, struct project, job)->flow);
}

static void on_time(struct timer *t)
{
    flow_resume(&container_of(t, struct project, timer)->flow);
}

static enum flow_result rest(struct worker *w, int64_t delay_us)
{
    struct project *p = &w->project;
    flow_goto(&p->flow, IDLE);
    if (!p->stopped)
        sched_set_in(w->sched, &p->timer, delay_us);
    worker_changed(w);
    return FLOW_WAIT;
}

/* False: it does not run, and on_done does not come. */
static bool submit(struct worker *w, void (*run)(struct job *, struct orders *))
{
    struct project *p = &w->project;
    p->job = (struct job){.run = run, .on_done = on_job_done};
    p->rc = ERR_OVERLOAD;
    ctx_init(&p->ctx, &w->root, w->sched->now_us + w->cfg.tx_budget_us);
    return w->upkeep->ops->submit(w->upkeep, &p->job) == 0;
}

static void run_read(struct job *j, struct orders *o)
{
    struct project *p = container_of(j, struct project, job);
    const struct worker *w = container_of(p, struct worker, project);
    if (p->looking)
        p->rc = o->ops->unpublished_backlog(o, &p->ctx, PROJECT_COUNT_MAX, &p->backlog);
    if (p->looking && p->rc < 0)
        return;
    p->n = w->cfg.results_batch;
    p->rc = o->ops->unpublished(o, &p->ctx, PROJECT_CLAIM_MS, p->rows, &p->n);
}

static enum flow_result step_idle(struct flow *f)
{
    struct worker *w = worker_of(f);
    struct project *p = &w->project;
    if (p->stopped)
        return FLOW_WAIT;
    p->n = p->n_arrived = 0;
    p->away = false;
    p->looking = w->sched->now_us - p->looked_us >= PROJECT_LOOK_US;
    if (!health_usable(w) || !submit(w, run_read)) {
        sched_set_in(w->sched, &p->timer, w->cfg.results_interval_us);
        return FLOW_WAIT;
    }
    flow_goto(f, READ);
    return FLOW_WAIT;
}

static void show_backlog(struct worker *w)
{
    struct project *p = &w->project;
    p->looked_us = w->sched->now_us;
    if (p->rc < 0) {
        metric_set_unknown(w->metrics.results_waiting);
        metric_set_unknown(w->metrics.results_age);
        return;
    }
    metric_set(w->metrics.results_waiting, p->backlog.waiting);
    metric_set(w->metrics.results_age, (p->backlog.oldest_age_ms + 999) / 1000);
}

static enum flow_result step_read(struct flow *f)
{
    struct worker *w = worker_of(f);
    struct project *p = &w->project;
    if (p->looking)
        show_backlog(w);
    if (p->rc < 0 || p->n == 0 || w->canceled)
        return rest(w, w->cfg.results_interval_us);
    memset(p->done, 0, (size_t)p->n * sizeof p->done[0]);
    flow_goto(f, PICK);
    return FLOW_NEXT;
}

static void on_published(struct op *op, int rc)
{
    struct project *p = container_of(op, struct project, publish.op);
    struct worker *w = container_of(p, struct worker, project);
    p->rc = rc;
    flow_resume(&p->flow);
    worker_op_ended(w);
}

static void run_mark(struct job *j, struct orders *o)
{
    struct project *p = container_of(j, struct project, job);
    crashpoint("before_mark_published");
    p->rc = o->ops->mark_published(o, &p->ctx, p->arrived, p->n_arrived);
}

static enum flow_result end_round(struct worker *w)
{
    struct project *p = &w->project;
    int64_t least_us = w->cfg.results_interval_us;
    if (p->away) {
        p->backoff_us = p->backoff_us ? 2 * p->backoff_us : least_us;
        if (p->backoff_us > PROJECT_BACKOFF_US)
            p->backoff_us = PROJECT_BACKOFF_US;
        return rest(w, p->backoff_us);
    }
    p->backoff_us = 0;
    bool more = p->n == w->cfg.results_batch && p->n_arrived > 0;
    return rest(w, more && least_us > PROJECT_AGAIN_US ? PROJECT_AGAIN_US : least_us);
}

static enum flow_result step_pick(struct flow *f)
{
    struct worker *w = worker_of(f);
    struct project *p = &w->project;
    int first = 0;
    while (first < p->n && p->done[first])
        first++;
    if (first == p->n || p->away || w->canceled) {
        if (p->n_arrived == 0 || w->canceled || !submit(w, run_mark))
            return end_round(w);
        flow_goto(f, MARK);
        return FLOW_WAIT;
    }
    struct results_publish *b = &p->publish;
    *b = (struct results_publish){.op = {on_published, worker_store_deadline(w)},
                                  .item = p->rows[first].item,
                                  .rows = p->batch};
    for (int i = first; i < p->n && b->n < RESULTS_MAX; i++) {
        if (p->done[i] || !item_eq(p->rows[i].item, b->item))
            continue;
        p->done[i] = true;
        b->rows[b->n++] = (struct results_row){.result = p->rows[i]};
    }
    flow_goto(f, PUBLISH);
    worker_op_begun(w);
    w->results->ops->publish(w->results, b);
    return FLOW_WAIT;
}

void project_note(struct worker *w, const struct results_publish *publish, int rc, int told)
{
    int lost = publish->n - told;
    static struct log_limit limit;
    uint64_t more;
    metric_add(w->metrics.results_published, (uint64_t)told);
    metric_add(w->metrics.results_failures, (uint64_t)lost);
    if (lost > 0 && log_allowed(&limit, w->sched->now_us, &more))
        log_warn("results not published; they come again",
                 LOG_I("activity_id", publish->item.activity_id),
                 LOG_I("sku_id", publish->item.sku_id), LOG_I("rows", lost),
                 LOG_Z("error_kind", rc < 0 ? err_name(rc) : "some"), LOG_Z("outcome", "retry"),
                 LOG_B("retryable", true), LOG_I("suppressed", (int64_t)more));
}

static enum flow_result step_publish(struct flow *f)
{
    struct worker *w = worker_of(f);
    struct project *p = &w->project;
    int told = 0;
    crashpoint("after_publish_results");
    for (int i = 0; i < p->publish.n; i++) {
        if (p->rc < 0 || !p->batch[i].published)
            continue;
        p->arrived[p->n_arrived++] = p->batch[i].result.id;
        told++;
    }
    p->away = project_topic_away(p->rc);
    project_note(w, &p->publish, p->rc, told);
    flow_goto(f, PICK);
    return FLOW_NEXT;
}

/* Not marked: published once more. */
static enum flow_result step_mark(struct flow *f)
{
    struct worker *w = worker_of(f);
    if (w->project.rc < 0)
        metric_add(w->metrics.results_unmarked, (uint64_t)w->project.n_arrived);
    return end_round(w);
}

static const struct flow_state states[STATES] = {
    [IDLE] = {"IDLE", FLOW_TO(READ), step_idle},
    [READ] = {"READ", FLOW_TO(PICK) | FLOW_TO(IDLE), step_read},
    [PICK] = {"PICK", FLOW_TO(PUBLISH) | FLOW_TO(MARK) | FLOW_TO(IDLE), step_pick},
    [PUBLISH] = {"PUBLISH", FLOW_TO(PICK), step_publish},
    [MARK] = {"MARK", FLOW_TO(IDLE), step_mark},
};
static const struct flow_kind kind = {"project", STATES, states};

void project_start(struct worker *w)
{
    struct project *p = &w->project;
    if (!w->results)
        return;
    *p =
        (struct project){.timer.on_fire = on_time, .looked_us = w->sched->now_us - PROJECT_LOOK_US};
    if (w->cfg.results_batch < 1 || w->cfg.results_batch > PROJECT_READ_MAX)
        panic("results_batch %d", w->cfg.results_batch);
    p->rows = malloc(PROJECT_READ_MAX * sizeof p->rows[0]);
    p->done = malloc(PROJECT_READ_MAX * sizeof p->done[0]);
    p->arrived = malloc(PROJECT_READ_MAX * sizeof p->arrived[0]);
    p->batch = malloc(RESULTS_MAX * sizeof p->batch[0]);
    if (!p->rows || !p->done || !p->arrived || !p->batch)
        panic("no memory for the projection");
    flow_start(&p->flow, &kind, IDLE);
}

void project_stop(struct worker *w)
{
    w->project.stopped = true;
    sched_clear(w->sched, &w->project.timer);
}

bool project_idle(const struct worker *w)
{
    return !w->project.flow.kind || w->project.flow.state == IDLE;
}

void project_deinit(struct worker *w)
{
    struct project *p = &w->project;
    free(p->rows);
    free(p->done);
    free(p->arrived);
    free(p->batch);
}
