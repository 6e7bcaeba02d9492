#include "app/place.h"

#include "app/burial.h"
#include "app/command.h"
#include "app/disposal.h"
#include "app/finish.h"
#include "app/worker.h"
#include "base/crashpoint.h"
#include "base/panic.h"
#include "core/retry.h"
#include <stdlib.h>

enum { PICK, RUN, JUDGE, PAUSE, BLAME, COUNT, END, STATES };

static struct batch *batch_of(struct flow *f)
{
    return container_of(f, struct batch, flow);
}

static void push_part(struct batch *b, int from, int n)
{
    if (b->n_parts == PLACE_PARTS_MAX)
        panic("place: too many parts");
    b->parts[b->n_parts++] = (struct place_part){from, n};
}

/* The messages of the current part whose lease is (nearly) over leave it: whatever the process was
 * doing meanwhile, another worker may have them now. They move to the end of the part. */
static void drop_late(struct batch *b)
{
    struct worker *w = b->w;
    for (int i = b->at.from; i < b->at.from + b->at.n;) {
        struct work *k = b->works[i];
        if (w->sched->now_us < hand_deadline_us(k)) {
            i++;
            continue;
        }
        b->works[i] = b->works[b->at.from + --b->at.n];
        worker_outcome(k, OUTCOME_DROPPED);
        hand_put(k);
    }
}

static enum flow_result step_pick(struct flow *f)
{
    struct batch *b = batch_of(f);
    while (b->n_parts > 0) {
        b->at = b->parts[--b->n_parts];
        drop_late(b);
        if (b->at.n == 0)
            continue;
        b->tries = 0;
        b->first_try_us = b->w->sched->now_us;
        retry_budget_call(&b->w->health.retries, b->first_try_us);
        flow_goto(f, RUN);
        return FLOW_NEXT;
    }
    flow_goto(f, BLAME);
    return FLOW_NEXT;
}

static void fill_row(struct orders_row *r, const struct event *e)
{
    *r = (struct orders_row){.message_id = e->message_id,
                             .request_id = e->request_id,
                             .reservation_id = e->reservation_id,
                             .user_id = e->user_id,
                             .order_id = e->order_id,
                             .created_at_ms = e->created_at_us / 1000,
                             .version = e->version};
}

static void run_place(struct share_job *j, struct orders *o)
{
    struct batch *b = container_of(j, struct batch, job);
    if (b->command != EVENT_CREATE) {
        j->rc =
            command_run(o, &b->ctx, b->item, b->command, &b->commands[b->at.from], b->at.n, false);
        return;
    }
    struct orders_row *rows = &b->rows[b->at.from];
    crashpoint("before_place");
    for (int i = 0; i < b->at.n; i++)
        crashpoint_for("place_message", rows[i].user_id);
    j->rc = o->ops->place(o, &b->ctx, b->item, rows, b->at.n, &b->timing);
    crashpoint("after_place");
}

static void on_job_done(struct share_job *j)
{
    flow_resume(&container_of(j, struct batch, job)->flow);
}

static void submit(struct batch *b, void (*run)(struct share_job *, struct orders *),
                   int64_t deadline_us)
{
    ctx_init(&b->ctx, &b->w->root, deadline_us);
    b->job.class = SHARE_ORDERS;
    b->job.run = run;
    b->job.on_done = on_job_done;
    share_submit(b->w, &b->job);
}

static enum flow_result step_run(struct flow *f)
{
    struct batch *b = batch_of(f);
    int64_t deadline = b->first_try_us + b->w->cfg.tx_budget_us;
    for (int i = b->at.from; i < b->at.from + b->at.n; i++) {
        if (b->command == EVENT_CREATE)
            fill_row(&b->rows[i], &b->works[i]->e);
        else
            command_fill(&b->commands[i], &b->works[i]->e, b->works[i]->m->body);
        int64_t lease = hand_deadline_us(b->works[i]);
        deadline = lease < deadline ? lease : deadline;
    }
    b->tries++;
    metric_observe(b->w->metrics.tx_size, b->at.n);
    flow_goto(f, JUDGE);
    submit(b, run_place, deadline);
    return FLOW_WAIT;
}

static bool timed_out(const struct batch *b)
{
    return b->job.rc == ERR_DEADLINE ||
           (b->job.rc == ERR_UNCERTAIN && b->w->sched->now_us >= b->ctx.deadline_us);
}

/* What the size of the next batches learns from this one. Nothing from a call that failed for
 * another reason, nor from one that the end of a lease cut short. */
static void note_size(struct batch *b)
{
    struct worker *w = b->w;
    int64_t took = w->sched->now_us - b->job.started_us;
    bool late = timed_out(b) && took > w->cfg.batch_target_us;
    if (b->job.rc >= 0 || late)
        batch_limit_took(&w->batch_limit, b->at.n, took, late);
    metric_set(w->metrics.batch_limit, batch_limit_now(&w->batch_limit));
}

/* Too much at once: what is still to do waits in its lane, where its leases are prolonged, for
 * smaller batches with the same ids. The first one begins as soon as this one has ended. */
static void back_to_lane(struct batch *b)
{
    push_part(b, b->at.from, b->at.n);
    for (int p = 0; p < b->n_parts; p++) { /* the last of the stack comes first in the lane */
        for (int i = b->parts[p].n - 1; i >= 0; i--)
            worker_return(b->works[b->parts[p].from + i]);
    }
    b->n_parts = 0;
}

/* Everything that is not committed or blamed goes back: an outage is nobody's fault. */
static void give_back_rest(struct batch *b)
{
    for (;;) {
        int n = 0;
        struct work *ks[PLACE_BATCH_MAX];
        int deliveries = 1;
        for (int i = b->at.from; i < b->at.from + b->at.n; i++) {
            struct work *k = b->works[i];
            ks[n++] = k;
            deliveries = k->m->deliveries > deliveries ? k->m->deliveries : deliveries;
            worker_outcome(k, OUTCOME_RETRY);
        }
        if (n > 0)
            disposal_retry_later(b->w, b->item, ks, n, deliveries);
        if (b->n_parts == 0)
            break;
        b->at = b->parts[--b->n_parts];
    }
}

static bool may_repeat(struct batch *b, int rc)
{
    struct worker *w = b->w;
    int cause = rc == ERR_CONFLICT ? 0 : rc == ERR_UNCERTAIN ? 1 : rc == ERR_UNAVAIL ? 2 : -1;
    if (cause < 0 || b->tries >= w->cfg.tx_attempts || !worker_may_place(w) ||
        w->sched->now_us - b->first_try_us >= w->cfg.tx_budget_us ||
        !retry_budget_take(&w->health.retries, w->sched->now_us))
        return false;
    metric_add(w->metrics.tx_retries[cause], 1);
    return true;
}

static void on_pause(struct timer *t)
{
    flow_resume(&container_of(t, struct batch, pause)->flow);
}

static void blame(struct batch *b, struct work *k)
{
    b->blamed[b->n_blamed++] = k;
}

static enum flow_result step_judge(struct flow *f)
{
    struct batch *b = batch_of(f);
    struct worker *w = b->w;
    int rc = b->job.rc, from = b->at.from, n = b->at.n;
    note_size(b);
    /* Of many rows that took too long together nobody knows whether PostgreSQL is slow or away. */
    bool too_large = n > 1 && timed_out(b) && worker_may_place(w);
    if (!too_large)
        health_saw(w, rc);
    if (rc >= 0) {
        b->any_ok = true;
        lanes_done(w, b->item);
        if (b->command == EVENT_CREATE)
            finish_start(w, b->item, &b->works[from], &b->rows[from], n);
        else
            command_finish(w, b->item, &b->works[from], &b->commands[from], n);
        flow_goto(f, PICK);
        return FLOW_NEXT;
    }
    for (int i = from; b->command == EVENT_CREATE && err_is_unknown(rc) && i < from + n; i++)
        unsure_add(&w->unsure, &b->works[i]->e.message_id);
    if (rc == ERR_INVALID) {
        flow_goto(f, PICK);
        if (n == 1) {
            blame(b, b->works[from]);
        } else {
            b->halved = true;
            push_part(b, from + n / 2, n - n / 2);
            push_part(b, from, n / 2);
        }
        return FLOW_NEXT;
    }
    if (rc == ERR_NOTFOUND) { /* of an item that is none: no need to find out whose fault it is */
        for (int i = from; i < from + n; i++)
            blame(b, b->works[i]);
        flow_goto(f, PICK);
        return FLOW_NEXT;
    }
    if (may_repeat(b, rc)) {
        flow_goto(f, PAUSE);
        sched_set_in(
            w->sched, &b->pause,
            retry_delay_us(&w->rng, w->cfg.retry_base_us, w->cfg.retry_max_us, b->tries - 1));
        return FLOW_WAIT;
    }
    if (too_large) {
        metric_add(w->metrics.tx_split, 1);
        static struct log_limit split;
        uint64_t before;
        if (log_allowed(&split, w->sched->now_us, &before))
            log_warn("order transaction took too long; its messages go into smaller ones",
                     LOG_I("activity_id", b->item.activity_id), LOG_I("sku_id", b->item.sku_id),
                     LOG_Z("error_kind", err_name(rc)), LOG_I("messages", n),
                     LOG_I("suppressed", (int64_t)before));
        back_to_lane(b);
        flow_goto(f, BLAME);
        return FLOW_NEXT;
    }
    static struct log_limit limit;
    uint64_t more;
    if (log_allowed(&limit, w->sched->now_us, &more))
        log_warn("order transaction given up; its messages go back",
                 LOG_Z("consumer_group", EVENT_GROUP), LOG_I("activity_id", b->item.activity_id),
                 LOG_I("sku_id", b->item.sku_id), LOG_Z("error_kind", err_name(rc)),
                 LOG_I("messages", n), LOG_I("retry_attempt", b->tries), LOG_Z("outcome", "retry"),
                 LOG_B("retryable", true),
                 LOG_I("duration_ms", (w->sched->now_us - b->first_try_us) / 1000),
                 LOG_I("suppressed", (int64_t)more));
    give_back_rest(b);
    flow_goto(f, BLAME);
    return FLOW_NEXT;
}

/* The pause is over: what became late during it leaves, the rest runs again with the same ids. */
static enum flow_result step_pause(struct flow *f)
{
    struct batch *b = batch_of(f);
    drop_late(b);
    flow_goto(f, b->at.n > 0 ? RUN : PICK);
    return FLOW_NEXT;
}

static void run_count(struct share_job *j, struct orders *o)
{
    struct batch *b = container_of(j, struct batch, job);
    crashpoint("before_count_attempts");
    j->rc = o->ops->count_attempts(o, &b->ctx, b->ids, "order_function", b->counts, b->n_blamed);
}

static enum flow_result step_blame(struct flow *f)
{
    struct batch *b = batch_of(f);
    struct worker *w = b->w;
    /* Rule 20: when all fail alike it is not theirs – nor is it when an outage cut the search
     * short before anything went well. */
    if (b->n_blamed == 0 || (b->halved && !b->any_ok)) {
        if (b->n_blamed > 0) {
            for (int i = 0; i < b->n_blamed; i++)
                worker_outcome(b->blamed[i], OUTCOME_RETRY);
            log_error("all messages of a batch fail alike; none is counted",
                      LOG_Z("consumer_group", EVENT_GROUP),
                      LOG_I("activity_id", b->item.activity_id), LOG_I("sku_id", b->item.sku_id),
                      LOG_I("messages", b->n_blamed), LOG_Z("error_kind", err_name(ERR_INVALID)),
                      LOG_Z("outcome", "retry"), LOG_B("retryable", true));
            disposal_retry_later(w, b->item, b->blamed, b->n_blamed, b->blamed[0]->m->deliveries);
            health_saw(w, ERR_INTERNAL);
        }
        flow_goto(f, END);
        return FLOW_NEXT;
    }
    for (int i = 0; i < b->n_blamed; i++)
        b->ids[i] = b->blamed[i]->e.message_id;
    flow_goto(f, COUNT);
    submit(b, run_count, w->sched->now_us + w->cfg.tx_budget_us);
    return FLOW_WAIT;
}

static enum flow_result step_count(struct flow *f)
{
    struct batch *b = batch_of(f);
    struct worker *w = b->w;
    int rc = b->job.rc;
    for (int i = 0; i < b->n_blamed; i++) {
        struct work *k = b->blamed[i];
        int count = rc < 0 ? 1 : b->counts[i];
        bool buried = rc >= 0 && count >= w->cfg.max_attempts;
        log_warn("message failed by its own fault", LOG_EVENT(k),
                 LOG_I("delivery_attempt", k->m->deliveries), LOG_I("retry_attempt", count),
                 LOG_B("counted", rc >= 0), LOG_Z("error_kind", err_name(ERR_INVALID)),
                 LOG_Z("outcome", buried ? "quarantined" : "failed"), LOG_B("retryable", !buried));
        if (buried) {
            burial_start(k, "failed by its own fault too often", NULL);
            continue;
        }
        worker_outcome(k, OUTCOME_FAILED);
        disposal_retry_later(w, b->item, &k, 1, count);
    }
    flow_goto(f, END);
    return FLOW_NEXT;
}

static enum flow_result step_end(struct flow *f)
{
    (void)f;
    return FLOW_DONE;
}

static void on_flow_end(struct flow *f)
{
    struct batch *b = batch_of(f);
    b->on_end(b);
    free(b->works);
    free(b->rows);
    free(b->commands);
    free(b->ids);
    free(b->counts);
    free(b);
}

static const struct flow_state states[STATES] = {
    [PICK] = {"PICK", FLOW_TO(RUN) | FLOW_TO(BLAME), step_pick},
    [RUN] = {"RUN", FLOW_TO(JUDGE), step_run},
    [JUDGE] = {"JUDGE", FLOW_TO(PICK) | FLOW_TO(PAUSE) | FLOW_TO(BLAME), step_judge},
    [PAUSE] = {"PAUSE", FLOW_TO(RUN) | FLOW_TO(PICK), step_pause},
    [BLAME] = {"BLAME", FLOW_TO(COUNT) | FLOW_TO(END), step_blame},
    [COUNT] = {"COUNT", FLOW_TO(END), step_count},
    [END] = {"END", 0, step_end},
};
static const struct flow_kind kind = {"place", STATES, states, .on_end = on_flow_end};

void place_start(struct worker *w, struct item item, struct work **works, int n,
                 void (*on_end)(struct batch *b))
{
    enum event_command command = works[0]->e.command;
    bool creates = command == EVENT_CREATE;
    struct batch *b = calloc(1, sizeof *b);
    struct orders_row *rows = creates ? calloc((size_t)n, sizeof rows[0]) : NULL;
    struct orders_command *commands = creates ? NULL : calloc((size_t)n, sizeof commands[0]);
    struct work **pointers = calloc(2 * (size_t)n, sizeof pointers[0]);
    struct uuid *ids = calloc((size_t)n, sizeof ids[0]);
    int *counts = calloc((size_t)n, sizeof counts[0]);
    if (!b || !(rows || commands) || !pointers || !ids || !counts)
        panic("no memory for a batch of %d", n);
    *b = (struct batch){.w = w,
                        .item = item,
                        .command = command,
                        .on_end = on_end,
                        .n = n,
                        .rows = rows,
                        .commands = commands,
                        .pause.on_fire = on_pause};
    b->works = pointers;
    b->blamed = pointers + n;
    b->ids = ids;
    b->counts = counts;
    memcpy(b->works, works, (size_t)n * sizeof works[0]);
    push_part(b, 0, n);
    flow_start(&b->flow, &kind, PICK);
}
