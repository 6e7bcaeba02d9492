#include "app/command.h"

#include "app/finish.h"
#include "app/place.h"
#include "app/remembered.h"
#include "app/worker.h"
#include "base/crashpoint.h"
#include "base/panic.h"
#include <stdlib.h>

void command_fill(struct orders_command *row, const struct event *e, struct str body)
{
    *row = (struct orders_command){.message_id = e->message_id,
                                   .request_id = e->request_id,
                                   .reservation_id = e->reservation_id,
                                   .user_id = e->user_id,
                                   .order_id = e->order_id,
                                   .body = body,
                                   .payment_id = e->payment_id,
                                   .accepted_at_ms = e->accepted_at_ms};
}

int command_run(struct orders *o, const struct ctx *ctx, struct item item, enum event_command kind,
                struct orders_command *rows, int n, bool give_up)
{
    crashpoint("before_command");
    for (int i = 0; i < n; i++)
        crashpoint_for("command_message", rows[i].user_id);
    switch (kind) {
    case EVENT_CANCEL:
        return o->ops->cancel(o, ctx, item, rows, n, give_up);
    case EVENT_PAY:
        return o->ops->pay(o, ctx, item, rows, n, give_up);
    default:
        panic("command %u is none", (unsigned)kind);
    }
}

void command_note(struct worker *w, const struct event *e, const struct orders_command *row)
{
    struct metric *m = w->metrics.commands[e->command][row->outcome];
    /* Its id is another payment's, and so is its message: it is never fresh, and nothing but this
     * says that money came for which there is no row. Told at each delivery. */
    bool stray = e->command == EVENT_PAY && row->outcome == ORDERS_REFUSED;
    if ((row->fresh || stray) && m)
        metric_add(m, 1);
    log_at(stray        ? LOG_WARN
           : row->fresh ? LOG_INFO
                        : LOG_DEBUG,
           "command processed", LOG_Z("command", event_command_name(e->command)),
           LOG_UUID("request_id", &e->request_id), LOG_UUID("reservation_id", &e->reservation_id),
           LOG_UUID("message_id", &e->message_id), LOG_I("order_id", e->order_id),
           LOG_I("activity_id", e->item.activity_id), LOG_I("sku_id", e->item.sku_id),
           LOG_I("user_id", e->user_id), LOG_S("payment_id", e->payment_id),
           LOG_Z("outcome", orders_command_name(row->outcome)), LOG_Z("reason", row->reason),
           LOG_S("trace_id", event_trace_id(e->traceparent)));
}

/* --- rule 27: the request stays SUCCEEDED, and says that the cancel was refused --- */

struct refusal {
    struct worker *w;
    struct stock_refuse op;
};

static void on_refusal_told(struct op *op, int rc)
{
    struct refusal *r = container_of(op, struct refusal, op.op);
    struct worker *w = r->w;
    (void)rc; /* the order itself says PAID, and PostgreSQL's answer the rest */
    free(r);
    worker_op_ended(w);
}

void command_tell_refusal(struct worker *w, const struct event *e, const struct orders_command *row)
{
    if (e->command != EVENT_CANCEL || row->outcome != ORDERS_REFUSED ||
        strcmp(row->reason, "PAID") != 0)
        return;
    struct refusal *r = malloc(sizeof *r);
    if (!r)
        return;
    r->w = w;
    r->op = (struct stock_refuse){.op = {on_refusal_told, worker_store_deadline(w)},
                                  .item = e->item,
                                  .user_id = e->user_id,
                                  .request_id = e->request_id,
                                  .reservation_id = e->reservation_id};
    worker_op_begun(w);
    w->stock->ops->refuse(w->stock, &r->op);
}

struct stock_settle_row command_settle_row(const struct orders_command *row)
{
    return (struct stock_settle_row){.user_id = row->user_id,
                                     .request_id = row->request_id,
                                     .reservation_id = row->settle_reservation_id,
                                     .verdict = verdict_of_reason(REASON_CANCELLED),
                                     .give_back = true};
}

void command_finish(struct worker *w, struct item item, struct work **works,
                    const struct orders_command *rows, int n)
{
    crashpoint("after_command");
    struct finish *f = finish_new(w, item, n);
    struct uuid known[PLACE_BATCH_MAX];
    int n_known = 0;
    for (int i = 0; i < n; i++) {
        const struct orders_command *r = &rows[i];
        struct work *k = works[i];
        if (r->outcome == ORDERS_COMMAND_AGAIN) {
            finish_again(w, k);
            continue;
        }
        command_note(w, &k->e, r);
        command_tell_refusal(w, &k->e, r);
        known[n_known++] = r->message_id;
        worker_outcome(k, r->fresh ? OUTCOME_COMMAND : OUTCOME_DUPLICATE);
        struct stock_settle_row row = command_settle_row(r);
        finish_add(f, k, r->outbox_id ? &row : NULL, r->outbox_id, NULL);
    }
    remembered_forget(w, item, known, n_known);
    finish_go(f);
}
