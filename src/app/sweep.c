#include "app/sweep.h"

#include "app/command.h"
#include "app/worker.h"
#include "base/crashpoint.h"
#include "base/panic.h"
#include <stdlib.h>

enum { IDLE, PARKED, EXPIRE, PICK, SETTLE, STATES };

/* A payment is accepted a moment before its message is in the queue; clocks differ by little; the
 * backlog was asked for a call ago. */
#define SLACK_MS 2000

struct sweep_command {
    struct event e; /* views into the parked row's body */
    struct orders_command row;
    bool give_up, done;
    int rc;
};

static struct worker *worker_of(struct flow *f)
{
    return container_of(f, struct worker, sweep.flow);
}

static struct worker *worker_of_job(struct share_job *j)
{
    return container_of(j, struct worker, sweep.job);
}

static void on_job_done(struct share_job *j)
{
    flow_resume(&worker_of_job(j)->sweep.flow);
}

static void on_time(struct timer *t)
{
    flow_resume(&container_of(t, struct sweep, timer)->flow);
}

static void submit(struct worker *w, void (*run)(struct share_job *, struct orders *))
{
    struct sweep *s = &w->sweep;
    s->job = (struct share_job){
        .class = SHARE_BACK, .run = run, .on_done = on_job_done, .rc = ERR_OVERLOAD};
    ctx_init(&s->ctx, &w->root, w->sched->now_us + w->cfg.tx_budget_us);
    share_submit(w, &s->job);
}

static enum flow_result rest(struct worker *w, int64_t delay_us)
{
    struct sweep *s = &w->sweep;
    flow_goto(&s->flow, IDLE);
    if (!s->stopped)
        sched_set_in(w->sched, &s->timer, delay_us);
    worker_changed(w);
    return FLOW_WAIT;
}

static void note_failure(struct worker *w, const char *what, int rc)
{
    static struct log_limit limit;
    uint64_t more;
    metric_add(w->metrics.sweep_failures, 1);
    if (log_allowed(&limit, w->sched->now_us, &more))
        log_warn("sweep failed; its turn comes again", LOG_Z("part", what),
                 LOG_Z("error_kind", err_name(rc)), LOG_B("retryable", true),
                 LOG_I("suppressed", (int64_t)more));
}

static void note_faulty(struct worker *w)
{
    const struct sweep *s = &w->sweep;
    metric_add(w->metrics.dead_letters, (uint64_t)s->quarantined);
    if (s->quarantined > 0)
        log_error("parked commands quarantined", LOG_I("messages", s->quarantined),
                  LOG_UUID("message_id", &s->faulty[0]), LOG_B("retryable", false));
    note_failure(w, "parked", ERR_INVALID);
}

/* --- parked commands --- */

static int read_parked(struct worker *w, struct orders *o)
{
    struct sweep *s = &w->sweep;
    int n = ORDERS_PARKED_MAX;
    int rc = o->ops->parked(o, &s->ctx, w->cfg.parked_give_up_us / 1000, s->parked, &n);
    s->full = rc >= 0 && n == ORDERS_PARKED_MAX;
    s->n_commands = 0;
    for (int i = 0; rc >= 0 && i < n; i++) {
        struct sweep_command *c = &s->commands[s->n_commands];
        struct str body = {s->parked[i].body, s->parked[i].body_len};
        const char *why;
        *c = (struct sweep_command){.give_up = s->parked[i].given_up};
        /* It was read when it was parked; else a newer version wrote it. */
        if (event_decode(body, &c->e, &why) < 0 || c->e.command == EVENT_CREATE ||
            !uuid_eq(&c->e.message_id, &s->parked[i].message_id)) {
            s->faulty[s->n_faulty++] = s->parked[i].message_id;
            continue;
        }
        command_fill(&c->row, &c->e, body);
        s->n_commands++;
    }
    return rc;
}

static bool together(const struct sweep_command *a, const struct sweep_command *b)
{
    return item_eq(a->e.item, b->e.item) && a->e.command == b->e.command &&
           a->give_up == b->give_up;
}

/* Those that may be together, in one call; if it is somebody's own fault, one by one. */
static int run_group(struct sweep *s, struct orders *o, int first)
{
    struct orders_command rows[ORDERS_PARKED_MAX];
    int at[ORDERS_PARKED_MAX], n = 0;
    const struct sweep_command *f = &s->commands[first];
    for (int i = first; i < s->n_commands; i++) {
        if (s->commands[i].done || !together(&s->commands[i], f))
            continue;
        s->commands[i].done = true;
        at[n] = i;
        rows[n++] = s->commands[i].row;
    }
    int rc = command_run(o, &s->ctx, f->e.item, f->e.command, rows, n, f->give_up);
    bool single = n > 1 && rc == ERR_INVALID;
    int faults = 0;
    for (int i = 0; i < n; i++) {
        struct sweep_command *c = &s->commands[at[i]];
        c->rc =
            single ? command_run(o, &s->ctx, f->e.item, f->e.command, &rows[i], 1, f->give_up) : rc;
        c->row = rows[i];
        faults += c->rc == ERR_INVALID;
    }
    /* Rule 20: when all of several fail alike, it is none's. */
    for (int i = 0; i < n && (n == 1 || faults < n); i++) {
        if (s->commands[at[i]].rc == ERR_INVALID)
            s->faulty[s->n_faulty++] = s->commands[at[i]].e.message_id;
    }
    return rc == ERR_INVALID ? 0 : rc; /* the others' turn comes all the same */
}

static void run_parked(struct share_job *j, struct orders *o)
{
    struct worker *w = worker_of_job(j);
    struct sweep *s = &w->sweep;
    j->rc = read_parked(w, o);
    for (int i = 0; j->rc >= 0 && i < s->n_commands; i++) {
        if (!s->commands[i].done)
            j->rc = run_group(s, o, i);
    }
    if (j->rc >= 0 && s->n_faulty > 0)
        j->rc = o->ops->parked_failed(o, &s->ctx, s->faulty, s->n_faulty, "parked_command",
                                      w->cfg.max_attempts, &s->quarantined);
}

static void take_end(struct sweep *s, const struct sweep_command *c)
{
    const struct orders_command *r = &c->row;
    struct stock_settle_row row = command_settle_row(r);
    s->ends[s->n_ends++] = (struct orders_unsettled){.outbox_id = r->outbox_id,
                                                     .item = c->e.item,
                                                     .user_id = row.user_id,
                                                     .request_id = row.request_id,
                                                     .reservation_id = row.reservation_id,
                                                     .verdict = row.verdict,
                                                     .give_back = row.give_back};
}

static enum flow_result step_idle(struct flow *f)
{
    struct worker *w = worker_of(f);
    struct sweep *s = &w->sweep;
    if (s->stopped)
        return FLOW_WAIT;
    if (!health_usable(w)) {
        sched_set_in(w->sched, &s->timer, SWEEP_US);
        return FLOW_WAIT;
    }
    s->n_ends = s->n_commands = s->n_faulty = s->quarantined = 0;
    s->full = false;
    flow_goto(f, PARKED);
    submit(w, run_parked);
    return FLOW_WAIT;
}

/* --- unpaid orders --- */

/* Nor before recovery has looked for payments that the queue may have lost. */
static int64_t not_after_ms(struct worker *w, struct item item, int64_t created_before_ms)
{
    int64_t looked_ms = catalog_commands_until_ms(w, item);
    if (looked_ms == 0)
        return 0;
    int64_t known_ms = looked_ms - w->cfg.unpaid_us / 1000 - SLACK_MS;
    return known_ms < created_before_ms ? known_ms : created_before_ms;
}

int64_t sweep_created_before_ms(struct worker *w, struct item item)
{
    const struct catalog_backlog *b = catalog_backlog(w, item);
    int64_t paid_until_ms = worker_wall_ms(w) - w->cfg.unpaid_us / 1000 - SLACK_MS;
    /* A queue that tells of its positions tells of what all consumers hold, too. */
    int64_t fleet_ms = w->catalog.one_queue ? health_fleet_age_ms(w) : 0;
    if (!b || fleet_ms < 0)
        return not_after_ms(w, item, paid_until_ms - w->cfg.max_hold_us / 1000); /* rule 31 */
    if (w->catalog.one_queue)
        paid_until_ms -= 2 * HEALTH_BEAT_US / 1000; /* what was taken since the last beat */
    int64_t oldest_ms = b->oldest_age_ms > fleet_ms ? b->oldest_age_ms : fleet_ms;
    return not_after_ms(w, item, paid_until_ms - oldest_ms - (w->sched->now_us - b->at_us) / 1000);
}

static void run_expire(struct share_job *j, struct orders *o)
{
    struct worker *w = worker_of_job(j);
    struct sweep *s = &w->sweep;
    j->rc = 0;
    for (s->looked_at = 0; s->looked_at < s->n_items && s->n_ends < SWEEP_ENDS; s->looked_at++) {
        const struct sweep_item *it = &s->items[s->looked_at];
        int n = SWEEP_ENDS - s->n_ends;
        crashpoint("before_expire");
        j->rc = o->ops->expire(o, &s->ctx, it->item, it->created_before_ms, w->cfg.unpaid_us / 1000,
                               &s->ends[s->n_ends], &n);
        if (j->rc < 0)
            return;
        crashpoint("after_expire");
        s->n_ends += n;
    }
}

static void choose_items(struct worker *w)
{
    struct sweep *s = &w->sweep;
    const struct catalog *c = &w->catalog;
    s->n_items = c->n < SWEEP_ITEMS ? c->n : SWEEP_ITEMS;
    for (int i = 0; i < s->n_items; i++) {
        struct item item = c->items[(s->next_item + i) % c->n].item;
        s->items[i] = (struct sweep_item){item, sweep_created_before_ms(w, item)};
    }
}

static enum flow_result step_parked(struct flow *f)
{
    struct worker *w = worker_of(f);
    struct sweep *s = &w->sweep;
    if (s->job.rc < 0)
        note_failure(w, "parked", s->job.rc);
    if (s->n_faulty > 0)
        note_faulty(w);
    for (int i = 0; i < s->n_commands; i++) {
        const struct sweep_command *c = &s->commands[i];
        if (!c->done || c->rc < 0)
            continue;
        command_note(w, &c->e, &c->row);
        command_tell_refusal(w, &c->e, &c->row);
        if (c->row.outbox_id)
            take_end(s, c);
    }
    flow_goto(f, w->canceled ? PICK : EXPIRE);
    if (w->canceled)
        return FLOW_NEXT;
    choose_items(w);
    submit(w, run_expire);
    return FLOW_WAIT;
}

static enum flow_result step_expire(struct flow *f)
{
    struct worker *w = worker_of(f);
    struct sweep *s = &w->sweep;
    if (s->job.rc < 0)
        note_failure(w, "unpaid", s->job.rc);
    /* One that fails is passed over, so that it does not stop the others. */
    s->next_item += s->looked_at < s->n_items ? s->looked_at + (s->job.rc < 0) : s->n_items;
    s->next_item = w->catalog.n > 0 ? s->next_item % w->catalog.n : 0;
    for (int i = 0; i < s->n_ends; i++)
        metric_add(w->metrics.expired, s->ends[i].verdict.reason == REASON_EXPIRED);
    s->full |= s->n_ends == SWEEP_ENDS;
    memset(s->taken, 0, SWEEP_ENDS * sizeof s->taken[0]);
    flow_goto(f, PICK);
    return FLOW_NEXT;
}

/* --- what ended --- */

static void on_settled(struct settling *s)
{
    flow_resume(&container_of(s, struct worker, sweep.settling)->sweep.flow);
}

static enum flow_result step_pick(struct flow *f)
{
    struct worker *w = worker_of(f);
    struct sweep *s = &w->sweep;
    int first = 0;
    while (first < s->n_ends && s->taken[first])
        first++;
    if (first == s->n_ends || w->canceled)
        return rest(w, s->full ? SWEEP_AGAIN_US : SWEEP_US);
    settling_init(&s->settling, w, s->ends[first].item, SWEEP_ENDS, on_settled);
    for (int i = first; i < s->n_ends; i++) {
        const struct orders_unsettled *u = &s->ends[i];
        if (s->taken[i] || !item_eq(u->item, s->ends[first].item))
            continue;
        s->taken[i] = true;
        settling_add(&s->settling,
                     &(struct stock_settle_row){.user_id = u->user_id,
                                                .request_id = u->request_id,
                                                .reservation_id = u->reservation_id,
                                                .verdict = u->verdict,
                                                .give_back = u->give_back},
                     u->outbox_id);
    }
    flow_goto(f, SETTLE);
    settling_send(&s->settling);
    return FLOW_WAIT;
}

static enum flow_result step_settle(struct flow *f)
{
    struct worker *w = worker_of(f);
    struct sweep *s = &w->sweep;
    crashpoint("expire_after_settle");
    for (int i = 0; i < s->settling.n; i++) {
        if (settling_took(&s->settling, i))
            marks_add(w, s->settling.ids[i], false);
    }
    settling_deinit(&s->settling);
    flow_goto(f, PICK);
    return FLOW_NEXT;
}

static const struct flow_state states[STATES] = {
    [IDLE] = {"IDLE", FLOW_TO(PARKED), step_idle},
    [PARKED] = {"PARKED", FLOW_TO(EXPIRE) | FLOW_TO(PICK), step_parked},
    [EXPIRE] = {"EXPIRE", FLOW_TO(PICK), step_expire},
    [PICK] = {"PICK", FLOW_TO(SETTLE) | FLOW_TO(IDLE), step_pick},
    [SETTLE] = {"SETTLE", FLOW_TO(PICK), step_settle},
};
static const struct flow_kind kind = {"sweep", STATES, states};

void sweep_start(struct worker *w)
{
    struct sweep *s = &w->sweep;
    *s = (struct sweep){.timer.on_fire = on_time};
    s->parked = malloc(ORDERS_PARKED_MAX * sizeof s->parked[0]);
    s->commands = malloc(ORDERS_PARKED_MAX * sizeof s->commands[0]);
    s->faulty = malloc(ORDERS_PARKED_MAX * sizeof s->faulty[0]);
    s->ends = malloc(SWEEP_ENDS * sizeof s->ends[0]);
    s->taken = calloc(SWEEP_ENDS, sizeof s->taken[0]);
    if (!s->parked || !s->commands || !s->faulty || !s->ends || !s->taken)
        panic("no memory for the sweep");
    flow_start(&s->flow, &kind, IDLE);
}

void sweep_stop(struct worker *w)
{
    w->sweep.stopped = true;
    sched_clear(w->sched, &w->sweep.timer);
}

bool sweep_idle(const struct worker *w)
{
    return !w->sweep.flow.kind || w->sweep.flow.state == IDLE;
}

void sweep_deinit(struct worker *w)
{
    struct sweep *s = &w->sweep;
    free(s->parked);
    free(s->commands);
    free(s->faulty);
    free(s->ends);
    free(s->taken);
}
