#include "adapter/mem/mem_call.h"

#include "base/err.h"
#include "base/panic.h"
#include <stdlib.h>
#include <string.h>

void *mem_alloc(size_t n)
{
    void *p = calloc(1, n ? n : 1);
    if (!p)
        panic("mem: no memory for %zu bytes", n);
    return p;
}

void mem_link_init(struct mem_link *l, struct sched *sched, int64_t latency_us)
{
    *l = (struct mem_link){.sched = sched, .latency_us = latency_us ? latency_us : 1000};
    list_init(&l->calls);
}

static void call_free(struct mem_call *c)
{
    sched_clear(c->owner->sched, &c->arrive);
    sched_clear(c->owner->sched, &c->tell);
    list_remove(&c->link);
    free(c->aux);
    free(c);
}

static bool on_the_way(const struct mem_call *c)
{
    return c->arrive.slot != 0;
}

/* Tells the caller once; what has not arrived yet stays on its way as a tombstone. */
static void tell(struct mem_call *c, int rc)
{
    struct op *op = c->op;
    c->op = NULL;
    if (!on_the_way(c))
        call_free(c);
    op->on_done(op, rc);
}

static bool answers(const struct mem_call *c)
{
    switch (c->fault.kind) {
    case MEM_FAULT_REPLY_LOST:
    case MEM_FAULT_REQUEST_LOST:
        return false;
    default:
        return true;
    }
}

static void on_tell(struct timer *t)
{
    struct mem_call *c = container_of(t, struct mem_call, tell);
    if (c->cut || !answers(c)) {
        tell(c, ERR_UNCERTAIN);
        return;
    }
    if (c->before_answer && c->rc >= 0)
        c->before_answer(c, c->request, c->op);
    if (c->rc >= 0)
        memcpy((char *)c->op + sizeof(struct op), c->request + sizeof(struct op),
               c->size - sizeof(struct op));
    tell(c, c->rc);
}

static void on_arrive(struct timer *t)
{
    struct mem_call *c = container_of(t, struct mem_call, arrive);
    switch (c->fault.kind) {
    case MEM_FAULT_NOT_DONE:
        c->rc = ERR_UNAVAIL;
        break;
    case MEM_FAULT_ANSWER:
        c->rc = (int)c->fault.delay_us;
        break;
    case MEM_FAULT_REQUEST_LOST:
        break;
    case MEM_FAULT_TWICE:
        c->apply(c, c->request);
        c->rc = c->apply(c, c->request);
        break;
    default:
        c->rc = c->apply(c, c->request);
    }
    if (!c->op)
        call_free(c);
}

static void on_refuse(struct timer *t)
{
    struct mem_call *c = container_of(t, struct mem_call, tell);
    tell(c, ERR_DEADLINE);
}

struct mem_call *mem_call_start(struct mem_link *l, int kind, struct op *op, size_t size,
                                void *port, int (*apply)(struct mem_call *, void *))
{
    struct mem_call *c = mem_alloc(sizeof *c + size);
    memcpy(c->request, op, size);
    c->size = size;
    c->owner = l;
    c->op = op;
    c->port = port;
    c->apply = apply;
    c->submitted_us = l->sched->now_us;
    c->fault = mem_faults_take(&l->faults, kind);
    list_push_back(&l->calls, &c->link);
    c->arrive.on_fire = on_arrive;
    if (op->deadline_us <= l->sched->now_us) {
        c->tell.on_fire = on_refuse;
        sched_set_in(l->sched, &c->tell, 0);
        return c;
    }
    int64_t arrives = l->sched->now_us + l->latency_us / 2;
    if (c->fault.kind == MEM_FAULT_HELD_BACK)
        arrives += c->fault.delay_us;
    int64_t answered = arrives + l->latency_us - l->latency_us / 2;
    if (c->fault.kind == MEM_FAULT_REPLY_LATE)
        answered += c->fault.delay_us;
    sched_set(l->sched, &c->arrive,
              arrives); /* first: at the same instant the arrival comes first */
    c->tell.on_fire = on_tell;
    c->cut = answered > op->deadline_us;
    sched_set(l->sched, &c->tell, c->cut ? op->deadline_us : answered);
    return c;
}

static void on_canceled(struct timer *t)
{
    struct mem_call *c = container_of(t, struct mem_call, tell);
    bool unsent = c->owner->sched->now_us == c->submitted_us;
    if (unsent)
        sched_clear(c->owner->sched, &c->arrive);
    tell(c, unsent ? ERR_CANCELED : ERR_UNCERTAIN);
}

bool mem_call_cancel(struct mem_link *l, struct op *op)
{
    list_for_each (it, &l->calls) {
        struct mem_call *c = container_of(it, struct mem_call, link);
        if (c->op == op) {
            c->tell.on_fire = on_canceled;
            sched_set_in(l->sched, &c->tell, 0);
            return true;
        }
    }
    return false;
}

void mem_link_deinit(struct mem_link *l)
{
    while (!list_empty(&l->calls)) {
        struct mem_call *c = container_of(l->calls.next, struct mem_call, link);
        int rc =
            on_the_way(c) && l->sched->now_us == c->submitted_us ? ERR_CANCELED : ERR_UNCERTAIN;
        sched_clear(l->sched, &c->arrive);
        if (c->op)
            tell(c, rc);
        else
            call_free(c);
    }
}
