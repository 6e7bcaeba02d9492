/* A call of a fake on its way: the request is copied, so that it is applied when it arrives even if
 * nobody waits for its answer any more (rule 15's late script is such a call). Internal to
 * adapter/mem.
 *
 *   submit ── latency/2 (+ held back) ──► apply ── latency/2 (+ late) ──► on_done(rc)
 *     └ deadline first: on_done(ERR_UNCERTAIN); what was sent is applied when it arrives */
#pragma once

#include "adapter/mem/mem_fault.h"
#include "base/op.h"
#include "base/sched.h"

/* One client of a fake: its clock, its faults, what it has under way. */
struct mem_link {
    struct sched *sched;
    int64_t latency_us;
    struct mem_faults faults;
    struct list calls;
};

struct mem_call {
    struct list link;
    struct mem_link *owner;
    struct timer arrive, tell;
    struct op *op; /* NULL: told already */
    struct mem_fault fault;
    int64_t submitted_us;
    int rc;
    bool cut;   /* the deadline comes before the answer */
    void *port; /* the fake's port that was called */
    int (*apply)(struct mem_call *c, void *request);
    /* Before the outputs are copied back: borrowed arrays of the caller's request are filled here.
     * May be NULL. */
    void (*before_answer)(struct mem_call *c, void *request, void *callers);
    void *aux; /* heap, goes with the call */
    size_t size;
    _Alignas(16) unsigned char request[];
};

void mem_link_init(struct mem_link *l, struct sched *sched, int64_t latency_us);
/* Completes everything under way, inside this call: ERR_CANCELED if it has not arrived, else
 * ERR_UNCERTAIN. */
void mem_link_deinit(struct mem_link *l);
/* Submits the request that begins with op and has `size` bytes. The answer's bytes after the op are
 * copied back. */
struct mem_call *mem_call_start(struct mem_link *l, int kind, struct op *op, size_t size,
                                void *port, int (*apply)(struct mem_call *, void *));
/* False when no such call is under way. */
bool mem_call_cancel(struct mem_link *l, struct op *op);
void *mem_alloc(size_t n); /* zeroed; aborts without memory */
