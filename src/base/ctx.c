#include "base/ctx.h"

#include <stddef.h>

void ctx_init(struct ctx *c, const struct ctx *parent, int64_t deadline_us)
{
    if (parent && parent->deadline_us < deadline_us)
        deadline_us = parent->deadline_us;
    c->deadline_us = deadline_us;
    c->parent = parent;
    atomic_init(&c->canceled, false);
}

void ctx_cancel(struct ctx *c)
{
    atomic_store_explicit(&c->canceled, true, memory_order_relaxed);
}

static bool canceled(const struct ctx *c)
{
    /* Relaxed: the flag is a hint that is looked at again and again, and publishes no other data.
     */
    for (; c; c = c->parent) {
        if (atomic_load_explicit(&c->canceled, memory_order_relaxed))
            return true;
    }
    return false;
}

int ctx_check(const struct ctx *c, int64_t now_us)
{
    if (canceled(c))
        return ERR_CANCELED;
    return now_us >= c->deadline_us ? ERR_DEADLINE : 0;
}

int64_t ctx_left_us(const struct ctx *c, int64_t now_us)
{
    if (canceled(c) || now_us >= c->deadline_us)
        return 0;
    return c->deadline_us == CTX_NO_DEADLINE ? CTX_NO_DEADLINE : c->deadline_us - now_us;
}
