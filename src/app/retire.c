#include "app/retire.h"

#include "app/worker.h"

#define RETIRE_MARGIN_MS 60000 /* the clocks of PostgreSQL, Redis and this machine */

static void run_read(struct share_job *j, struct orders *o)
{
    struct retire *r = container_of(j, struct retire, job);
    j->rc = o->ops->inventory(o, &r->ctx, r->item, &r->inventory);
}

static void on_unlisted(struct op *op, int rc)
{
    struct retire *r = container_of(op, struct retire, op.op);
    if (rc >= 0) {
        metric_add(r->w->metrics.items_retired, 1);
        log_info("item expired: it leaves the catalogue", LOG_I("activity_id", r->item.activity_id),
                 LOG_I("sku_id", r->item.sku_id), LOG_I("expires_ms", r->inventory.expires_ms));
    }
    r->on_end(r);
}

static void on_read(struct share_job *j)
{
    struct retire *r = container_of(j, struct retire, job);
    struct worker *w = r->w;
    bool over = j->rc == 0 && r->inventory.expires_ms > 0 &&
                r->inventory.expires_ms + RETIRE_MARGIN_MS < r->now_ms;
    if (!over || w->stopping) {
        static struct log_limit limit;
        uint64_t more;
        if (j->rc >= 0 && !over && log_allowed(&limit, w->sched->now_us, &more))
            log_error("item is listed and has no keys in Redis before its time: it was lost",
                      LOG_I("activity_id", r->item.activity_id), LOG_I("sku_id", r->item.sku_id),
                      LOG_B("in_postgresql", j->rc == 0), LOG_I("suppressed", (int64_t)more));
        r->on_end(r);
        return;
    }
    r->op = (struct stock_unlist){.op = {on_unlisted, worker_store_deadline(w)}, .item = r->item};
    w->stock->ops->unlist(w->stock, &r->op);
}

void retire_start(struct retire *r, struct worker *w, struct item item, int64_t now_ms,
                  void (*on_end)(struct retire *r))
{
    *r = (struct retire){.w = w, .item = item, .now_ms = now_ms, .on_end = on_end};
    r->job = (struct share_job){.class = SHARE_BACK, .run = run_read, .on_done = on_read};
    ctx_init(&r->ctx, &w->root, w->sched->now_us + w->cfg.tx_budget_us);
    share_submit(w, &r->job);
}
