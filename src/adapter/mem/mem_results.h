/* The result topic in memory, on a virtual clock, for flow tests: it keeps what it was told. Not
 * for production. Deadlines, cancel and faults as in mem_stock.h. One thread. */
#pragma once

#include "adapter/mem/mem_clock.h"
#include "adapter/mem/mem_fault.h"
#include "port/results.h"

enum mem_results_op { MEM_RESULTS_PUBLISH, MEM_RESULTS_OPS };

struct results *mem_results_new(struct sched *sched);
void mem_results_free(struct results *r);
struct mem_faults *mem_results_faults(struct results *r);
/* The n-th result that ever arrived (from 0), in the order of arrival; NULL: there is none. */
const struct result *mem_results_told(const struct results *r, int n);
int mem_results_count(const struct results *r);
/* Rows of this user do not arrive, whatever else does. */
void mem_results_refuse(struct results *r, int64_t user_id);
