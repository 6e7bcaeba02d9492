#include "core/order_id.h"

#include "base/panic.h"

#define COUNTER_BITS 12
#define COUNTER_MAX ((INT64_C(1) << COUNTER_BITS) - 1)
#define INSTANCE_BITS 10
#define MS_MAX ((INT64_C(1) << 41) - 1)

_Static_assert(ORDER_ID_INSTANCES == 1 << INSTANCE_BITS, "an instance number has its own bits");

void order_id_init(struct order_id_source *s)
{
    atomic_init(&s->last, 0);
    atomic_init(&s->instance, -1);
    atomic_init(&s->valid_until_us, INT64_MIN);
}

static void raise_last(struct order_id_source *s, int64_t least)
{
    int64_t last = atomic_load(&s->last);
    while (last < least && !atomic_compare_exchange_weak(&s->last, &last, least))
        ;
}

void order_id_grant(struct order_id_source *s, int instance, int64_t floor_ms,
                    int64_t valid_until_us)
{
    if (instance < 0 || instance >= ORDER_ID_INSTANCES)
        panic("order_id: instance %d", instance);
    int held = atomic_load(&s->instance);
    if (held != instance) {
        atomic_store(&s->instance, -1);
        /* The instance stands above the counter: within one ms, a lower number would go backwards.
         */
        int64_t last = atomic_load(&s->last);
        if (last)
            raise_last(s, last | COUNTER_MAX);
    }
    if (floor_ms >= ORDER_ID_EPOCH_MS) {
        int64_t ms = floor_ms - ORDER_ID_EPOCH_MS;
        raise_last(s, (ms < MS_MAX ? ms : MS_MAX) << COUNTER_BITS | COUNTER_MAX);
    }
    atomic_store(&s->valid_until_us, valid_until_us);
    atomic_store(&s->instance, instance);
}

void order_id_revoke(struct order_id_source *s)
{
    atomic_store(&s->instance, -1);
    atomic_store(&s->valid_until_us, INT64_MIN);
}

bool order_id_held(const struct order_id_source *s, int64_t mono_us)
{
    return atomic_load(&s->instance) >= 0 && mono_us < atomic_load(&s->valid_until_us);
}

int order_id_next(struct order_id_source *s, int64_t wall_ms, int64_t mono_us, int64_t *out)
{
    int64_t now = wall_ms - ORDER_ID_EPOCH_MS;
    if (now < 0 || now > MS_MAX)
        return ERR_UNAVAIL;
    int64_t last = atomic_load(&s->last);
    for (;;) {
        int instance = atomic_load(&s->instance);
        if (instance < 0 || mono_us >= atomic_load(&s->valid_until_us))
            return ERR_UNAVAIL;
        int64_t next = now << COUNTER_BITS;
        if (next <= last)
            next = last + 1;
        if (next >> COUNTER_BITS > now + ORDER_ID_MAX_AHEAD_MS || next >> COUNTER_BITS > MS_MAX)
            return ERR_UNAVAIL;
        if (!atomic_compare_exchange_weak(&s->last, &last, next))
            continue;
        /* Granted another number in between: this place in the order is wasted, not used under the
         * old one. */
        if (atomic_load(&s->instance) != instance) {
            last = atomic_load(&s->last);
            continue;
        }
        *out = (next >> COUNTER_BITS) << (INSTANCE_BITS + COUNTER_BITS) |
               (int64_t)instance << COUNTER_BITS | (next & COUNTER_MAX);
        return 0;
    }
}

int64_t order_id_ms(int64_t id)
{
    return (id >> (INSTANCE_BITS + COUNTER_BITS)) + ORDER_ID_EPOCH_MS;
}

int64_t order_id_highest_ms(const struct order_id_source *s)
{
    int64_t last = atomic_load(&s->last);
    return last ? (last >> COUNTER_BITS) + ORDER_ID_EPOCH_MS : 0;
}
