/* The jobs port on the virtual clock: a job runs as a plain call when one of `threads` is free, and
 * comes back after the virtual time that its calls took. Nothing really runs beside anything. */
#pragma once

#include "adapter/mem/mem_orders.h"
#include "port/jobs.h"

#define MEM_JOBS_THREADS 8

/* Each thread gets its own port on db. queue_max: jobs waiting at most (ERR_OVERLOAD above). */
struct jobs *mem_jobs_new(struct mem_db *db, struct sched *sched, int threads, int queue_max);
/* Jobs that wait or run never come back: as when the process ends. */
void mem_jobs_free(struct jobs *j);
/* The orders port of thread i, for its faults. */
struct orders *mem_jobs_orders(struct jobs *j, int i);
/* Scripts a fault on each thread's port: the next call of any of them meets it, once per thread. k
 * as in mem_fault.h. */
void mem_jobs_fault_all(struct jobs *j, int op, int k, enum mem_fault_kind kind, int64_t delay_us);
void mem_jobs_clear_faults(struct jobs *j); /* each thread's, scripted on whichever */
