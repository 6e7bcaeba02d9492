#include "core/hint.h"

#include "base/hash.h"
#include "base/panic.h"
#include <stdatomic.h>
#include <stdlib.h>

struct hint_set *hint_set_new(struct item item, struct item_version version, size_t n_max)
{
    if (n_max > SIZE_MAX / 32)
        return NULL;
    size_t cap = 16;
    while (cap / 4 * 3 < n_max)
        cap *= 2;
    struct hint_set *s = calloc(1, sizeof *s + cap * sizeof s->slots[0]);
    if (!s)
        return NULL;
    atomic_init(&s->refs, 1);
    s->item = item;
    s->version = version;
    s->cap = cap;
    return s;
}

/* The user's slot, or the free one where it would stand. */
static size_t find(const struct hint_set *s, int64_t user_id)
{
    size_t at = (size_t)hash_mix64((uint64_t)user_id) & (s->cap - 1);
    while (s->slots[at] && s->slots[at] != user_id)
        at = (at + 1) & (s->cap - 1);
    return at;
}

bool hint_set_add(struct hint_set *s, int64_t user_id)
{
    if (user_id == 0)
        panic("hint: user 0");
    size_t at = find(s, user_id);
    if (s->slots[at])
        return true; /* HSCAN may say the same one twice */
    if (s->n >= s->cap / 4 * 3)
        return false;
    s->slots[at] = user_id;
    s->n++;
    return true;
}

bool hint_set_has(const struct hint_set *s, int64_t user_id)
{
    return user_id != 0 && s->slots[find(s, user_id)] == user_id;
}

struct hint_set *hint_set_ref(struct hint_set *s)
{
    atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
    return s;
}

void hint_set_unref(struct hint_set *s)
{
    if (s && atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) == 1)
        free(s);
}

enum hint_decision hint_decide(struct hint *h, int64_t user_id, int64_t now_us)
{
    if (!h->set)
        return HINT_ASK;
    /* Whoever holds a unit, or held one when the set was made, hears it from Redis. */
    if (now_us >= h->valid_until_us || hint_set_has(h->set, user_id))
        return HINT_ASK;
    if (now_us >= h->probe_at_us) {
        h->probe_at_us = now_us + HINT_PROBE_INTERVAL_US;
        return HINT_PROBE;
    }
    return HINT_REFUSE;
}

void hint_saw(struct hint *h, struct item_version v, bool sold_out, int64_t sent_us)
{
    if (item_version_cmp(v, h->seen) > 0) {
        h->seen = v;
        hint_end(h);
        return;
    }
    /* Identical to the set's: then nothing joined or left buyers and no unit came back (rule 7). */
    if (!h->set || !sold_out || item_version_cmp(v, h->set->version) != 0)
        return;
    if (sent_us + HINT_VALID_US > h->valid_until_us)
        h->valid_until_us = sent_us + HINT_VALID_US;
}

bool hint_install(struct hint *h, struct hint_set *set, int64_t now_us)
{
    if (item_version_cmp(set->version, h->seen) < 0) {
        hint_set_unref(set);
        return false;
    }
    hint_end(h);
    h->seen = set->version;
    h->set = set;
    h->probe_at_us = now_us + HINT_PROBE_INTERVAL_US;
    h->valid_until_us = now_us + HINT_VALID_US;
    return true;
}

void hint_end(struct hint *h)
{
    hint_set_unref(h->set);
    h->set = NULL;
}
