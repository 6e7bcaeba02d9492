#include "app/past.h"

#include "base/hash.h"
#include "base/log.h"
#include <string.h>

enum { WAYS = 4, SETS = PAST_ITEMS / WAYS };

void past_init(struct past *p)
{
    memset(p->items, 0, sizeof(p->items));
    p->behind =
        metric_counter("seckill_store_behind_total",
                       "reserves refused, and look-ups asked again of PostgreSQL, because the "
                       "store lacks what it said before",
                       NULL);
    p->untracked =
        metric_counter("seckill_past_untracked_total",
                       "answers of items of which there was no room to know the past", NULL);
}

static struct past_item *set_of(struct past *p, struct item item)
{
    uint64_t h = hash_mix64((uint64_t)item.activity_id ^ hash_mix64((uint64_t)item.sku_id));
    return &p->items[h % SETS * WAYS];
}

static struct past_item *find(struct past *p, struct item item)
{
    struct past_item *set = set_of(p, item);
    for (int i = 0; i < WAYS; i++) {
        if (set[i].heard_us && item_eq(set[i].item, item))
            return &set[i];
    }
    return NULL;
}

static struct past_item *track(struct past *p, struct item item, int64_t now_us)
{
    struct past_item *it = find(p, item), *set = set_of(p, item), *oldest = &set[0];
    if (it)
        return it;
    for (int i = 1; i < WAYS; i++) {
        if (set[i].heard_us < oldest->heard_us)
            oldest = &set[i];
    }
    if (oldest->heard_us && now_us - oldest->heard_us < PAST_IDLE_US) {
        metric_add(p->untracked, 1);
        return NULL;
    }
    *oldest = (struct past_item){.item = item, .heard_us = now_us};
    return oldest;
}

struct stock_past past_of(struct past *p, struct item item, int64_t now_us)
{
    struct past_item *it = find(p, item);
    if (!it)
        return (struct stock_past){0};
    struct stock_past past = it->past;
    if (it->missing_until_us > now_us) {
        past.checked_connection = 0; /* over no connection until it is there */
    } else if (it->missing_until_us || it->heard_us - it->confirmed_us > PAST_WITNESS_US) {
        it->missing_until_us = 0;
        it->past.witness_user = past.witness_user = 0;
    }
    return past;
}

static void note_version(struct past_item *it, struct item_version v)
{
    if (item_version_cmp(v, it->past.seen) <= 0)
        return;
    if (v.epoch != it->past.seen.epoch) { /* rebuilt: what it kept is its own affair */
        it->past.witness_user = 0;
        it->missing_until_us = 0;
    }
    it->past.seen = v;
}

static void note_behind(struct past *p, struct past_item *it, const struct stock_reserve *r,
                        int64_t now_us)
{
    static struct log_limit limit;
    uint64_t suppressed;
    metric_add(p->behind, 1);
    if (it && r->asked_witness && !it->missing_until_us)
        it->missing_until_us = now_us + PAST_MISSING_US;
    if (log_allowed(&limit, now_us, &suppressed))
        log_warn("the store lacks what it said before: the item is not sold",
                 LOG_I("activity_id", r->item.activity_id), LOG_I("sku_id", r->item.sku_id),
                 LOG_I("epoch", r->version.epoch), LOG_I("seq", r->version.seq),
                 LOG_I("seen_epoch", r->past.seen.epoch), LOG_I("seen_seq", r->past.seen.seq),
                 LOG_I("suppressed", (int64_t)suppressed));
}

void past_answered(struct past *p, const struct stock_reserve *r, int rc, int64_t now_us)
{
    if (rc == STOCK_NO_ITEM)
        return;
    if (rc == STOCK_BEHIND) {
        note_behind(p, find(p, r->item), r, now_us);
        return;
    }
    struct past_item *it = track(p, r->item, now_us);
    if (!it)
        return;
    it->heard_us = now_us;
    /* An answer that speaks of the witness of then does not speak of a later one. */
    bool same = it->past.witness_user == r->past.witness_user &&
                uuid_eq(&it->past.witness_request, &r->past.witness_request);
    if (rc != STOCK_TOO_LATE && same) {
        it->past.checked_connection = r->connection;
        if (r->asked_witness)
            it->missing_until_us = 0;
    }
    note_version(it, r->version);
}

bool past_behind(struct past *p, struct item item, struct item_version v, int64_t now_us)
{
    struct past_item *it = track(p, item, now_us);
    if (!it)
        return false;
    it->heard_us = now_us;
    bool behind = item_version_cmp(v, it->past.seen) < 0;
    metric_add(p->behind, behind);
    note_version(it, v);
    return behind;
}

void past_heard(struct past *p, struct item item, struct item_version v)
{
    struct past_item *it = find(p, item);
    if (it)
        note_version(it, v);
}

void past_confirmed(struct past *p, const struct stock_reserve *r, int64_t now_us)
{
    struct past_item *it = find(p, r->item);
    if (!it || it->past.seen.epoch != r->found.epoch || it->missing_until_us)
        return;
    it->past.witness_user = r->user_id;
    it->past.witness_request = r->request_id;
    it->past.checked_connection = r->connection;
    it->confirmed_us = now_us;
}
