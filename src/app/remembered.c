#include "app/remembered.h"

#include "app/worker.h"
#include "base/crashpoint.h"
#include <stdlib.h>

static void read_page(struct remembered *r);

static void end(struct remembered *r, const char *failed, int rc)
{
    static struct log_limit limit;
    uint64_t more;
    struct worker *w = r->w;
    metric_add(w->metrics.commands_recovered, (uint64_t)r->handed_over);
    if (rc < 0) {
        metric_add(w->metrics.recover_failures, 1);
        if (log_allowed(&limit, w->sched->now_us, &more))
            log_warn(failed, LOG_I("activity_id", r->item.activity_id),
                     LOG_I("sku_id", r->item.sku_id), LOG_Z("error_kind", err_name(rc)),
                     LOG_B("retryable", true), LOG_I("suppressed", (int64_t)more));
    }
    r->on_end(r);
}

static void next_page(struct remembered *r)
{
    if (r->page.more && ++r->pages < REMEMBERED_PAGES && !r->w->stopping)
        read_page(r);
    else
        end(r, NULL, 0);
}

/* --- forget: what PostgreSQL knows now, and what nobody can read --- */

static void on_forgotten(struct op *op, int rc)
{
    struct remembered *r = container_of(op, struct remembered, forget.op);
    if (rc < 0)
        end(r, "recovery cannot forget commands", rc);
    else
        next_page(r);
}

static void forget(struct remembered *r)
{
    struct worker *w = r->w;
    r->forget = (struct stock_forget){.op = {on_forgotten, worker_store_deadline(w)},
                                      .item = r->item,
                                      .message_ids = r->ids,
                                      .n = r->page.n};
    w->stock->ops->forget(w->stock, &r->forget);
}

/* --- park --- */

static void run_park(struct share_job *j, struct orders *o)
{
    struct remembered *r = container_of(j, struct remembered, job);
    int cancels = r->n_cancels, payments = r->n_commands - r->n_cancels;
    crashpoint("remembered_before_park");
    j->rc = 0;
    r->parked = 0;
    if (cancels > 0) {
        j->rc = o->ops->park(o, &r->ctx, r->item, EVENT_CANCEL, r->commands, &cancels);
        r->parked += j->rc == 0 ? cancels : 0;
    }
    if (j->rc == 0 && payments > 0) {
        j->rc = o->ops->park(o, &r->ctx, r->item, EVENT_PAY, &r->commands[r->n_cancels], &payments);
        r->parked += j->rc == 0 ? payments : 0;
    }
    crashpoint("remembered_after_park");
}

static void on_parked(struct share_job *j)
{
    struct remembered *r = container_of(j, struct remembered, job);
    r->handed_over += r->parked;
    if (r->parked > 0)
        log_warn("commands that the queue has lost are run from what Redis remembers",
                 LOG_I("commands", r->parked), LOG_I("activity_id", r->item.activity_id),
                 LOG_I("sku_id", r->item.sku_id), LOG_B("retryable", false));
    if (j->rc < 0)
        end(r, "recovery cannot hand commands over to PostgreSQL", j->rc);
    else
        forget(r);
}

/* --- read --- */

/* Adds those of one kind; what is of none was refused as a message, too, and is of no use to
 * anybody. */
static void take(struct remembered *r, enum event_command kind)
{
    for (int i = 0; i < r->page.n; i++) {
        struct str body = {r->rows[i].body, r->rows[i].body_len};
        struct event e;
        const char *why;
        if (event_decode(body, &e, &why) == 0 && e.command == kind && item_eq(e.item, r->item) &&
            uuid_eq(&e.message_id, &r->rows[i].message_id))
            command_fill(&r->commands[r->n_commands++], &e, body);
    }
}

static void on_page(struct op *op, int rc)
{
    struct remembered *r = container_of(op, struct remembered, page.op);
    struct worker *w = r->w;
    if (rc < 0) {
        end(r, "recovery cannot read the remembered commands of an item", rc);
        return;
    }
    if (r->page.unreadable > 0)
        log_error("something among the remembered commands is none",
                  LOG_I("entries", r->page.unreadable), LOG_I("activity_id", r->item.activity_id),
                  LOG_I("sku_id", r->item.sku_id), LOG_B("retryable", false));
    if (r->page.n == 0) {
        next_page(r);
        return;
    }
    r->n_commands = 0;
    take(r, EVENT_CANCEL);
    r->n_cancels = r->n_commands;
    take(r, EVENT_PAY);
    for (int i = 0; i < r->page.n; i++)
        r->ids[i] = r->rows[i].message_id;
    if (r->n_commands < r->page.n)
        log_error("remembered commands cannot be read and are forgotten",
                  LOG_I("commands", r->page.n - r->n_commands),
                  LOG_I("activity_id", r->item.activity_id), LOG_I("sku_id", r->item.sku_id),
                  LOG_B("retryable", false));
    r->job = (struct share_job){.class = SHARE_BACK, .run = run_park, .on_done = on_parked};
    ctx_init(&r->ctx, &w->root, w->sched->now_us + w->cfg.tx_budget_us);
    share_submit(w, &r->job);
}

static void read_page(struct remembered *r)
{
    struct worker *w = r->w;
    r->page.op = (struct op){on_page, worker_store_deadline(w)};
    w->stock->ops->remembered(w->stock, &r->page);
}

void remembered_start(struct remembered *r, struct worker *w, struct item item, int64_t before_ms,
                      void (*on_end)(struct remembered *r))
{
    r->w = w;
    r->item = item;
    r->on_end = on_end;
    r->pages = r->handed_over = 0;
    r->page = (struct stock_remembered){
        .item = item, .before_ms = before_ms, .cursor = "0", .rows = r->rows};
    read_page(r);
}

/* --- those that had their turn --- */

struct forgetting {
    struct worker *w;
    struct stock_forget op;
    struct uuid ids[];
};

static void on_done(struct op *op, int rc)
{
    struct forgetting *f = container_of(op, struct forgetting, op.op);
    struct worker *w = f->w;
    (void)rc;
    free(f);
    worker_op_ended(w);
}

void remembered_forget(struct worker *w, struct item item, const struct uuid *message_ids, int n)
{
    for (int at = 0; at < n; at += STOCK_FORGET_MAX) {
        int some = n - at < STOCK_FORGET_MAX ? n - at : STOCK_FORGET_MAX;
        struct forgetting *f = malloc(sizeof *f + (size_t)some * sizeof f->ids[0]);
        if (!f)
            return;
        memcpy(f->ids, &message_ids[at], (size_t)some * sizeof f->ids[0]);
        f->w = w;
        f->op = (struct stock_forget){.op = {on_done, worker_store_deadline(w)},
                                      .item = item,
                                      .message_ids = f->ids,
                                      .n = some};
        worker_op_begun(w);
        w->stock->ops->forget(w->stock, &f->op);
    }
}
