#include "base/flow_pool.h"

#include "base/err.h"
#include "base/panic.h"
#include <stdlib.h>

int flow_pool_init(struct flow_pool *p, int n, size_t size)
{
    *p = (struct flow_pool){.flows = calloc((size_t)n, size),
                            .free = calloc((size_t)n, sizeof(p->free[0]))};
    if (!p->flows || !p->free) {
        flow_pool_deinit(p);
        return ERR_OVERLOAD;
    }
    p->n = n;
    while (p->n_free < n) {
        p->free[p->n_free] = p->flows + (size_t)(n - 1 - p->n_free) * size;
        p->n_free++;
    }
    return 0;
}

void flow_pool_deinit(struct flow_pool *p)
{
    if (flow_pool_busy(p))
        panic("flow_pool: freed with %d flows under way", flow_pool_busy(p));
    free(p->flows);
    free(p->free);
    *p = (struct flow_pool){0};
}
