#include "app/orphans.h"

#include "app/recover_plan.h"
#include "app/worker.h"

static void run_find(struct share_job *j, struct orders *o)
{
    struct orphans *x = container_of(j, struct orphans, job);
    for (int i = 0; i < x->n; i++) {
        struct orphan *row = &x->rows[i];
        int rc = o->ops->find_request(o, &x->ctx, x->item, row->user_id, &row->request_id,
                                      &row->inbox, &row->order);
        row->found = rc == 0;
        if (rc < 0) {
            x->n = i; /* those that are known */
            j->rc = rc;
            return;
        }
    }
    j->rc = 0;
}

/* Whether it may go, and as what. Nothing of the verdict is written: there is no record. */
static bool ended(struct worker *w, const struct orphan *row, struct verdict *verdict)
{
    if (row->found && row->inbox.found) {
        *verdict = row->inbox.verdict;
        return strcmp(row->inbox.status, "QUARANTINED") != 0;
    }
    if (row->found && row->order.order_id) {
        *verdict = (struct verdict){VERDICT_SUCCEEDED, REASON_NONE};
        return true;
    }
    if (!recover_held_long_enough(w, row->created_at_ms))
        return false;
    *verdict = verdict_of_reason(REASON_LOST_RESERVATION);
    log_error("reservation lost: its record is gone and PostgreSQL does not know it",
              LOG_UUID("request_id", &row->request_id),
              LOG_I("activity_id", w->recover.item.activity_id),
              LOG_I("sku_id", w->recover.item.sku_id), LOG_I("user_id", row->user_id),
              LOG_S("outcome", verdict_state_name(verdict->state)), LOG_B("retryable", false));
    return true;
}

static void on_settled(struct settling *s)
{
    struct orphans *x = container_of(s, struct orphans, settling);
    for (int i = 0; i < s->n; i++)
        x->taken += settling_took(s, i);
    metric_add(x->w->metrics.orphans, (uint64_t)x->taken);
    settling_deinit(s);
    x->on_end(x);
}

static void on_found(struct share_job *j)
{
    struct orphans *x = container_of(j, struct orphans, job);
    struct worker *w = x->w;
    settling_init(&x->settling, w, x->item, ORPHANS_MAX, on_settled);
    for (int i = 0; i < x->n; i++) {
        struct stock_settle_row row = {.user_id = x->rows[i].user_id,
                                       .request_id = x->rows[i].request_id};
        if (ended(w, &x->rows[i], &row.verdict))
            settling_add(&x->settling, &row, 0);
    }
    if (x->settling.n > 0) {
        settling_send(&x->settling);
        return;
    }
    settling_deinit(&x->settling);
    x->on_end(x);
}

void orphans_start(struct orphans *x, struct worker *w, struct item item,
                   void (*on_end)(struct orphans *o))
{
    x->w = w;
    x->item = item;
    x->on_end = on_end;
    x->taken = 0;
    x->job = (struct share_job){.class = SHARE_BACK, .run = run_find, .on_done = on_found};
    ctx_init(&x->ctx, &w->root, w->sched->now_us + w->cfg.tx_budget_us);
    share_submit(w, &x->job);
}
