#include "app/hint.h"

#include <string.h>

#define SWEEP_US 1000000

void hints_init(struct hints *h)
{
    hint_index_clear(&h->index);
    memset(h->items, 0, sizeof(h->items));
    h->swept_us = 0;
    h->refused = metric_counter("seckill_hint_refused_total",
                                "requests refused by the sold-out hint, without Redis", NULL);
    h->probes = metric_counter("seckill_hint_probes_total",
                               "requests let through to renew a sold-out hint", NULL);
    h->ended = metric_counter("seckill_hint_ended_total",
                              "sold-out hints that news ended: something changed", NULL);
    h->untracked = metric_counter("seckill_hint_untracked_total",
                                  "answers of items for which there was no room for a hint", NULL);
}

void hints_off(struct hints *h)
{
    for (int i = 0; i < h->index.n; i++)
        hint_end(&h->items[i].hint);
}

void hints_deinit(struct hints *h)
{
    hints_off(h);
    hint_index_clear(&h->index);
}

static struct hints_item *find(struct hints *h, struct item item)
{
    int at = hint_index_find(&h->index, item);
    return at < 0 ? NULL : &h->items[at];
}

/* Drops the items that nobody asks for any more; at most once in SWEEP_US, since it costs a walk.
 */
static void sweep(struct hints *h, int64_t now_us)
{
    if (h->swept_us && now_us - h->swept_us < SWEEP_US)
        return;
    h->swept_us = now_us;
    int n = h->index.n, kept = 0;
    hint_index_clear(&h->index);
    for (int i = 0; i < n; i++) {
        struct item item = h->index.items[i];
        if (now_us - h->items[i].used_us >= HINT_IDLE_US) {
            hint_end(&h->items[i].hint);
            continue;
        }
        struct hints_item moved = h->items[i];
        kept = hint_index_add(&h->index, item);
        h->items[kept] = moved;
    }
}

static struct hints_item *track(struct hints *h, struct item item, int64_t now_us)
{
    int at = hint_index_find(&h->index, item);
    if (at < 0) {
        if (h->index.n == HINT_ITEMS_MAX)
            sweep(h, now_us);
        at = hint_index_add(&h->index, item);
        if (at < 0) {
            metric_add(h->untracked, 1);
            return NULL;
        }
        h->items[at] = (struct hints_item){.asked_us = now_us - HINT_ASK_US};
    }
    h->items[at].used_us = now_us;
    return &h->items[at];
}

enum hint_decision hints_decide(struct hints *h, struct item item, int64_t user_id, int64_t now_us)
{
    struct hints_item *it = find(h, item);
    if (!it)
        return HINT_ASK;
    it->used_us = now_us;
    enum hint_decision d = hint_decide(&it->hint, user_id, now_us);
    if (d == HINT_REFUSE)
        metric_add(h->refused, 1);
    else if (d == HINT_PROBE)
        metric_add(h->probes, 1);
    return d;
}

void hints_saw(struct hints *h, struct item item, struct item_version v, bool sold_out,
               int64_t sent_us, int64_t now_us)
{
    struct hints_item *it;
    if (!h->on_sold_out || !(it = track(h, item, now_us)))
        return;
    hint_saw(&it->hint, v, sold_out, sent_us);
    /* An answer older than what was heard of is no reason to load. */
    if (!sold_out || it->hint.set || item_version_cmp(v, it->hint.seen) < 0)
        return;
    if (now_us - it->asked_us < HINT_ASK_US)
        return;
    it->asked_us = now_us;
    h->on_sold_out(h, item, v);
}

void hints_heard(struct hints *h, struct item item, struct item_version v)
{
    struct hints_item *it = find(h, item);
    if (!it)
        return;
    bool held = it->hint.set != NULL;
    hint_saw(&it->hint, v, false, 0);
    if (held && !it->hint.set)
        metric_add(h->ended, 1);
}

bool hints_install(struct hints *h, struct hint_set *set, int64_t now_us)
{
    struct hints_item *it = find(h, set->item);
    if (!it) {
        hint_set_unref(set);
        return false;
    }
    return hint_install(&it->hint, set, now_us);
}
