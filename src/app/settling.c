#include "app/settling.h"

#include "app/worker.h"
#include "base/crashpoint.h"
#include "base/panic.h"
#include <stdlib.h>

void settling_init(struct settling *s, struct worker *w, struct item item, int max,
                   void (*on_done)(struct settling *s))
{
    *s = (struct settling){.w = w, .op.item = item, .on_done = on_done, .max = max};
    s->rows = malloc((size_t)max * sizeof s->rows[0]);
    s->ids = malloc((size_t)max * sizeof s->ids[0]);
    if (!s->rows || !s->ids)
        panic("no memory to settle %d rows", max);
}

void settling_deinit(struct settling *s)
{
    free(s->rows);
    free(s->ids);
    s->rows = NULL;
    s->ids = NULL;
}

void settling_add(struct settling *s, const struct stock_settle_row *row, int64_t outbox_id)
{
    if (s->n == s->max)
        panic("settling: more rows than said");
    s->rows[s->n] = *row;
    s->ids[s->n++] = outbox_id;
}

static void note_unreadable(struct worker *w, const struct settling *s, int i)
{
    static struct log_limit limit;
    uint64_t more;
    metric_add(w->metrics.unreadable_settles, 1);
    if (log_allowed(&limit, w->sched->now_us, &more))
        log_error("outcome not written: the reservation cannot be read",
                  LOG_UUID("request_id", &s->rows[i].request_id),
                  LOG_UUID("reservation_id", &s->rows[i].reservation_id),
                  LOG_I("activity_id", s->op.item.activity_id), LOG_I("sku_id", s->op.item.sku_id),
                  LOG_I("user_id", s->rows[i].user_id),
                  LOG_S("outcome", verdict_state_name(s->rows[i].verdict.state)),
                  LOG_B("retryable", false), LOG_I("suppressed", (int64_t)more));
}

static void on_op_done(struct op *op, int rc)
{
    struct settling *s = container_of(op, struct settling, op.op);
    struct worker *w = s->w;
    s->rc = rc;
    if (rc < 0) {
        metric_add(w->metrics.settle_failures, (uint64_t)s->n);
        static struct log_limit limit;
        uint64_t more;
        if (log_allowed(&limit, w->sched->now_us, &more))
            log_warn("settle failed; the relay follows",
                     LOG_I("activity_id", s->op.item.activity_id),
                     LOG_I("sku_id", s->op.item.sku_id), LOG_Z("error_kind", err_name(rc)),
                     LOG_I("rows", s->n), LOG_Z("outcome", "retry"), LOG_B("retryable", true),
                     LOG_I("suppressed", (int64_t)more));
    }
    for (int i = 0; rc >= 0 && i < s->n; i++) {
        if (s->rows[i].result == STOCK_UNREADABLE)
            note_unreadable(w, s, i);
    }
    s->on_done(s);
    worker_op_ended(w);
}

void settling_send(struct settling *s)
{
    s->op.op = (struct op){on_op_done, worker_store_deadline(s->w)};
    s->op.rows = s->rows;
    s->op.n = s->n;
    crashpoint("before_settle");
    worker_op_begun(s->w);
    s->w->stock->ops->settle(s->w->stock, &s->op);
}

bool settling_took(const struct settling *s, int i)
{
    return s->rc >= 0 && s->rows[i].result != STOCK_LATER;
}
