/* Threads around one queue under one lock. A job that ran is posted to its loop, which calls
 * on_done there; the crew itself is not touched any more from then on, so that it may be freed
 * while posts are still under way. */
#include "loop/crew.h"

#include "base/err.h"
#include "base/panic.h"
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

struct member {
    struct crew *crew;
    void *own;
    pthread_t thread;
};

struct crew {
    pthread_mutex_t lock; /* guards all but members and the bounds */
    pthread_cond_t work;
    struct crew_job *head, **tail;
    int queued, busy;
    bool closing;
    int queue_max, n;
    struct member members[];
};

static void on_posted(struct loop_post *p)
{
    struct crew_job *j = container_of(p, struct crew_job, post);
    j->on_done(j);
}

static struct crew_job *take(struct crew *c)
{
    struct crew_job *j = c->head;
    c->head = j->next;
    if (!c->head)
        c->tail = &c->head;
    c->queued--;
    c->busy++;
    return j;
}

static void *work(void *arg)
{
    struct member *m = arg;
    struct crew *c = m->crew;
    pthread_mutex_lock(&c->lock);
    for (;;) {
        while (!c->head && !c->closing)
            pthread_cond_wait(&c->work, &c->lock);
        if (!c->head)
            break;
        struct crew_job *j = take(c);
        pthread_mutex_unlock(&c->lock);
        j->run(j, m->own);
        pthread_mutex_lock(&c->lock);
        c->busy--;
        /* Last: from here on j belongs to its loop. */
        loop_post(j->loop, &j->post);
    }
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

static void join(struct crew *c, int started)
{
    pthread_mutex_lock(&c->lock);
    c->closing = true;
    pthread_cond_broadcast(&c->work);
    pthread_mutex_unlock(&c->lock);
    for (int i = 0; i < started; i++)
        pthread_join(c->members[i].thread, NULL);
    pthread_cond_destroy(&c->work);
    pthread_mutex_destroy(&c->lock);
    free(c);
}

static int start(struct crew *c, const char *name)
{
    /* Signals are for the thread with the loop that asked for them. */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int started = 0;
    while (started < c->n) {
        struct member *m = &c->members[started];
        if (pthread_create(&m->thread, NULL, work, m))
            break;
        char label[16];
        snprintf(label, sizeof label, "%.11s-%u", name, (unsigned)started % 100);
        pthread_setname_np(m->thread, label);
        started++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return started;
}

struct crew *crew_new(const char *name, void **members, int n, int queue_max)
{
    struct crew *c = calloc(1, sizeof *c + (size_t)n * sizeof c->members[0]);
    if (!c)
        return NULL;
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->work, NULL);
    c->tail = &c->head;
    c->queue_max = queue_max;
    c->n = n;
    for (int i = 0; i < n; i++)
        c->members[i] = (struct member){.crew = c, .own = members ? members[i] : NULL};
    int started = start(c, name);
    if (started == n)
        return c;
    join(c, started);
    return NULL;
}

int crew_submit(struct crew *c, struct loop *l, struct crew_job *j)
{
    j->loop = l;
    j->next = NULL;
    j->post.on_run = on_posted;
    int rc = ERR_OVERLOAD;
    pthread_mutex_lock(&c->lock);
    if (c->closing)
        panic("crew_submit: the crew is being freed");
    /* An idle member is not part of the queue's bound. */
    if (c->queued - (c->n - c->busy) < c->queue_max) {
        *c->tail = j;
        c->tail = &j->next;
        c->queued++;
        pthread_cond_signal(&c->work);
        rc = 0;
    }
    pthread_mutex_unlock(&c->lock);
    return rc;
}

static int locked_read(const struct crew *c, const int *value)
{
    pthread_mutex_t *lock = (pthread_mutex_t *)(uintptr_t)&c->lock;
    pthread_mutex_lock(lock);
    int v = *value;
    pthread_mutex_unlock(lock);
    return v;
}

int crew_queued(const struct crew *c)
{
    return locked_read(c, &c->queued);
}

int crew_busy(const struct crew *c)
{
    return locked_read(c, &c->busy);
}

void crew_free(struct crew *c)
{
    if (c)
        join(c, c->n);
}
