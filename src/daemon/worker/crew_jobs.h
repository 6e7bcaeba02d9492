/* The jobs port on a crew of threads: each with its own orders port. */
#pragma once

#include "loop/crew.h"
#include "port/jobs.h"

/* orders: one for each thread, borrowed. NULL if threads cannot be started. */
struct jobs *crew_jobs_new(struct loop *l, struct orders **orders, int n);
void crew_jobs_free(struct jobs *j); /* no job may be under way */
