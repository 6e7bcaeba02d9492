#include "adapter/mem/mem_jobs.h"

#include "adapter/mem/mem_call.h"
#include "base/err.h"
#include "base/panic.h"
#include <assert.h>
#include <stdlib.h>

struct mem_thread {
    struct timer timer;
    struct mem_jobs *jobs;
    struct orders *orders;
    struct job *job; /* NULL: idle */
    bool ran;
};

struct mem_jobs {
    struct jobs port;
    struct sched *sched;
    struct mem_thread thread[MEM_JOBS_THREADS];
    struct list waiting;
    int n_waiting, queue_max;
};

struct waiting_job {
    struct list link;
    struct job *job;
};
static_assert(sizeof(struct waiting_job) <= sizeof(struct job_space), "job_space");

static void begin(struct mem_thread *t)
{
    struct list *l = list_pop_front(&t->jobs->waiting);
    if (!l)
        return;
    t->jobs->n_waiting--;
    t->job = container_of(l, struct waiting_job, link)->job;
    t->ran = false;
    sched_set_in(t->jobs->sched, &t->timer, 0);
}

static void on_thread(struct timer *timer)
{
    struct mem_thread *t = container_of(timer, struct mem_thread, timer);
    if (!t->ran) {
        t->ran = true;
        t->job->run(t->job, t->orders);
        sched_set_in(t->jobs->sched, &t->timer, mem_orders_take_us(t->orders));
        return;
    }
    struct job *done = t->job;
    t->job = NULL;
    begin(t);
    done->on_done(done);
}

static int op_submit(struct jobs *port, struct job *j)
{
    struct mem_jobs *m = container_of(port, struct mem_jobs, port);
    struct mem_thread *idle = NULL;
    for (int i = 0; i < port->threads && !idle; i++)
        idle = m->thread[i].job ? NULL : &m->thread[i];
    if (!idle && m->n_waiting >= m->queue_max)
        return ERR_OVERLOAD;
    struct waiting_job *w = (struct waiting_job *)(void *)j->space.bytes;
    w->job = j;
    list_push_back(&m->waiting, &w->link);
    m->n_waiting++;
    if (idle)
        begin(idle);
    return 0;
}

static const struct jobs_ops ops = {.submit = op_submit};

struct jobs *mem_jobs_new(struct mem_db *db, struct sched *sched, int threads, int queue_max)
{
    if (threads < 1 || threads > MEM_JOBS_THREADS)
        panic("mem_jobs: %d threads", threads);
    struct mem_jobs *m = mem_alloc(sizeof *m);
    m->port = (struct jobs){.ops = &ops, .threads = threads};
    m->sched = sched;
    m->queue_max = queue_max;
    list_init(&m->waiting);
    for (int i = 0; i < threads; i++)
        m->thread[i] = (struct mem_thread){
            .timer = {.on_fire = on_thread}, .jobs = m, .orders = mem_orders_new(db)};
    return &m->port;
}

void mem_jobs_free(struct jobs *port)
{
    struct mem_jobs *m = container_of(port, struct mem_jobs, port);
    for (int i = 0; i < port->threads; i++) {
        sched_clear(m->sched, &m->thread[i].timer);
        mem_orders_free(m->thread[i].orders);
    }
    free(m);
}

struct orders *mem_jobs_orders(struct jobs *port, int i)
{
    return container_of(port, struct mem_jobs, port)->thread[i].orders;
}

void mem_jobs_fault_all(struct jobs *port, int op, int k, enum mem_fault_kind kind,
                        int64_t delay_us)
{
    for (int i = 0; i < port->threads; i++)
        mem_faults_add(mem_orders_faults(mem_jobs_orders(port, i)), op, k, kind, delay_us);
}

void mem_jobs_clear_faults(struct jobs *port)
{
    for (int i = 0; i < port->threads; i++)
        mem_faults_clear(mem_orders_faults(mem_jobs_orders(port, i)), -1);
}
