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
    r->all = rc == 0 && !r->page.more;
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
                                      .n = r->n_ids};
    w->stock->ops->forget(w->stock, &r->forget);
}

/* --- park --- */

/* n of one kind from there on, in one call; if it is somebody's own fault, one by one. */
static int park(struct remembered *r, struct orders *o, enum event_command kind, int from, int n)
{
    int parked = n;
    if (n == 0)
        return 0;
    int rc = o->ops->park(o, &r->ctx, r->item, kind, &r->commands[from], &parked);
    if (rc == ERR_INVALID && n == 1) {
        r->faulty++;
        return 0;
    }
    if (rc == ERR_INVALID) {
        rc = 0;
        for (int i = 0; rc == 0 && i < n; i++)
            rc = park(r, o, kind, from + i, 1);
        return rc;
    }
    for (int i = from; rc == 0 && i < from + n; i++)
        r->ids[r->n_ids++] = r->commands[i].message_id;
    r->parked += rc == 0 ? parked : 0;
    return rc;
}

static void run_park(struct share_job *j, struct orders *o)
{
    struct remembered *r = container_of(j, struct remembered, job);
    crashpoint("remembered_before_park");
    r->parked = r->faulty = 0;
    j->rc = park(r, o, EVENT_CANCEL, 0, r->n_cancels);
    if (j->rc == 0)
        j->rc = park(r, o, EVENT_PAY, r->n_cancels, r->n_commands - r->n_cancels);
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
    if (r->faulty > 0)
        log_error("commands that PostgreSQL refuses stay in Redis", LOG_I("commands", r->faulty),
                  LOG_I("activity_id", r->item.activity_id), LOG_I("sku_id", r->item.sku_id),
                  LOG_B("retryable", false));
    if (j->rc < 0)
        end(r, "recovery cannot hand commands over to PostgreSQL", j->rc);
    else if (r->n_ids > 0)
        forget(r);
    else
        end(r, NULL, 0);
}

/* --- read --- */

/* EVENT_CREATE: it is no command. */
static enum event_command read_row(const struct remembered *r, int i, struct event *e)
{
    struct str body = {r->rows[i].body, r->rows[i].body_len};
    const char *why;
    bool good = event_decode(body, e, &why) == 0 && item_eq(e->item, r->item) &&
                uuid_eq(&e->message_id, &r->rows[i].message_id);
    return good ? e->command : EVENT_CREATE;
}

static void take(struct remembered *r, enum event_command kind)
{
    for (int i = 0; i < r->page.n; i++) {
        struct event e;
        if (read_row(r, i, &e) != kind)
            continue;
        if (kind == EVENT_CREATE) /* refused as a message, too; of no use to anybody */
            r->ids[r->n_ids++] = r->rows[i].message_id;
        else
            command_fill(&r->commands[r->n_commands++], &e,
                         (struct str){r->rows[i].body, r->rows[i].body_len});
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
    r->n_commands = r->n_ids = 0;
    take(r, EVENT_CREATE);
    take(r, EVENT_CANCEL);
    r->n_cancels = r->n_commands;
    take(r, EVENT_PAY);
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
