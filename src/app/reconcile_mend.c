#include "app/reconcile_mend.h"

#include "app/command.h"
#include "app/worker.h"
#include "base/crashpoint.h"

static void ended(struct mend *m, int rc)
{
    m->rc = rc;
    reconcile_mended(m->w);
}

static void on_record(struct op *op, int rc)
{
    ended(container_of(op, struct mend, u.record.op), rc);
}

static void on_lower(struct op *op, int rc)
{
    struct mend *m = container_of(op, struct mend, u.lower.op);
    bool done = rc == 0 && (m->u.lower.taken > 0 || m->u.lower.total < m->u.lower.seen);
    ended(m, rc == 0 && !done ? 1 : rc);
}

static void on_published(struct op *op, int rc)
{
    struct mend *m = container_of(op, struct mend, u.publish.op);
    if (rc == 0) {
        crashpoint("reconcile_after_publish");
        metric_add(m->w->metrics.walk_republished, 1);
    }
    ended(m, rc);
}

static void on_settled(struct settling *s)
{
    struct mend *m = container_of(s, struct mend, u.settling);
    int rc = s->rc < 0 ? s->rc : s->rows[0].result == STOCK_SETTLED ? 0 : 1;
    settling_deinit(s);
    ended(m, rc);
}

void mend_publish(struct mend *m, struct worker *w, struct item item, const struct reservation *r)
{
    *m = (struct mend){.w = w, .done = "PUBLISHED"};
    m->event = (struct event){.message_id = r->message_id,
                              .request_id = r->request_id,
                              .reservation_id = r->reservation_id,
                              .item = item,
                              .user_id = r->user_id,
                              .order_id = r->order_id,
                              .created_at_us = r->created_at_ms * 1000,
                              .schema_version = EVENT_SCHEMA_VERSION,
                              .retry_count = r->republished + 1,
                              .version = {r->epoch, r->seq},
                              .traceparent = STR(""),
                              .tracestate = STR("")};
    m->u.publish =
        (struct queue_publish){.op = {on_published, worker_store_deadline(w)}, .event = &m->event};
    static struct log_limit limit;
    uint64_t more;
    if (log_allowed(&limit, w->sched->now_us, &more))
        log_warn("order that PostgreSQL does not have is published again",
                 LOG_UUID("request_id", &r->request_id),
                 LOG_UUID("reservation_id", &r->reservation_id),
                 LOG_UUID("message_id", &r->message_id), LOG_I("order_id", r->order_id),
                 LOG_I("activity_id", item.activity_id), LOG_I("sku_id", item.sku_id),
                 LOG_I("user_id", r->user_id), LOG_I("suppressed", (int64_t)more));
    w->queue->ops->publish(w->queue, &m->u.publish);
}

/* A buyer who was told SUCCEEDED and whose order cannot be placed any more hears FAILED, once the
 * database is known to have lost something (rule 3). */
static bool settle(struct mend *m, struct worker *w, const struct finding *f)
{
    struct stock_settle_row row = recover_row_settle(&f->r, &f->inbox);
    bool lost = f->r.verdict.state == VERDICT_SUCCEEDED &&
                verdict_rank(row.verdict.state) == verdict_rank(VERDICT_SUCCEEDED);
    m->done = "SETTLED";
    if (lost) {
        if (!w->reconcile.walking)
            return false;
        row.verdict = verdict_of_reason(REASON_LOST_ORDER);
        row.other_order_id = 0;
        m->done = "LOST_ORDER";
        log_error("order lost: it could not be placed again",
                  LOG_UUID("reservation_id", &f->r.reservation_id),
                  LOG_I("order_id", f->r.order_id), LOG_I("user_id", f->r.user_id),
                  LOG_I("activity_id", f->item.activity_id), LOG_I("sku_id", f->item.sku_id),
                  LOG_S("reason", verdict_reason_name(f->inbox.verdict.reason)));
    }
    settling_init(&m->u.settling, w, f->item, 1, on_settled);
    settling_add(&m->u.settling, &row, 0);
    settling_send(&m->u.settling);
    return true;
}

/* --- a buyer was told CANCELLED, and the database lost it: it is cancelled once more --- */

static void run_cancel(struct share_job *j, struct orders *o)
{
    struct mend *m = container_of(j, struct mend, u.cancel.job);
    int n = 1;
    j->rc =
        o->ops->park(o, &m->u.cancel.ctx, m->u.cancel.item, EVENT_CANCEL, &m->u.cancel.command, &n);
    if (j->rc == 0 && n == 0)
        j->rc = 1; /* it knows that cancel, and what came of it */
}

static void on_cancel(struct share_job *j)
{
    ended(container_of(j, struct mend, u.cancel.job), j->rc);
}

static bool cancel(struct mend *m, struct worker *w, const struct finding *f)
{
    const struct reservation *r = &f->r;
    struct strbuf body;
    if (r->verdict.reason != REASON_CANCELLED)
        return false; /* an unpaid order expires again by itself */
    m->done = "CANCELLED";
    m->event = (struct event){.command = EVENT_CANCEL,
                              .message_id = event_cancel_id(&r->reservation_id),
                              .request_id = r->request_id,
                              .reservation_id = r->reservation_id,
                              .item = f->item,
                              .user_id = r->user_id,
                              .order_id = r->order_id,
                              .created_at_us = w->wall_us(w),
                              .schema_version = EVENT_SCHEMA_COMMAND,
                              .version = {r->epoch, r->seq},
                              .payment_id = STR(""),
                              .traceparent = STR(""),
                              .tracestate = STR("")};
    m->u.cancel.item = f->item;
    m->u.cancel.job =
        (struct share_job){.class = SHARE_BACK, .run = run_cancel, .on_done = on_cancel};
    strbuf_init_fixed(&body, m->u.cancel.body, sizeof m->u.cancel.body);
    event_encode(&m->event, false, &body);
    command_fill(&m->u.cancel.command, &m->event, strbuf_str(&body));
    ctx_init(&m->u.cancel.ctx, &w->root, w->sched->now_us + w->cfg.tx_budget_us);
    share_submit(w, &m->u.cancel.job);
    return true;
}

static void lower(struct mend *m, struct worker *w, struct item item, int64_t to)
{
    m->done = "LOWERED";
    m->u.lower = (struct stock_lower){.op = {on_lower, worker_store_deadline(w)},
                                      .item = item,
                                      .seen = w->reconcile.info.total,
                                      .to = to};
    w->stock->ops->lower(w->stock, &m->u.lower);
}

bool mend_start(struct mend *m, struct worker *w, const struct finding *f)
{
    *m = (struct mend){.w = w};
    switch (f->kind) {
    case FINDING_BUYER:
        m->done = "MENDED";
        m->u.record = (struct stock_mend){.op = {on_record, worker_store_deadline(w)},
                                          .item = f->item,
                                          .user_id = f->r.user_id,
                                          .request_id = f->r.request_id,
                                          .reservation_id = f->r.reservation_id};
        w->stock->ops->mend(w->stock, &m->u.record);
        return true;
    case FINDING_FREE_HIGH:
        /* An entry too many looks the same: that one goes first. */
        if (findings_has(w, f->item, FINDING_BUYER) || findings_has(w, f->item, FINDING_RECORD))
            return false;
        lower(m, w, f->item, w->reconcile.info.total);
        return true;
    case FINDING_TOTAL:
        /* Only down: one that is higher in PostgreSQL is an operator's change that was not
         * finished. */
        if (w->reconcile.info.total <= w->reconcile.books.total)
            return false;
        lower(m, w, f->item, w->reconcile.books.total);
        return true;
    case FINDING_SETTLE:
        return settle(m, w, f);
    case FINDING_RELEASED:
        return cancel(m, w, f);
    case FINDING_LOST:
        if (f->inbox.found)
            return false;
        mend_publish(m, w, f->item, &f->r);
        return true;
    default:
        return false;
    }
}
