/* One turn: poll (libevent calls what is ready) → timers that are due → deferred tasks → flushes.
 * libevent is used for readiness, signals and DNS; the timers are sched's, with one libevent timer
 * armed for the earliest of them. */
#include "loop/loop_internal.h"

#include "base/clock.h"
#include "base/panic.h"
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* Completions that defer completions are still run in the same turn, so that their writes leave
 * together; after this many rounds the rest waits for the next turn, so that a chain without end
 * cannot starve the sockets. */
enum { TASK_ROUNDS = 4 };

void loop_touch(struct loop *l)
{
    if (l->fresh)
        return;
    int64_t now = clock_mono_us();
    if (now > l->sched.now_us)
        l->sched.now_us = now;
    l->fresh = true;
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
    (void)fd, (void)what;
    struct loop *l = arg;
    l->armed_us = INT64_MAX;
}

static void run_posts(struct loop *l)
{
    pthread_mutex_lock(&l->lock);
    struct loop_post *p = l->post_head;
    l->post_head = NULL;
    l->post_tail = &l->post_head;
    l->woken = false;
    pthread_mutex_unlock(&l->lock);
    while (p) {
        struct loop_post *next = p->next; /* p may be posted again, or freed, by its callback */
        p->on_run(p);
        p = next;
    }
}

static void on_wake(evutil_socket_t fd, short what, void *arg)
{
    (void)what;
    struct loop *l = arg;
    loop_touch(l);
    uint64_t n;
    ssize_t got = read(fd, &n, sizeof n); /* before taking the list: a later post writes again */
    (void)got;
    run_posts(l);
}

static void destroy(struct loop *l)
{
    if (l->wake)
        event_free(l->wake);
    if (l->timer)
        event_free(l->timer);
    if (l->base)
        event_base_free(l->base);
    if (l->wake_fd >= 0)
        close(l->wake_fd);
    pthread_mutex_destroy(&l->lock);
    sched_deinit(&l->sched);
    free(l);
}

static struct event_base *base_new(void)
{
    struct event_config *cfg = event_config_new();
    if (!cfg)
        return NULL;
    event_config_set_flag(cfg, EVENT_BASE_FLAG_NOLOCK);
    struct event_base *base = event_base_new_with_config(cfg);
    event_config_free(cfg);
    return base;
}

struct loop *loop_new(void)
{
    struct loop *l = calloc(1, sizeof *l);
    if (!l)
        return NULL;
    sched_init(&l->sched, clock_mono_us());
    list_init(&l->tasks);
    list_init(&l->flushes);
    pthread_mutex_init(&l->lock, NULL);
    l->post_tail = &l->post_head;
    l->armed_us = INT64_MAX;
    l->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    l->base = base_new();
    if (l->wake_fd >= 0 && l->base) {
        l->timer = event_new(l->base, -1, 0, on_timer, l);
        l->wake = event_new(l->base, l->wake_fd, EV_READ | EV_PERSIST, on_wake, l);
    }
    if (!l->timer || !l->wake || event_add(l->wake, NULL)) {
        destroy(l);
        return NULL;
    }
    return l;
}

/* Armed for the earliest timer. A timer that was put off leaves it armed: at most one idle turn,
 * instead of one event_add for each request. */
static void arm(struct loop *l)
{
    int64_t next = sched_next_us(&l->sched);
    if (next >= l->armed_us)
        return;
    int64_t delay = next - clock_mono_us();
    if (delay < 0)
        delay = 0;
    struct timeval tv = {.tv_sec = delay / 1000000, .tv_usec = delay % 1000000};
    event_add(l->timer, &tv);
    l->armed_us = next;
}

static void run_tasks(struct loop *l)
{
    for (int round = 0; round < TASK_ROUNDS && !list_empty(&l->tasks); round++) {
        struct list now;
        list_init(&now);
        list_splice_back(&now, &l->tasks);
        for (struct list *n; (n = list_pop_front(&now)) != NULL;) {
            struct loop_task *t = container_of(n, struct loop_task, link);
            t->on_run(t);
        }
    }
}

static void run_flushes(struct loop *l)
{
    struct list now;
    list_init(&now);
    list_splice_back(&now, &l->flushes);
    for (struct list *n; (n = list_pop_front(&now)) != NULL;) {
        struct loop_flush *f = container_of(n, struct loop_flush, link);
        f->on_flush(f);
    }
}

static void turn(struct loop *l)
{
    int how = EVLOOP_ONCE;
    if (!list_empty(&l->tasks) || !list_empty(&l->flushes) ||
        sched_next_us(&l->sched) <= l->sched.now_us)
        how = EVLOOP_ONCE | EVLOOP_NONBLOCK; /* NONBLOCK alone goes on while anything is ready */
    else
        arm(l);
    l->fresh = false;
    l->wall_us = 0;
    event_base_loop(l->base, how);
    loop_touch(l);
    sched_run(&l->sched, l->sched.now_us);
    run_tasks(l);
    run_flushes(l);
}

void loop_run(struct loop *l)
{
    l->fresh = false;
    loop_touch(l);
    while (!atomic_load_explicit(&l->stop, memory_order_acquire))
        turn(l);
    atomic_store_explicit(&l->stop, false, memory_order_relaxed);
}

static void wake(struct loop *l)
{
    uint64_t one = 1;
    ssize_t n = write(l->wake_fd, &one, sizeof one); /* full: it is readable anyway */
    (void)n;
}

void loop_stop(struct loop *l)
{
    atomic_store_explicit(&l->stop, true, memory_order_release);
    wake(l);
}

void loop_free(struct loop *l)
{
    if (!l)
        return;
    /* What was posted or deferred is run: it frees things. */
    for (int round = 0; round < 64; round++) {
        run_posts(l);
        run_tasks(l);
        run_flushes(l);
        if (list_empty(&l->tasks) && list_empty(&l->flushes) && !l->post_head)
            break;
    }
    loop_resolve_shutdown(l);
    if (l->attached || l->post_head || !list_empty(&l->tasks) || !list_empty(&l->flushes))
        panic("loop_free: %d descriptors or signals, or tasks, are still attached", l->attached);
    destroy(l);
}

struct sched *loop_sched(struct loop *l)
{
    return &l->sched;
}

int64_t loop_wall_us(struct loop *l)
{
    if (!l->wall_us)
        l->wall_us = clock_wall_us();
    return l->wall_us;
}

void loop_flush_later(struct loop *l, struct loop_flush *f)
{
    if (list_empty(&f->link))
        list_push_back(&l->flushes, &f->link);
}

void loop_flush_cancel(struct loop_flush *f)
{
    list_remove(&f->link);
}

void loop_defer(struct loop *l, struct loop_task *t)
{
    if (list_empty(&t->link))
        list_push_back(&l->tasks, &t->link);
}

void loop_defer_cancel(struct loop_task *t)
{
    list_remove(&t->link);
}

void loop_post(struct loop *l, struct loop_post *p)
{
    p->next = NULL;
    pthread_mutex_lock(&l->lock);
    *l->post_tail = p;
    l->post_tail = &p->next;
    bool sleeping = !l->woken;
    l->woken = true;
    /* Under the lock: once it is released, p may run, and its callback may end the loop. */
    if (sleeping)
        wake(l);
    pthread_mutex_unlock(&l->lock);
}
