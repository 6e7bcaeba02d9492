/* The sold-out hint of one item as one loop sees it (rules 10–12): negative only. While it holds,
 * whoever is not among the buyers is refused without Redis. Pure: versions, times and the set are
 * passed in. */
#pragma once

#include "core/item.h"
#include <stddef.h>

/* The buyers of a sold-out item: immutable once built, shared by the loops, counted. */
struct hint_set {
    _Atomic int refs;
    struct item item;
    struct item_version version;
    size_t n, cap;   /* cap: a power of two > n */
    int64_t slots[]; /* user ids; 0 is free */
};
struct hint_set *hint_set_new(struct item item, struct item_version version,
                              size_t n_max); /* NULL: no memory */
/* Before it is shared. False when it is full: the set lacks somebody and must be thrown away. */
bool hint_set_add(struct hint_set *s, int64_t user_id);
bool hint_set_has(const struct hint_set *s, int64_t user_id);
struct hint_set *hint_set_ref(struct hint_set *s);
void hint_set_unref(struct hint_set *s);

enum hint_decision {
    HINT_ASK,   /* no hint: ask Redis */
    HINT_PROBE, /* ask Redis, and the answer renews or ends the hint: one per probe interval */
    HINT_REFUSE /* sold out, certainly not one of the buyers */
};

struct hint {
    struct hint_set *set;     /* NULL: off */
    struct item_version seen; /* the newest version heard of, by PUBLISH or any answer */
    int64_t probe_at_us;      /* when the next probe may go */
    int64_t valid_until_us;   /* without a confirming probe by then the hint ends */
};

#define HINT_PROBE_INTERVAL_US 50000
#define HINT_VALID_US 150000

enum hint_decision hint_decide(struct hint *h, int64_t user_id, int64_t now_us);
/* Any answer's version (and whether it said sold out); a newer one ends the hint, the identical one
 * renews it if it said sold out and was sent at sent_us. */
void hint_saw(struct hint *h, struct item_version v, bool sold_out, int64_t sent_us);
/* Takes the set over if it is the newest heard of; else unrefs it. True when it was taken. */
bool hint_install(struct hint *h, struct hint_set *set, int64_t now_us);
void hint_end(struct hint *h);
