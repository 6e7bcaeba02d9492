#include "app/recover_row.h"

#include "app/worker.h"
#include "base/crashpoint.h"

enum { CLAIM, CLAIMED, PUBLISH, NOTE, VOID, VOIDED, SETTLE, END, STATES };

static struct recover_row *row_of(struct flow *f)
{
    return container_of(f, struct recover_row, flow);
}

static enum flow_result end(struct flow *f)
{
    flow_goto(f, END);
    return FLOW_NEXT;
}

#define LOG_ROW(row, outcome_, retryable_)                                                         \
    LOG_Z("consumer_group", EVENT_GROUP), LOG_UUID("request_id", &(row)->r.request_id),            \
        LOG_UUID("reservation_id", &(row)->r.reservation_id),                                      \
        LOG_UUID("message_id", &(row)->r.message_id), LOG_I("order_id", (row)->r.order_id),        \
        LOG_I("activity_id", (row)->item.activity_id), LOG_I("sku_id", (row)->item.sku_id),        \
        LOG_I("user_id", (row)->r.user_id), LOG_I("retry_attempt", (row)->r.republished + 1),      \
        LOG_Z("outcome", outcome_), LOG_B("retryable", retryable_)

/* --- publish again --- */

static void on_claimed(struct op *op, int rc)
{
    struct recover_row *row = container_of(op, struct recover_row, claim.op);
    row->rc = rc;
    flow_resume(&row->flow);
}

static enum flow_result step_claim(struct flow *f)
{
    struct recover_row *row = row_of(f);
    row->claim = (struct stock_claim){.op = {on_claimed, worker_store_deadline(row->w)},
                                      .item = row->item,
                                      .user_id = row->r.user_id,
                                      .request_id = row->r.request_id,
                                      .reservation_id = row->r.reservation_id};
    flow_goto(f, CLAIMED);
    crashpoint("recover_before_claim");
    row->w->stock->ops->claim(row->w->stock, &row->claim);
    return FLOW_WAIT;
}

static void on_published(struct op *op, int rc)
{
    struct recover_row *row = container_of(op, struct recover_row, publish.op);
    row->rc = rc;
    flow_resume(&row->flow);
}

/* Only after the claim succeeded (rule 1); what it brought is newer than the list. */
static enum flow_result step_claimed(struct flow *f)
{
    struct recover_row *row = row_of(f);
    if (row->rc != 0)
        return end(f);
    crashpoint("recover_after_claim");
    const struct reservation *r = &row->claim.found;
    row->event = (struct event){.message_id = r->message_id,
                                .request_id = r->request_id,
                                .reservation_id = r->reservation_id,
                                .item = row->item,
                                .user_id = r->user_id,
                                .order_id = r->order_id,
                                .created_at_us = r->created_at_ms * 1000,
                                .schema_version = EVENT_SCHEMA_VERSION,
                                .retry_count = r->republished + 1,
                                .version = {r->epoch, r->seq},
                                .traceparent = STR(""),
                                .tracestate = STR("")};
    row->publish = (struct queue_publish){.op = {on_published, worker_store_deadline(row->w)},
                                          .event = &row->event};
    flow_goto(f, PUBLISH);
    row->w->queue->ops->publish(row->w->queue, &row->publish);
    return FLOW_WAIT;
}

static void on_noted(struct op *op, int rc)
{
    struct recover_row *row = container_of(op, struct recover_row, note.op);
    row->rc = rc;
    flow_resume(&row->flow);
}

static enum flow_result step_publish(struct flow *f)
{
    struct recover_row *row = row_of(f);
    if (row->rc < 0) {
        log_warn("publishing again failed or is unknown", LOG_ROW(row, "retry", true),
                 LOG_Z("error_kind", err_name(row->rc)));
        return end(f);
    }
    crashpoint("recover_after_publish");
    metric_add(row->w->metrics.republished, 1);
    log_info("event published again", LOG_ROW(row, "published", false));
    row->note = (struct stock_republished){.op = {on_noted, worker_store_deadline(row->w)},
                                           .item = row->item,
                                           .user_id = row->r.user_id,
                                           .request_id = row->r.request_id,
                                           .reservation_id = row->r.reservation_id};
    memcpy(row->note.queue_id, row->publish.queue_id, sizeof row->note.queue_id);
    flow_goto(f, NOTE);
    row->w->stock->ops->republished(row->w->stock, &row->note);
    return FLOW_WAIT;
}

static enum flow_result step_note(struct flow *f)
{
    crashpoint("recover_after_note");
    return end(f);
}

/* --- void --- */

static void run_void(struct share_job *j, struct orders *o)
{
    struct recover_row *row = container_of(j, struct recover_row, job);
    crashpoint("recover_before_void");
    j->rc = o->ops->void_message(o, &row->ctx, row->item, &row->message, row->reason, &row->inbox);
    crashpoint("recover_after_void");
}

static void on_voided(struct share_job *j)
{
    flow_resume(&container_of(j, struct recover_row, job)->flow);
}

static enum flow_result step_void(struct flow *f)
{
    struct recover_row *row = row_of(f);
    const struct reservation *r = &row->r;
    row->message = (struct orders_row){.message_id = r->message_id,
                                       .request_id = r->request_id,
                                       .reservation_id = r->reservation_id,
                                       .user_id = r->user_id,
                                       .order_id = r->order_id,
                                       .created_at_ms = r->created_at_ms,
                                       .version = {r->epoch, r->seq}};
    row->job = (struct share_job){.class = SHARE_BACK, .run = run_void, .on_done = on_voided};
    ctx_init(&row->ctx, &row->w->root, row->w->sched->now_us + row->w->cfg.tx_budget_us);
    flow_goto(f, VOIDED);
    share_submit(row->w, &row->job);
    return FLOW_WAIT;
}

static void on_settled(struct settling *s)
{
    flow_resume(&container_of(s, struct recover_row, settling)->flow);
}

static enum flow_result step_voided(struct flow *f)
{
    struct recover_row *row = row_of(f);
    int rc = row->job.rc;
    if (rc < 0) {
        log_warn("voiding failed", LOG_ROW(row, "retry", true), LOG_Z("error_kind", err_name(rc)));
        return end(f);
    }
    struct verdict verdict = verdict_of_reason(row->reason);
    struct stock_settle_row settle = {.user_id = row->r.user_id,
                                      .request_id = row->r.request_id,
                                      .reservation_id = row->r.reservation_id,
                                      .verdict = verdict,
                                      .give_back = verdict_returns_unit(verdict)};
    if (rc == 0) {
        metric_add(row->w->metrics.voided, 1);
        metric_add(row->w->metrics.order_rejected[row->reason], 1);
        log_warn("reservation voided and released", LOG_ROW(row, "FAILED", false),
                 LOG_S("reason", verdict_reason_name(row->reason)));
    } else {
        settle = recover_row_settle(&row->r, &row->inbox);
    }
    settling_init(&row->settling, row->w, row->item, 1, on_settled);
    settling_add(&row->settling, &settle, 0);
    flow_goto(f, SETTLE);
    settling_send(&row->settling);
    return FLOW_WAIT;
}

static enum flow_result step_settle(struct flow *f)
{
    settling_deinit(&row_of(f)->settling);
    return end(f);
}

static enum flow_result step_end(struct flow *f)
{
    (void)f;
    return FLOW_DONE;
}

static void on_end(struct flow *f)
{
    recover_row_ended(row_of(f)->w);
}

struct stock_settle_row recover_row_settle(const struct reservation *r,
                                           const struct orders_inbox *inbox)
{
    return (struct stock_settle_row){.user_id = r->user_id,
                                     .request_id = r->request_id,
                                     .reservation_id = r->reservation_id,
                                     .verdict = inbox->verdict,
                                     .give_back = inbox->give_back,
                                     .other_order_id = inbox->other_order_id,
                                     .other_reservation_id = inbox->other_reservation_id,
                                     .other_request_id = inbox->other_request_id};
}

static const struct flow_state states[STATES] = {
    [CLAIM] = {"CLAIM", FLOW_TO(CLAIMED), step_claim},
    [CLAIMED] = {"CLAIMED", FLOW_TO(PUBLISH) | FLOW_TO(END), step_claimed},
    [PUBLISH] = {"PUBLISH", FLOW_TO(NOTE) | FLOW_TO(END), step_publish},
    [NOTE] = {"NOTE", FLOW_TO(END), step_note},
    [VOID] = {"VOID", FLOW_TO(VOIDED), step_void},
    [VOIDED] = {"VOIDED", FLOW_TO(SETTLE) | FLOW_TO(END), step_voided},
    [SETTLE] = {"SETTLE", FLOW_TO(END), step_settle},
    [END] = {"END", 0, step_end},
};
static const struct flow_kind kind = {"recover_row", STATES, states, .on_end = on_end};

void recover_row_start(struct recover_row *row)
{
    flow_start(&row->flow, &kind, row->plan == RECOVER_VOID ? VOID : CLAIM);
}
