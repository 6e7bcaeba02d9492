#include "daemon/common/crew_jobs.h"

#include <assert.h>
#include <stdlib.h>

struct crew_jobs {
    struct jobs port;
    struct loop *loop;
    struct crew *crew;
    bool own_crew;
};

struct carried {
    struct crew_job crew_job;
    struct job *job;
};
static_assert(sizeof(struct carried) <= sizeof(struct job_space), "job_space");

static void run(struct crew_job *j, void *member)
{
    struct job *job = container_of(j, struct carried, crew_job)->job;
    job->run(job, member);
}

static void on_done(struct crew_job *j)
{
    struct job *job = container_of(j, struct carried, crew_job)->job;
    job->on_done(job);
}

static int submit(struct jobs *port, struct job *job)
{
    struct crew_jobs *j = container_of(port, struct crew_jobs, port);
    struct carried *c = (struct carried *)(void *)job->space.bytes;
    *c = (struct carried){.crew_job = {.run = run, .on_done = on_done}, .job = job};
    return crew_submit(j->crew, j->loop, &c->crew_job);
}

static const struct jobs_ops ops = {.submit = submit};

struct crew *crew_jobs_crew(struct orders **orders, int n, int queue_max)
{
    void **members = calloc((size_t)n, sizeof members[0]);
    if (!members)
        return NULL;
    for (int i = 0; i < n; i++)
        members[i] = orders[i];
    struct crew *c = crew_new("orders", members, n, queue_max);
    free(members);
    return c;
}

struct jobs *crew_jobs_share(struct loop *l, struct crew *crew, int n)
{
    struct crew_jobs *j = calloc(1, sizeof *j);
    if (!j)
        return NULL;
    j->port = (struct jobs){.ops = &ops, .threads = n};
    j->loop = l;
    j->crew = crew;
    return &j->port;
}

struct jobs *crew_jobs_new(struct loop *l, struct orders **orders, int n)
{
    /* share never hands over more than one job for each thread. */
    struct crew *crew = crew_jobs_crew(orders, n, n);
    struct jobs *port = crew ? crew_jobs_share(l, crew, n) : NULL;
    if (port)
        container_of(port, struct crew_jobs, port)->own_crew = true;
    else
        crew_free(crew);
    return port;
}

void crew_jobs_free(struct jobs *port)
{
    if (!port)
        return;
    struct crew_jobs *j = container_of(port, struct crew_jobs, port);
    if (j->own_crew)
        crew_free(j->crew);
    free(j);
}
