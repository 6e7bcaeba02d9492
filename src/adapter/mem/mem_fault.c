#include "adapter/mem/mem_fault.h"

#include "base/panic.h"

void mem_faults_add(struct mem_faults *f, int op, int k, enum mem_fault_kind kind, int64_t delay_us)
{
    if (f->n == MEM_FAULTS_MAX || op < 0 || op >= MEM_FAULT_OPS)
        panic("mem_faults_add: operation %d, %d faults are scripted", op, f->n);
    f->scripted[f->n++] = (struct mem_fault){op, k, kind, delay_us};
}

void mem_faults_clear(struct mem_faults *f, int op)
{
    int kept = 0;
    for (int i = 0; i < f->n; i++) {
        if (op >= 0 && f->scripted[i].op != op)
            f->scripted[kept++] = f->scripted[i];
    }
    f->n = kept;
}

struct mem_fault mem_faults_take(struct mem_faults *f, int op)
{
    struct mem_fault hit = {.op = op, .kind = MEM_FAULT_NONE};
    int kept = 0;
    f->calls[op]++;
    /* Every countdown of this operation moves, so that k always counts calls from the moment of
     * scripting. */
    for (int i = 0; i < f->n; i++) {
        struct mem_fault m = f->scripted[i];
        bool every = m.countdown == 0;
        bool due = m.op == op && (every || --m.countdown == 0);
        if (due && hit.kind == MEM_FAULT_NONE)
            hit = m;
        if (!due || every)
            f->scripted[kept++] = m;
    }
    f->n = kept;
    return hit;
}
