/* What other threads may do to a loop, and the crew. Meant for ThreadSanitizer
 * as well. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/err.h"
#include "loop/crew.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { POSTERS = 4, EACH = 5000 };

struct message {
    struct loop_post post;
    int from, number;
};
static struct loop *l;
static int next_of[POSTERS], received;

static void on_message(struct loop_post *p)
{
    struct message *m = container_of(p, struct message, post);
    assert_int_equal(m->number, next_of[m->from]); /* in the order of posting */
    next_of[m->from]++;
    free(m);
    if (++received == POSTERS * EACH)
        loop_stop(l);
}

static void *poster(void *arg)
{
    for (int i = 0; i < EACH; i++) {
        struct message *m = calloc(1, sizeof *m);
        *m = (struct message){.post.on_run = on_message, .from = (int)(intptr_t)arg, .number = i};
        loop_post(l, &m->post);
    }
    return NULL;
}

static void posts_from_four_threads_arrive_in_order(void **state)
{
    (void)state;
    l = loop_new();
    pthread_t t[POSTERS];
    for (intptr_t i = 0; i < POSTERS; i++)
        assert_int_equal(pthread_create(&t[i], NULL, poster, (void *)i), 0);
    loop_run(l);
    for (int i = 0; i < POSTERS; i++)
        pthread_join(t[i], NULL);
    assert_int_equal(received, POSTERS * EACH);
    loop_free(l);
}

static void *stopper(void *arg)
{
    (void)arg;
    loop_stop(l);
    return NULL;
}
static void stop_from_another_thread(void **state)
{
    (void)state;
    for (int i = 0; i < 20; i++) {
        l = loop_new();
        pthread_t t;
        assert_int_equal(pthread_create(&t, NULL, stopper, NULL), 0);
        loop_run(l);
        pthread_join(t, NULL);
        loop_free(l);
    }
}

/* --- crew --- */

struct sum {
    struct crew_job job;
    int ran, done;
    pthread_t on;
};
static int done_total, stop_at;
static atomic_int runs;

static void on_run(struct crew_job *j, void *member)
{
    int *own = member; /* each thread has its own: no lock */
    ++*own;
    struct sum *s = container_of(j, struct sum, job);
    s->ran++;
    s->on = pthread_self();
    atomic_fetch_add(&runs, 1);
}
static void on_done(struct crew_job *j)
{
    struct sum *s = container_of(j, struct sum, job);
    assert_int_equal(s->ran, 1);
    assert_false(pthread_equal(s->on, pthread_self()));
    s->done++;
    if (++done_total == stop_at)
        loop_stop(l);
}

/* Submitted, run, handed back, and freed while jobs are still queued and
 * running. */
static void crew_submit_and_free_race(void **state)
{
    (void)state;
    for (int round = 0; round < 20; round++) {
        enum { JOBS = 200, THREADS = 4 };
        int own[THREADS] = {0};
        void *members[THREADS];
        for (int i = 0; i < THREADS; i++)
            members[i] = &own[i];
        static struct sum jobs[JOBS];
        memset(jobs, 0, sizeof jobs);
        l = loop_new();
        struct crew *c = crew_new("race", members, THREADS, JOBS);
        assert_non_null(c);
        done_total = 0;
        stop_at = JOBS;
        atomic_store(&runs, 0);
        for (int i = 0; i < JOBS; i++) {
            jobs[i].job = (struct crew_job){.run = on_run, .on_done = on_done};
            assert_int_equal(crew_submit(c, l, &jobs[i].job), 0);
        }
        if (round % 2 == 0) {
            crew_free(c);
            loop_run(l);
        } else {
            loop_run(l);
            assert_int_equal(crew_queued(c), 0);
            crew_free(c);
        }
        int all = 0;
        for (int i = 0; i < THREADS; i++)
            all += own[i];
        assert_int_equal(all, JOBS);
        for (int i = 0; i < JOBS; i++)
            assert_int_equal(jobs[i].done, 1);
        loop_free(l);
    }
}

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static void on_run_gated(struct crew_job *j, void *member)
{
    pthread_mutex_lock(&gate);
    pthread_mutex_unlock(&gate);
    on_run(j, member);
}
static void full_crew_refuses(void **state)
{
    (void)state;
    int own = 0;
    void *members[] = {&own};
    l = loop_new();
    struct crew *c = crew_new("a name that is far too long", members, 1, 2);
    struct sum jobs[4] = {0};
    done_total = 0;
    stop_at = 3;
    pthread_mutex_lock(&gate);
    for (int i = 0; i < 4; i++) {
        jobs[i].job = (struct crew_job){.run = on_run_gated, .on_done = on_done};
        /* One runs (or is about to), two wait, the fourth is refused. */
        assert_int_equal(crew_submit(c, l, &jobs[i].job), i < 3 ? 0 : ERR_OVERLOAD);
    }
    while (crew_busy(c) < 1)
        usleep(100);
    assert_int_equal(crew_queued(c), 2);
    pthread_mutex_unlock(&gate);
    loop_run(l);
    assert_int_equal(jobs[3].ran + jobs[3].done, 0);
    crew_free(c);
    loop_free(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(posts_from_four_threads_arrive_in_order),
        cmocka_unit_test(stop_from_another_thread),
        cmocka_unit_test(crew_submit_and_free_race),
        cmocka_unit_test(full_crew_refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
