/* The sold-out hints of one loop: every item's core/hint.h, found by item (rules 10–12).
 *
 * Every answer of the stock port passes through hints_saw, so that each item's "newest heard of" is
 * known before a set arrives: a set is installed only for an item that is tracked. At most
 * HINT_ITEMS_MAX items are tracked; when that is full, those that nobody asked for within
 * HINT_IDLE_US make room, and if there is none the new item has no hint: its buyers ask Redis
 * (seckill_hint_untracked_total). A set lives for less than HINT_IDLE_US between its load and its
 * installation, so forgetting an idle item's version is safe. One thread, no heap. */
#pragma once

#include "app/hint_index.h"
#include "base/metric.h"
#include "core/hint.h"

#define HINT_IDLE_US INT64_C(600000000)
/* How often a loop asks the loader for the same item's set. */
#define HINT_ASK_US 100000

struct hints_item {
    struct hint hint;
    int64_t used_us, asked_us;
};

struct hints {
    /* This item was said to be sold out at v and no set is there: get one. At most once per item
     * and HINT_ASK_US. NULL: hints are switched off. */
    void (*on_sold_out)(struct hints *h, struct item item, struct item_version v);
    /* internal */
    struct hint_index index;
    struct hints_item items[HINT_ITEMS_MAX];
    int64_t swept_us;
    struct metric *refused, *probes, *ended, *untracked;
};

void hints_init(struct hints *h);   /* keeps on_sold_out */
void hints_deinit(struct hints *h); /* drops all sets */
/* HINT_REFUSE: sold out, certainly not one of the buyers. */
enum hint_decision hints_decide(struct hints *h, struct item item, int64_t user_id, int64_t now_us);
/* An answer that carried the item's version; sent_us: when its request was written. */
void hints_saw(struct hints *h, struct item item, struct item_version v, bool sold_out,
               int64_t sent_us, int64_t now_us);
/* News by PUBLISH: a newer version ends the hint at once. */
void hints_heard(struct hints *h, struct item item, struct item_version v);
/* Takes the set over; drops it if a newer version was heard of (rule 10). True: in force. */
bool hints_install(struct hints *h, struct hint_set *set, int64_t now_us);
/* The subscription is down, or news were lost: no hint until new sets come (rule 11). */
void hints_off(struct hints *h);
