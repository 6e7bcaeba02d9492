/* The flows of one kind that a loop may have under way: a fixed number, taken and given back
 * without an allocation. What is taken beyond it is refused, so the number is the admission bound.
 *
 * A pool owns the memory of its flows. The one given back last is taken next: its memory is still
 * in the cache. One thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct flow_pool {
    char *flows;
    void **free; /* a stack */
    int n, n_free;
};

/* The memory of n flows of `size` bytes each, zeroed: 0, or ERR_OVERLOAD without it. */
int flow_pool_init(struct flow_pool *p, int n, size_t size);
/* No flow may be under way. Harmless after a failed init, and on a zeroed pool. */
void flow_pool_deinit(struct flow_pool *p);

static inline int flow_pool_busy(const struct flow_pool *p)
{
    return p->n - p->n_free;
}

static inline bool flow_pool_has_free(const struct flow_pool *p)
{
    return p->n_free > 0;
}

/* NULL: all are under way. A flow's memory is as its last user left it. */
static inline void *flow_pool_take(struct flow_pool *p)
{
    return p->n_free ? p->free[--p->n_free] : NULL;
}

static inline void flow_pool_put(struct flow_pool *p, void *flow)
{
    p->free[p->n_free++] = flow;
}
