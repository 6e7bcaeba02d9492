#include "adapter/mem/mem_results.h"

#include "adapter/mem/mem_call.h"
#include "base/panic.h"
#include <stdlib.h>
#include <string.h>

struct mem_results {
    struct results port;
    struct mem_link link;
    struct result *told;
    int n, cap;
    int64_t refused_user;
};

static struct mem_results *of(struct results *r)
{
    return container_of(r, struct mem_results, port);
}

static void keep(struct mem_results *m, const struct result *r)
{
    if (m->n == m->cap) {
        m->cap = m->cap ? 2 * m->cap : 64;
        m->told = realloc(m->told, (size_t)m->cap * sizeof m->told[0]);
        if (!m->told)
            panic("mem: no memory for results");
    }
    m->told[m->n++] = *r;
}

/* The rows are the caller's: they live until on_done, and this may come later. */
static int apply(struct mem_call *c, void *request)
{
    struct mem_results *m = c->port;
    const struct results_publish *p = request;
    const struct results_row *rows = c->aux;
    for (int i = 0; i < p->n; i++) {
        if (rows[i].result.user_id != m->refused_user)
            keep(m, &rows[i].result);
    }
    return 0;
}

static void before_answer(struct mem_call *c, void *request, void *callers)
{
    const struct mem_results *m = c->port;
    const struct results_publish *p = callers;
    (void)request;
    for (int i = 0; i < p->n; i++)
        p->rows[i].published = p->rows[i].result.user_id != m->refused_user;
}

static void publish(struct results *port, struct results_publish *p)
{
    struct mem_results *m = of(port);
    for (int i = 0; i < p->n; i++)
        p->rows[i].published = false;
    struct mem_call *c = mem_call_start(&m->link, MEM_RESULTS_PUBLISH, &p->op, sizeof *p, m, apply);
    c->aux = mem_alloc((size_t)p->n * sizeof p->rows[0]);
    memcpy(c->aux, p->rows, (size_t)p->n * sizeof p->rows[0]);
    c->before_answer = before_answer;
}

static void cancel(struct results *port, struct op *op)
{
    mem_call_cancel(&of(port)->link, op);
}

static const struct results_ops ops = {.publish = publish, .cancel = cancel};

struct results *mem_results_new(struct sched *sched)
{
    struct mem_results *m = mem_alloc(sizeof *m);
    m->port.ops = &ops;
    mem_link_init(&m->link, sched, 0);
    return &m->port;
}

void mem_results_free(struct results *r)
{
    struct mem_results *m = of(r);
    mem_link_deinit(&m->link);
    free(m->told);
    free(m);
}

struct mem_faults *mem_results_faults(struct results *r)
{
    return &of(r)->link.faults;
}

const struct result *mem_results_told(const struct results *r, int n)
{
    const struct mem_results *m = (const struct mem_results *)(const void *)r;
    return n < m->n ? &m->told[n] : NULL;
}

int mem_results_count(const struct results *r)
{
    return ((const struct mem_results *)(const void *)r)->n;
}

void mem_results_refuse(struct results *r, int64_t user_id)
{
    of(r)->refused_user = user_id;
}
