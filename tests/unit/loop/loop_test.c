/* The turn of the loop on one thread: order of timers, tasks and flushes,
 * cancelling, descriptors, names. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/err.h"
#include "loop/loop.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static struct loop *l;
static char trace[256];

static void note(const char *what)
{
    strncat(trace, what, sizeof trace - strlen(trace) - 1);
}

static int setup(void **state)
{
    (void)state;
    trace[0] = 0;
    l = loop_new();
    return l ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    loop_free(l);
    return 0;
}

struct stopper {
    struct timer timer;
};
static void on_stop(struct timer *t)
{
    (void)t;
    loop_stop(l);
}
static void run_for(int64_t us)
{
    struct stopper s = {.timer.on_fire = on_stop};
    sched_set_in(loop_sched(l), &s.timer, us);
    loop_run(l);
    sched_clear(loop_sched(l), &s.timer);
}

/* --- timers --- */

struct tick {
    struct timer timer;
    const char *name;
};
static void on_tick(struct timer *t)
{
    note(container_of(t, struct tick, timer)->name);
    assert_true(loop_now_us(l) >= 0);
}

static void timers_fire_in_order(void **state)
{
    (void)state;
    struct tick a = {{.on_fire = on_tick}, "a"}, b = {{.on_fire = on_tick}, "b"},
                c = {{.on_fire = on_tick}, "c"};
    int64_t start = loop_now_us(l);
    sched_set_in(loop_sched(l), &c.timer, 9000);
    sched_set_in(loop_sched(l), &a.timer, 1000);
    sched_set_in(loop_sched(l), &b.timer, 5000);
    run_for(15000);
    assert_string_equal(trace, "abc");
    assert_true(loop_now_us(l) - start >= 15000);
}

static void timer_put_forward_is_not_late(void **state)
{
    (void)state;
    /* Armed for the far one first; the near one must still come in time. */
    struct tick far = {{.on_fire = on_tick}, "far"}, near = {{.on_fire = on_tick}, "near"};
    sched_set_in(loop_sched(l), &far.timer, 5000000);
    run_for(2000);
    sched_set_in(loop_sched(l), &near.timer, 3000);
    int64_t start = loop_now_us(l);
    run_for(10000);
    assert_string_equal(trace, "near");
    assert_true(loop_now_us(l) - start < 1000000);
    sched_clear(loop_sched(l), &far.timer);
}

/* --- tasks and flushes --- */

struct work {
    struct loop_task task;
    struct loop_flush flush;
    const char *name;
    struct work *then_defer, *then_flush, *then_cancel;
};
static void after(struct work *w)
{
    note(w->name);
    if (w->then_defer)
        loop_defer(l, &w->then_defer->task);
    if (w->then_flush)
        loop_flush_later(l, &w->then_flush->flush);
    if (w->then_cancel) {
        loop_defer_cancel(&w->then_cancel->task);
        loop_flush_cancel(&w->then_cancel->flush);
    }
}
static void on_task(struct loop_task *t)
{
    after(container_of(t, struct work, task));
}
static void on_flush(struct loop_flush *f)
{
    after(container_of(f, struct work, flush));
}
static struct work work_named(const char *name)
{
    return (struct work){.task.on_run = on_task, .flush.on_flush = on_flush, .name = name};
}
static void ready(struct work *w)
{
    list_init(&w->task.link);
    list_init(&w->flush.link);
}

static void flushes_come_after_tasks_and_once(void **state)
{
    (void)state;
    struct work t1 = work_named("1"), t2 = work_named("2"), t3 = work_named("3"),
                f = work_named("f"), g = work_named("g");
    ready(&t1), ready(&t2), ready(&t3), ready(&f), ready(&g);
    loop_flush_later(l, &f.flush);
    loop_flush_later(l, &f.flush);
    loop_defer(l, &t1.task);
    loop_defer(l, &t2.task);
    loop_defer(l, &t1.task);
    t1.then_flush = &g;
    t2.then_defer = &t3;
    run_for(1000);
    assert_string_equal(trace, "123fg");
}

static void cancel_from_inside_the_same_round(void **state)
{
    (void)state;
    struct work t1 = work_named("1"), t2 = work_named("2"), f = work_named("f"),
                g = work_named("g"), h = work_named("h");
    ready(&t1), ready(&t2), ready(&f), ready(&g), ready(&h);
    loop_defer(l, &t1.task);
    loop_defer(l, &t2.task);
    loop_flush_later(l, &f.flush);
    loop_flush_later(l, &g.flush);
    loop_flush_later(l, &h.flush);
    t1.then_cancel = &t2;
    f.then_cancel = &g;
    run_for(1000);
    assert_string_equal(trace, "1fh");
    loop_defer_cancel(&t2.task); /* harmless */
    loop_flush_cancel(&g.flush);
}

static void endless_tasks_do_not_starve_timers(void **state)
{
    (void)state;
    struct work t = work_named("");
    ready(&t);
    t.then_defer = &t;
    loop_defer(l, &t.task);
    run_for(2000); /* ends */
    loop_defer_cancel(&t.task);
}

/* --- posts on the own thread --- */

struct posted {
    struct loop_post post;
    int n;
};
static void on_post(struct loop_post *p)
{
    struct posted *x = container_of(p, struct posted, post);
    note("p");
    if (++x->n < 3)
        loop_post(l, p);
}
static void post_may_post_itself_again(void **state)
{
    (void)state;
    struct posted x = {.post.on_run = on_post};
    loop_post(l, &x.post);
    run_for(2000);
    assert_int_equal(x.n, 3);
}
static void free_runs_what_was_posted(void **state)
{
    (void)state;
    struct posted x = {.post.on_run = on_post, .n = 2};
    loop_post(l, &x.post);
    loop_free(l);
    assert_int_equal(x.n, 3);
    l = loop_new();
}

/* --- descriptors --- */

struct peer {
    struct loop_io io;
    int seen, hangups;
};
static void on_io(struct loop_io *io, int what)
{
    struct peer *p = container_of(io, struct peer, io);
    p->seen |= what;
    if (what & LOOP_READ) {
        char c;
        if (read(io->fd, &c, 1) == 1)
            note("r");
        else
            loop_io_want(l, io, LOOP_HANGUP);
    }
    if (what & LOOP_WRITE) {
        note("w");
        loop_io_want(l, io, LOOP_READ);
    }
    if (what & LOOP_HANGUP) {
        p->hangups++;
        loop_io_remove(l, io);
        loop_stop(l);
    }
}

static void readiness_follows_what_is_wanted(void **state)
{
    (void)state;
    int fd[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fd), 0);
    struct peer p = {.io.on_ready = on_io};
    assert_int_equal(loop_io_add(l, &p.io, fd[0], 0), 0);
    assert_int_equal(write(fd[1], "xy", 2), 2);
    run_for(1000);
    assert_string_equal(trace, ""); /* silent */
    loop_io_want(l, &p.io, LOOP_READ | LOOP_WRITE);
    run_for(1000);
    assert_int_equal(strlen(trace), 3);
    loop_io_remove(l, &p.io);
    loop_io_remove(l, &p.io); /* harmless */
    assert_null(p.io.impl);
    close(fd[0]);
    close(fd[1]);
}

static int tcp_pair(int fd[2])
{
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof a;
    assert_int_equal(bind(listener, (struct sockaddr *)&a, n), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&a, &n), 0);
    fd[1] = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(fd[1], (struct sockaddr *)&a, n), 0);
    fd[0] = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
    assert_true(fd[0] >= 0);
    close(listener);
    return 0;
}

static void on_connect(struct loop_io *io, int what)
{
    (void)what;
    note(loop_connect_error(io->fd) ? "refused" : "connected");
    loop_io_remove(l, io);
    loop_stop(l);
}

/* Where it is known at once: the errno, and nothing attached; else on_ready comes and tells. */
static void a_connection_out_is_there_or_refused(void **state)
{
    (void)state;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof a;
    assert_int_equal(bind(listener, (struct sockaddr *)&a, n), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&a, &n), 0);
    for (int listens = 0; listens < 2; listens++) {
        struct loop_io io = {.on_ready = on_connect};
        trace[0] = '\0';
        if (listens)
            assert_int_equal(listen(listener, 1), 0);
        int fd = loop_connect(l, &io, (struct sockaddr *)&a, n, 1000);
        if (fd >= 0) {
            run_for(1000000);
            close(fd);
        }
        assert_string_equal(fd < 0 ? "refused" : trace, listens ? "connected" : "refused");
        assert_null(io.impl);
    }
    close(listener);
    struct sockaddr_un nowhere = {.sun_family = AF_UNIX, .sun_path = "/nowhere/at/all"};
    struct loop_io io = {.on_ready = on_connect};
    assert_int_equal(loop_connect(l, &io, (struct sockaddr *)&nowhere, sizeof nowhere, 0), -ENOENT);
    assert_null(io.impl);
}

/* Whoever acts on readiness at the end of the turn leaves the descriptor ready until then: the turn
 * ends all the same. */
static void on_io_later(struct loop_io *io, int what)
{
    (void)io;
    (void)what;
}
static void readiness_that_is_left_does_not_keep_the_turn(void **state)
{
    (void)state;
    int fd[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fd), 0);
    struct loop_io io = {.on_ready = on_io_later};
    struct work f = work_named("f");
    ready(&f);
    assert_int_equal(loop_io_add(l, &io, fd[0], LOOP_READ | LOOP_WRITE), 0);
    loop_flush_later(l, &f.flush);
    run_for(1000);
    assert_string_equal(trace, "f");
    loop_io_remove(l, &io);
    close(fd[0]);
    close(fd[1]);
}

static void hangup_is_told_but_half_close_is_not(void **state)
{
    (void)state;
    int fd[2];
    tcp_pair(fd);
    struct peer p = {.io.on_ready = on_io};
    assert_int_equal(loop_io_add(l, &p.io, fd[0], LOOP_READ), 0);
    assert_int_equal(write(fd[1], "x", 1), 1);
    assert_int_equal(shutdown(fd[1], SHUT_WR), 0);
    run_for(5000);
    assert_string_equal(trace, "r");
    assert_int_equal(p.io.want, LOOP_HANGUP); /* end of file was read, and it does not spin: */
    assert_int_equal(p.hangups, 0);
    struct linger gone = {.l_onoff = 1};
    setsockopt(fd[1], SOL_SOCKET, SO_LINGER, &gone, sizeof gone);
    close(fd[1]); /* a reset */
    run_for(5000000);
    assert_int_equal(p.hangups, 1);
    close(fd[0]);
}

/* --- signals --- */

static void on_signal(struct loop_signal *s, int signo)
{
    (void)s;
    assert_int_equal(signo, SIGUSR1);
    note("s");
    loop_stop(l);
}
static void signal_wakes_the_loop(void **state)
{
    (void)state;
    struct loop_signal s = {.on_signal = on_signal};
    assert_int_equal(loop_signal_add(l, &s, SIGUSR1), 0);
    raise(SIGUSR1);
    run_for(5000000);
    assert_string_equal(trace, "s");
    loop_signal_remove(l, &s);
    loop_signal_remove(l, &s);
}

/* --- names --- */

struct name {
    struct loop_resolve r;
    int rc, times;
};
static void on_name(struct loop_resolve *r, int rc)
{
    struct name *n = container_of(r, struct name, r);
    n->rc = rc;
    n->times++;
    loop_stop(l);
}
static struct name resolve(const char *host, int port)
{
    struct name n = {.r.on_done = on_name};
    loop_resolve_start(l, &n.r, host, port);
    assert_int_equal(n.times, 0); /* never inside the call */
    run_for(8000000);
    assert_int_equal(n.times, 1);
    return n;
}
static void names_that_need_no_dns(void **state)
{
    (void)state;
    char text[64];
    struct name n = resolve("127.0.0.1", 80);
    struct sockaddr_in *v4 = (struct sockaddr_in *)(void *)&n.r.addr;
    assert_int_equal(n.rc, 0);
    assert_string_equal(inet_ntop(AF_INET, &v4->sin_addr, text, sizeof text), "127.0.0.1");
    assert_int_equal(ntohs(v4->sin_port), 80);
    n = resolve("localhost", 65535);
    v4 = (struct sockaddr_in *)(void *)&n.r.addr;
    assert_int_equal(n.rc, 0);
    assert_int_equal(v4->sin_addr.s_addr, htonl(INADDR_LOOPBACK));
    const char *six[] = {"::1", "[::1]"};
    for (int i = 0; i < 2; i++) {
        n = resolve(six[i], 1);
        assert_int_equal(n.rc, 0);
        assert_int_equal(n.r.addr.ss_family, AF_INET6);
    }
    const char *paths[] = {"/tmp/some.sock", "unix:/tmp/some.sock"};
    for (int i = 0; i < 2; i++) {
        n = resolve(paths[i], 0);
        assert_int_equal(n.rc, 0);
        assert_string_equal(((struct sockaddr_un *)(void *)&n.r.addr)->sun_path, "/tmp/some.sock");
    }
    assert_int_equal(resolve("127.0.0.1", 65536).rc, ERR_UNAVAIL);
}
static void name_that_does_not_exist(void **state)
{
    (void)state;
    assert_int_equal(resolve("no-such-host.invalid", 80).rc, ERR_UNAVAIL);
}
static void cancelled_lookup_stays_silent(void **state)
{
    (void)state;
    struct name a = {.r.on_done = on_name}, b = {.r.on_done = on_name};
    loop_resolve_start(l, &a.r, "127.0.0.1", 80);
    loop_resolve_start(l, &b.r, "no-such-host.invalid", 80);
    loop_resolve_cancel(l, &a.r);
    loop_resolve_cancel(l, &b.r);
    loop_resolve_cancel(l, &b.r);
    run_for(5000);
    assert_int_equal(a.times + b.times, 0);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(timers_fire_in_order),
        T(timer_put_forward_is_not_late),
        T(flushes_come_after_tasks_and_once),
        T(cancel_from_inside_the_same_round),
        T(endless_tasks_do_not_starve_timers),
        T(post_may_post_itself_again),
        T(free_runs_what_was_posted),
        T(readiness_follows_what_is_wanted),
        T(a_connection_out_is_there_or_refused),
        T(readiness_that_is_left_does_not_keep_the_turn),
        T(hangup_is_told_but_half_close_is_not),
        T(signal_wakes_the_loop),
        T(names_that_need_no_dns),
        T(name_that_does_not_exist),
        T(cancelled_lookup_stays_silent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
