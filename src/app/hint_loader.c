#include "app/hint_loader.h"

#include "base/panic.h"
#include <string.h>

static struct hint_loader *loader_of(struct flow *f)
{
    return container_of(f, struct hint_loader, flow);
}

/* --- what is known of the items --- */

static void forget_idle(struct hint_loader *l)
{
    int n = l->index.n;
    if (l->loading) /* its place must not move */
        return;
    hint_index_clear(&l->index);
    for (int i = 0; i < n; i++) {
        struct item item = l->index.items[i];
        struct hint_loader_item it = l->items[i];
        if (l->sched->now_us - it.heard_us < HINT_LOADER_IDLE_US)
            l->items[hint_index_add(&l->index, item)] = it;
    }
}

static struct hint_loader_item *track(struct hint_loader *l, struct item item)
{
    int at = hint_index_find(&l->index, item);
    if (at < 0) {
        if (l->index.n == HINT_ITEMS_MAX)
            forget_idle(l);
        at = hint_index_add(&l->index, item);
        if (at < 0) {
            metric_add(l->untracked, 1);
            return NULL;
        }
        l->items[at] = (struct hint_loader_item){0};
    }
    l->items[at].heard_us = l->sched->now_us;
    return &l->items[at];
}

static void heard(struct hint_loader_item *it, struct item_version v)
{
    if (item_version_cmp(v, it->seen) > 0)
        it->seen = v;
}

/* --- when to load --- */

/* Starts the load that is due first, or sets the timer for it. */
static void start_next(struct hint_loader *l)
{
    int first = -1;
    if (l->loading || !l->up || l->stopped)
        return;
    for (int i = 0; i < l->index.n; i++) {
        if (l->items[i].start_us && (first < 0 || l->items[i].start_us < l->items[first].start_us))
            first = i;
    }
    if (first < 0)
        return;
    if (l->items[first].start_us > l->sched->now_us) {
        sched_set(l->sched, &l->timer, l->items[first].start_us);
        return;
    }
    struct hint_loader_item *it = &l->items[first];
    it->start_us = 0;
    it->next_us = l->sched->now_us + HINT_LOAD_EVERY_US;
    l->at = first;
    l->item = l->index.items[first];
    l->loading = true;
    l->abort = false;
    flow_start(&l->flow, &hint_load_kind, HINT_LOAD_READ);
}

static void on_timer(struct timer *t)
{
    start_next(container_of(t, struct hint_loader, timer));
}

void hint_loader_sold_out(struct hint_loader *l, struct item item, struct item_version v)
{
    if (!l->up || l->stopped)
        return;
    struct hint_loader_item *it = track(l, item);
    if (!it)
        return;
    heard(it, v);
    /* Nothing to do: it is asked for already, or under way at a version that is not older. */
    if (it->start_us || item_version_cmp(v, it->seen) < 0)
        return;
    if (l->loading && item_eq(l->item, item) && item_version_cmp(v, l->version) <= 0)
        return;
    int64_t start = l->sched->now_us > it->next_us ? l->sched->now_us : it->next_us;
    it->start_us = start + (int64_t)rng_below(l->rng, HINT_LOAD_JITTER_US) + 1;
    if (!l->loading)
        start_next(l);
}

/* --- the load --- */

static enum flow_result wait_for(struct hint_loader *l, struct op *op,
                                 void (*on_done)(struct op *op, int rc))
{
    op->on_done = on_done;
    op->deadline_us = l->sched->now_us + l->call_us;
    return FLOW_WAIT;
}

static void go_on(struct hint_loader *l, int next)
{
    flow_goto(&l->flow, next);
    flow_resume(&l->flow);
}

static int drop(struct metric *why)
{
    metric_add(why, 1);
    return HINT_LOAD_DROP;
}

/* Whether the item still stands where the load began, as far as anybody has heard. */
static bool stands(const struct hint_loader *l)
{
    return !l->abort && item_version_cmp(l->items[l->at].seen, l->version) <= 0;
}

static int after_read(struct hint_loader *l, int rc)
{
    const struct stock_item_info *info = &l->call.get.info;
    if (l->abort || rc != 0)
        return drop(l->failed);
    if (info->state != STOCK_STATE_OPEN || info->free > 0)
        return drop(l->on_sale);
    if (info->buyers > l->max_buyers)
        return drop(l->over_bound);
    l->version = info->version;
    if (!stands(l))
        return drop(l->moved);
    heard(&l->items[l->at], info->version);
    l->set = hint_set_new(l->item, info->version, (size_t)info->buyers);
    if (!l->set)
        return drop(l->failed);
    memcpy(l->cursor, "0", 2);
    return HINT_LOAD_PAGE;
}

static void on_read(struct op *op, int rc)
{
    struct hint_loader *l = container_of(op, struct hint_loader, call.get.op);
    go_on(l, after_read(l, rc));
}

static enum flow_result get(struct hint_loader *l, void (*on_done)(struct op *op, int rc))
{
    memset(&l->call.get, 0, sizeof(l->call.get));
    l->call.get.item = l->item;
    wait_for(l, &l->call.get.op, on_done);
    l->stock->ops->item(l->stock, &l->call.get);
    return FLOW_WAIT;
}

static enum flow_result step_read(struct flow *f)
{
    return get(loader_of(f), on_read);
}

static int after_page(struct hint_loader *l, int rc)
{
    const struct stock_buyers *page = &l->call.page;
    if (l->abort || rc != 0)
        return drop(l->failed);
    if (!stands(l))
        return drop(l->moved);
    for (int i = 0; i < page->n; i++) {
        /* More users than the first reading counted: it moved. */
        if (l->users[i] == 0 || !hint_set_add(l->set, l->users[i]))
            return drop(l->moved);
    }
    memcpy(l->cursor, page->cursor, sizeof(l->cursor));
    return strcmp(l->cursor, "0") == 0 ? HINT_LOAD_CHECK : HINT_LOAD_PAGE;
}

static void on_page(struct op *op, int rc)
{
    struct hint_loader *l = container_of(op, struct hint_loader, call.page.op);
    go_on(l, after_page(l, rc));
}

static enum flow_result step_page(struct flow *f)
{
    struct hint_loader *l = loader_of(f);
    memset(&l->call.page, 0, sizeof(l->call.page));
    l->call.page.item = l->item;
    l->call.page.users = l->users;
    l->call.page.max = HINT_PAGE_MAX;
    memcpy(l->call.page.cursor, l->cursor, sizeof(l->cursor));
    wait_for(l, &l->call.page.op, on_page);
    l->stock->ops->buyers(l->stock, &l->call.page);
    return FLOW_WAIT;
}

static int after_check(struct hint_loader *l, int rc)
{
    const struct stock_item_info *info = &l->call.get.info;
    if (l->abort || rc != 0)
        return drop(l->failed);
    heard(&l->items[l->at], info->version);
    if (!stands(l) || item_version_cmp(info->version, l->version) != 0 || info->free > 0)
        return drop(l->moved);
    return HINT_LOAD_INSTALL;
}

static void on_check(struct op *op, int rc)
{
    struct hint_loader *l = container_of(op, struct hint_loader, call.get.op);
    go_on(l, after_check(l, rc));
}

static enum flow_result step_check(struct flow *f)
{
    return get(loader_of(f), on_check);
}

static enum flow_result step_install(struct flow *f)
{
    struct hint_loader *l = loader_of(f);
    struct hint_set *set = l->set;
    l->set = NULL;
    metric_add(l->installed, 1);
    l->on_set(l, set);
    return FLOW_DONE;
}

static enum flow_result step_drop(struct flow *f)
{
    struct hint_loader *l = loader_of(f);
    hint_set_unref(l->set);
    l->set = NULL;
    return FLOW_DONE;
}

static void on_end(struct flow *f)
{
    struct hint_loader *l = loader_of(f);
    l->loading = false;
    start_next(l);
}

static const struct flow_state states[HINT_LOAD_STATES] = {
    [HINT_LOAD_READ] = {"READ", FLOW_TO(HINT_LOAD_PAGE) | FLOW_TO(HINT_LOAD_DROP), step_read},
    [HINT_LOAD_PAGE] = {"PAGE",
                        FLOW_TO(HINT_LOAD_PAGE) | FLOW_TO(HINT_LOAD_CHECK) |
                            FLOW_TO(HINT_LOAD_DROP),
                        step_page},
    [HINT_LOAD_CHECK] = {"CHECK", FLOW_TO(HINT_LOAD_INSTALL) | FLOW_TO(HINT_LOAD_DROP), step_check},
    [HINT_LOAD_INSTALL] = {"INSTALL", 0, step_install},
    [HINT_LOAD_DROP] = {"DROP", 0, step_drop},
};
const struct flow_kind hint_load_kind = {
    .name = "hint_load", .states = HINT_LOAD_STATES, .state = states, .on_end = on_end};

/* --- news --- */

static void on_version(struct stock_news *news, struct item item, struct item_version v)
{
    struct hint_loader *l = container_of(news, struct hint_loader, news);
    int at = hint_index_find(&l->index, item);
    if (at >= 0) {
        heard(&l->items[at], v);
        l->items[at].heard_us = l->sched->now_us;
    }
    if (!l->stopped)
        l->on_news(l, item, v);
}

/* Ends what is under way and forgets what was asked for. */
static void end_loads(struct hint_loader *l)
{
    for (int i = 0; i < l->index.n; i++)
        l->items[i].start_us = 0;
    sched_clear(l->sched, &l->timer);
    if (l->loading && !l->abort) {
        l->abort = true;
        l->stock->ops->cancel(l->stock,
                              l->flow.state == HINT_LOAD_PAGE ? &l->call.page.op : &l->call.get.op);
    }
}

static void on_link(struct stock_news *news, bool up)
{
    struct hint_loader *l = container_of(news, struct hint_loader, news);
    l->up = up;
    metric_set(l->link, up);
    if (up || l->stopped)
        return;
    end_loads(l);
    l->on_off(l);
}

void hint_loader_init(struct hint_loader *l)
{
    static const char name[] = "seckill_hint_loads_total";
    static const char help[] = "loads of a sold-out item's buyers, by what became of them";
    l->news = (struct stock_news){.on_version = on_version, .on_link = on_link};
    hint_index_clear(&l->index);
    l->timer = (struct timer){.on_fire = on_timer};
    l->up = l->stopped = l->loading = l->abort = false;
    l->set = NULL;
    l->installed = metric_counter(name, help, "result=\"installed\"");
    l->moved = metric_counter(name, help, "result=\"moved\"");
    l->on_sale = metric_counter(name, help, "result=\"on_sale\"");
    l->over_bound = metric_counter(name, help, "result=\"over_bound\"");
    l->failed = metric_counter(name, help, "result=\"failed\"");
    l->untracked = metric_counter(name, help, "result=\"untracked\"");
    l->link = metric_gauge("seckill_hint_subscribed", "1 while the news of items arrive", NULL);
    metric_set(l->link, 0);
}

void hint_loader_stop(struct hint_loader *l)
{
    l->stopped = true;
    end_loads(l);
}

void hint_loader_deinit(struct hint_loader *l)
{
    if (!l->stopped || l->loading)
        panic("hint_loader: freed while a load is under way");
}
