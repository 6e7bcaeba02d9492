/* The jobs port on a crew of threads: each with its own orders port. */
#pragma once

#include "loop/crew.h"
#include "port/jobs.h"

/* A crew of this loop alone. orders: one for each thread, borrowed. NULL if threads cannot be
 * started. */
struct jobs *crew_jobs_new(struct loop *l, struct orders **orders, int n);

/* One crew for several loops: threads with the orders ports, and queue_max jobs waiting at most;
 * then a port for each loop. The crew ends (crew_free) before its ports: it waits for what runs,
 * which the loops still get. */
struct crew *crew_jobs_crew(struct orders **orders, int n, int queue_max);
struct jobs *crew_jobs_share(struct loop *l, struct crew *crew, int n);

/* With its own crew: no job may be under way. */
void crew_jobs_free(struct jobs *j);
