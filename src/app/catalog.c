#include "app/catalog.h"

#include "app/worker.h"
#include "base/panic.h"
#include <stdlib.h>

static int compare(struct item a, struct item b)
{
    if (a.activity_id != b.activity_id)
        return a.activity_id < b.activity_id ? -1 : 1;
    return a.sku_id < b.sku_id ? -1 : a.sku_id > b.sku_id;
}

/* The place of the item, or where it would be. */
static int place_of(const struct catalog *c, struct item item)
{
    int low = 0, high = c->n;
    while (low < high) {
        int mid = (low + high) / 2;
        if (compare(c->items[mid].item, item) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static struct catalog_item *find(struct catalog *c, struct item item)
{
    int at = place_of(c, item);
    return at < c->n && item_eq(c->items[at].item, item) ? &c->items[at] : NULL;
}

/* --- reading --- */

static int place_among(const struct item *items, int n, struct item item)
{
    int low = 0, high = n;
    while (low < high) {
        int mid = (low + high) / 2;
        if (compare(items[mid], item) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static void keep_fresh(struct catalog *c, struct item item)
{
    int low = place_among(c->fresh, c->n_fresh, item);
    if (low < c->n_fresh && item_eq(c->fresh[low], item))
        return;
    if (c->n_fresh == c->max) {
        c->left_out++;
        if (low == c->max)
            return;
        c->n_fresh--;
    }
    memmove(&c->fresh[low + 1], &c->fresh[low], (size_t)(c->n_fresh - low) * sizeof c->fresh[0]);
    c->fresh[low] = item;
    c->n_fresh++;
}

static bool is_fresh(const struct catalog *c, struct item item)
{
    int at = place_among(c->fresh, c->n_fresh, item);
    return at < c->n_fresh && item_eq(c->fresh[at], item);
}

static void note_unlisted(struct worker *w, int n, struct item first)
{
    struct catalog *c = &w->catalog;
    bool new = n != c->unlisted;
    c->unlisted = n;
    metric_set(w->metrics.items_unlisted, n);
    if (n > 0 && new)
        log_error("warmed items are not in the catalogue of Redis: it lost something; they are "
                  "served all the same",
                  LOG_I("items", n), LOG_I("activity_id", first.activity_id),
                  LOG_I("sku_id", first.sku_id));
}

/* What PostgreSQL knows is there, whatever is listed. As long as it was not asked, nothing goes. */
static void take_warmed(struct worker *w)
{
    struct catalog *c = &w->catalog;
    struct item first = {0};
    int unlisted = 0;
    for (int i = 0; i < c->n && !c->warmed_known; i++)
        c->seen[i] = true;
    for (int i = 0; i < c->n_warmed; i++) {
        struct item item = c->warmed[i];
        int at = place_of(c, item);
        bool known = at < c->n && item_eq(c->items[at].item, item);
        if (known ? c->seen[at] : is_fresh(c, item))
            continue;
        first = unlisted++ == 0 ? item : first;
        if (known)
            c->seen[at] = true;
        else
            keep_fresh(c, item);
    }
    note_unlisted(w, unlisted, first);
}

static void run_warmed(struct share_job *j, struct orders *o)
{
    struct catalog *c = container_of(j, struct catalog, warmed_job);
    int n = c->max;
    j->rc = o->ops->warmed(o, &c->warmed_ctx, c->warmed_read, &n);
    c->n_warmed_read = n;
}

static void on_warmed(struct share_job *j)
{
    struct catalog *c = container_of(j, struct catalog, warmed_job);
    struct item *before = c->warmed;
    c->warming = false;
    if (j->rc < 0)
        return;
    c->warmed = c->warmed_read;
    c->n_warmed = c->n_warmed_read;
    c->warmed_read = before;
    c->warmed_known = true;
}

static void ask_warmed(struct worker *w)
{
    struct catalog *c = &w->catalog;
    bool due = !c->warmed_known || w->sched->now_us - c->warmed_at_us >= CATALOG_WARMED_US;
    if (c->warming || !due || !health_usable(w))
        return;
    c->warming = true;
    c->warmed_at_us = w->sched->now_us;
    c->warmed_job =
        (struct share_job){.class = SHARE_BACK, .run = run_warmed, .on_done = on_warmed};
    ctx_init(&c->warmed_ctx, &w->root, w->sched->now_us + w->cfg.tx_budget_us);
    share_submit(w, &c->warmed_job);
}

static void take_page(struct catalog *c)
{
    for (int i = 0; i < c->op.n; i++) {
        int at = place_of(c, c->page[i]);
        if (at < c->n && item_eq(c->items[at].item, c->page[i]))
            c->seen[at] = true;
        else
            keep_fresh(c, c->page[i]);
    }
}

/* What was not seen leaves; then the fresh ones, as many as there is room for, take their places in
 * the order of the ids, from the end. Whether anything changed. */
static bool take_over(struct catalog *c)
{
    int kept = 0;
    for (int i = 0; i < c->n; i++) {
        if (c->seen[i])
            c->items[kept++] = c->items[i];
    }
    bool changed = kept != c->n;
    int room = c->max - kept, come = c->n_fresh < room ? c->n_fresh : room;
    c->left_out += c->n_fresh - come;
    c->n = kept + come;
    for (int to = c->n - 1, old = kept - 1, new = come - 1; new >= 0; to--) {
        if (old >= 0 && compare(c->items[old].item, c->fresh[new]) > 0)
            c->items[to] = c->items[old--];
        else
            c->items[to] = (struct catalog_item){.item = c->fresh[new --], .pending = -1};
    }
    return changed || come > 0;
}

static void show_pending(struct worker *w);

static void note_surplus(struct worker *w)
{
    struct catalog *c = &w->catalog;
    static struct log_limit limit;
    uint64_t more;
    bool new = c->left_out != c->surplus;
    c->surplus = c->left_out;
    metric_set(w->metrics.items_surplus, c->surplus);
    if (c->surplus > 0 && (new || c->read_at_us - c->changed_at_us > 60 * INT64_C(1000000)) &&
        log_allowed(&limit, w->sched->now_us, &more)) {
        c->changed_at_us = c->read_at_us;
        log_error("more items than worker.max_items: the orders of some are not created",
                  LOG_I("items", c->n), LOG_I("surplus", c->surplus));
    }
}

static void read_over(struct worker *w)
{
    struct catalog *c = &w->catalog;
    if (c->failures > 0)
        log_info("catalogue read again", LOG_I("failures", c->failures));
    c->failures = 0;
    c->read_at_us = w->sched->now_us;
    take_warmed(w);
    if (take_over(c)) {
        struct item *items = malloc(((size_t)c->n + 1) * sizeof items[0]);
        if (!items)
            panic("no memory for %d items", c->n);
        for (int i = 0; i < c->n; i++)
            items[i] = c->items[i].item;
        w->queue->ops->set_items(w->queue, items, c->n);
        free(items);
        metric_set(w->metrics.items, c->n);
        show_pending(w);
        log_info("items changed", LOG_I("items", c->n));
    }
    note_surplus(w);
}

static void on_items(struct op *op, int rc);

static void read_page(struct worker *w)
{
    struct catalog *c = &w->catalog;
    c->op.op = (struct op){on_items, worker_store_deadline(w)};
    worker_op_begun(w);
    w->stock->ops->items(w->stock, &c->op);
}

static void on_items(struct op *op, int rc)
{
    struct worker *w = container_of(op, struct worker, catalog.op.op);
    struct catalog *c = &w->catalog;
    c->reading = false;
    if (rc >= 0) {
        take_page(c);
        if (strcmp(c->op.cursor, "0") == 0) {
            read_over(w);
        } else if (!w->stopping) {
            c->reading = true;
            read_page(w);
        }
    } else {
        static struct log_limit limit;
        uint64_t more;
        c->failures++;
        metric_add(w->metrics.catalog_failures, 1);
        if (log_allowed(&limit, w->sched->now_us, &more))
            log_warn("catalogue not read; the items known so far stay",
                     LOG_Z("error_kind", err_name(rc)), LOG_I("items", c->n),
                     LOG_I("retry_attempt", c->failures), LOG_I("suppressed", (int64_t)more));
    }
    worker_op_ended(w);
}

static void on_items_time(struct timer *t)
{
    struct worker *w = container_of(t, struct worker, catalog.items_timer);
    struct catalog *c = &w->catalog;
    ask_warmed(w);
    if (!c->reading) {
        c->reading = true;
        c->n_fresh = 0;
        c->left_out = 0;
        memset(c->seen, 0, (size_t)c->max * sizeof c->seen[0]);
        c->op = (struct stock_items){.cursor = "0", .items = c->page, .max = STOCK_ITEMS_PAGE};
        read_page(w);
    }
    sched_set_in(w->sched, t, w->cfg.items_refresh_us);
}

const char *catalog_complaint(const struct worker *w)
{
    const struct catalog *c = &w->catalog;
    if (c->failures > 0 && w->sched->now_us - c->read_at_us > CATALOG_STALE_US)
        return "the catalogue of items cannot be read";
    if (c->unlisted > 0)
        return "warmed items are not in the catalogue";
    return c->surplus > 0 ? "more items than worker.max_items" : NULL;
}

/* --- their backlogs --- */

static void ask(struct worker *w, struct catalog_ask *a);

static void on_lag(struct op *op, int rc)
{
    struct catalog_ask *a = container_of(op, struct catalog_ask, op.op);
    struct worker *w = a->w;
    struct catalog *c = &w->catalog;
    struct catalog_item *it = find(c, a->op.item);
    a->busy = false;
    if (rc >= 0)
        c->one_queue = a->op.of_all_items;
    if (rc >= 0 && (it || c->one_queue))
        *(c->one_queue ? &c->all : &it->backlog) =
            (struct catalog_backlog){.at_us = w->sched->now_us,
                                     .waiting = a->op.waiting,
                                     .in_hand = a->op.in_hand,
                                     .oldest_age_ms = a->op.oldest_age_ms};
    if (c->to_ask > 0 && c->n > 0 && !c->one_queue && !w->stopping)
        ask(w, a);
    worker_op_ended(w);
}

static void ask(struct worker *w, struct catalog_ask *a)
{
    struct catalog *c = &w->catalog;
    c->to_ask--;
    c->next = c->next < c->n ? c->next : 0;
    *a = (struct catalog_ask){.w = w, .busy = true};
    a->op = (struct queue_lag){.op = {on_lag, worker_store_deadline(w)}};
    if (c->n > 0) /* none: one_queue, where it means nothing */
        a->op.item = c->items[c->next++].item;
    worker_op_begun(w);
    w->queue->ops->lag(w->queue, &a->op);
}

/* Each item's turn comes while its last answer is fresh, however many there are. */
static void on_lag_time(struct timer *t)
{
    struct worker *w = container_of(t, struct worker, catalog.lag_timer);
    struct catalog *c = &w->catalog;
    int ticks = CATALOG_LAG_FRESH_US / CATALOG_LAG_TICK_US - 1;
    int due = (c->n + ticks - 1) / ticks;
    c->to_ask = due > CATALOG_LAG_UNDER_WAY ? due : CATALOG_LAG_UNDER_WAY;
    c->to_ask = c->to_ask < c->n ? c->to_ask : c->n;
    c->to_ask = c->one_queue ? 1 : c->to_ask;
    for (int i = 0; i < CATALOG_LAG_UNDER_WAY && c->to_ask > 0; i++) {
        if (!c->asks[i].busy)
            ask(w, &c->asks[i]);
    }
    sched_set_in(w->sched, t, CATALOG_LAG_TICK_US);
}

const struct catalog_backlog *catalog_backlog(struct worker *w, struct item item)
{
    struct catalog *c = &w->catalog;
    const struct catalog_item *it = find(c, item);
    const struct catalog_backlog *b = c->one_queue ? &c->all : it ? &it->backlog : NULL;
    if (!b || b->at_us == 0 || w->sched->now_us - b->at_us > CATALOG_LAG_FRESH_US)
        return NULL;
    return b;
}

static void show_pending(struct worker *w)
{
    const struct catalog *c = &w->catalog;
    int64_t sum = 0;
    for (int i = 0; i < c->n && sum >= 0; i++)
        sum = c->items[i].pending < 0 ? -1 : sum + c->items[i].pending;
    if (sum < 0)
        metric_set_unknown(w->metrics.pending);
    else
        metric_set(w->metrics.pending, sum);
}

void catalog_saw_pending(struct worker *w, struct item item, int64_t pending)
{
    struct catalog_item *seen = find(&w->catalog, item);
    if (seen)
        seen->pending = pending;
    show_pending(w);
}

void catalog_saw_commands(struct worker *w, struct item item, int64_t until_ms)
{
    struct catalog_item *seen = find(&w->catalog, item);
    if (seen && seen->commands_until_ms < until_ms)
        seen->commands_until_ms = until_ms;
}

int64_t catalog_commands_until_ms(struct worker *w, struct item item)
{
    const struct catalog_item *seen = find(&w->catalog, item);
    return seen ? seen->commands_until_ms : 0;
}

void catalog_forget_pending(struct worker *w)
{
    for (int i = 0; i < w->catalog.n; i++)
        w->catalog.items[i].pending = -1;
    metric_set_unknown(w->metrics.pending);
}

void catalog_init(struct worker *w)
{
    struct catalog *c = &w->catalog;
    c->max = w->cfg.max_items;
    c->items = calloc((size_t)c->max, sizeof c->items[0]);
    c->fresh = calloc((size_t)c->max, sizeof c->fresh[0]);
    c->seen = calloc((size_t)c->max, sizeof c->seen[0]);
    c->warmed = calloc((size_t)c->max, sizeof c->warmed[0]);
    c->warmed_read = calloc((size_t)c->max, sizeof c->warmed[0]);
    if (c->max < 1 || !c->items || !c->warmed || !c->warmed_read || !c->fresh || !c->seen)
        panic("no memory for %d items", c->max);
    metric_set(w->metrics.items, 0);
    metric_set(w->metrics.items_surplus, 0);
    metric_set(w->metrics.items_unlisted, 0);
}

void catalog_deinit(struct worker *w)
{
    free(w->catalog.items);
    free(w->catalog.fresh);
    free(w->catalog.seen);
    free(w->catalog.warmed);
    free(w->catalog.warmed_read);
}

void catalog_start(struct worker *w)
{
    struct catalog *c = &w->catalog;
    c->read_at_us = w->sched->now_us;
    c->items_timer = (struct timer){.on_fire = on_items_time};
    c->lag_timer = (struct timer){.on_fire = on_lag_time};
    sched_set(w->sched, &c->items_timer, w->sched->now_us);
    sched_set_in(w->sched, &c->lag_timer, CATALOG_LAG_TICK_US / 10);
}

void catalog_stop(struct worker *w)
{
    sched_clear(w->sched, &w->catalog.items_timer);
    sched_clear(w->sched, &w->catalog.lag_timer);
}
