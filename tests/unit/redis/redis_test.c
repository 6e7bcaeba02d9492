#include "redis_test.h"

#include "base/clock.h"
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

/* --- turning the loop --- */

struct turn {
    struct timer timer;
    struct loop *loop;
};

static void on_turn(struct timer *t)
{
    loop_stop(container_of(t, struct turn, timer)->loop);
}

int64_t until_begin(struct loop *l)
{
    (void)l;
    return clock_mono_us() + 60 * SECONDS;
}

bool until_turn(struct loop *l, int64_t end_us)
{
    struct turn t = {.timer = {.on_fire = on_turn}, .loop = l};
    sched_set(loop_sched(l), &t.timer, clock_mono_us() + 200);
    loop_run(l);
    sched_clear(loop_sched(l), &t.timer);
    return clock_mono_us() < end_us;
}

/* --- calls --- */

static void on_encode(struct redis_call *c, struct redis_writer *w)
{
    struct test_call *t = container_of(c, struct test_call, call);
    for (int i = 0; i < c->args; i++)
        redis_put(w, t->words[i]);
}

static void on_reply(struct redis_call *c, int rc, const struct redis_reply *reply)
{
    struct test_call *t = container_of(c, struct test_call, call);
    t->ends++;
    t->rc = rc;
    if (reply) {
        t->type = reply->type;
        t->i = reply->i;
        str_copy(t->text, sizeof t->text, reply->s);
    }
    if (t->then)
        t->then(t);
}

void test_call_init(struct test_call *t, int64_t deadline_us, const char *const *words)
{
    *t = (struct test_call){0};
    int n = 0;
    while (words[n]) {
        t->words[n] = str_of(words[n]);
        n++;
    }
    t->call.args = n;
    t->call.deadline_us = deadline_us;
    t->call.on_encode = on_encode;
    t->call.on_reply = on_reply;
}

void test_script_init(struct test_call *t, int64_t deadline_us, const struct redis_script *s,
                      int keys, const char *const *words)
{
    test_call_init(t, deadline_us, words);
    t->call.script = s;
    t->call.keys = keys;
}

/* --- the scripted server --- */

void fake_close(struct fake_conn *c)
{
    if (!c->open)
        return;
    c->open = false;
    int fd = c->io.fd;
    loop_io_remove(c->fake->loop, &c->io);
    close(fd);
    reply_reader_deinit(&c->reader);
}

void fake_say(struct fake_conn *c, const char *bytes)
{
    size_t n = strlen(bytes);
    if (c->open && send(c->io.fd, bytes, n, MSG_NOSIGNAL) != (ssize_t)n)
        fake_close(c); /* the other side has given up */
}

static bool is(const struct redis_reply *command, size_t i, const char *word)
{
    return command->n > i && str_eq_nocase(command->items[i]->s, str_of(word));
}

static void take_command(struct fake_conn *c, const struct redis_reply *command)
{
    struct fake *f = c->fake;
    if (is(command, 0, "TIME")) {
        struct timeval tv;
        gettimeofday(&tv, NULL);
        char text[96], sec[24], usec[24];
        int a = snprintf(sec, sizeof sec, "%ld", (long)tv.tv_sec);
        int b = snprintf(usec, sizeof usec, "%ld", (long)tv.tv_usec);
        snprintf(text, sizeof text, "*2\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n", a, sec, b, usec);
        fake_say(c, text);
    } else if (is(command, 0, "SCRIPT")) {
        f->loads++;
        fake_say(c, "$2\r\nok\r\n");
    } else {
        f->commands++;
        if (f->on_command)
            f->on_command(f, c, command);
        else
            fake_say(c, "+OK\r\n");
    }
}

static void on_bytes(struct loop_io *io, int what)
{
    (void)what;
    struct fake_conn *c = container_of(io, struct fake_conn, io);
    char buf[65536];
    ssize_t n = recv(io->fd, buf, sizeof buf, 0);
    if (n <= 0) {
        fake_close(c);
        return;
    }
    assert_int_equal(reply_reader_feed(&c->reader, buf, (size_t)n), 0);
    struct redis_reply *command;
    while (c->open && reply_reader_get(&c->reader, &command) == 0 && command) {
        take_command(c, command);
        if (c->open)
            reply_reader_next(&c->reader);
    }
}

static void on_accept(struct loop_io *io, int what)
{
    (void)what;
    struct fake *f = container_of(io, struct fake, io);
    int fd = accept4(io->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0)
        return;
    struct fake_conn *c = &f->conns[f->accepted++ % 16];
    assert_false(c->open);
    *c = (struct fake_conn){.fake = f, .open = true, .io = {.on_ready = on_bytes}};
    assert_int_equal(reply_reader_init(&c->reader), 0);
    assert_int_equal(loop_io_add(f->loop, &c->io, fd, LOOP_READ), 0);
}

static void listen_at(struct fake *f, int fd, const struct sockaddr *at, socklen_t len)
{
    assert_int_equal(bind(fd, at, len), 0);
    assert_int_equal(listen(fd, 16), 0);
    f->io.on_ready = on_accept;
    assert_int_equal(loop_io_add(f->loop, &f->io, fd, LOOP_READ), 0);
}

void fake_start(struct fake *f, struct loop *l)
{
    *f = (struct fake){.loop = l, .dir = "/tmp/seckill-fake-XXXXXX"};
    assert_non_null(mkdtemp(f->dir));
    snprintf(f->path, sizeof f->path, "%s/s", f->dir);
    snprintf(f->url, sizeof f->url, "unix://%s", f->path);
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    strcpy(un.sun_path, f->path);
    listen_at(f, socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0),
              (struct sockaddr *)&un, sizeof un);
}

void fake_start_tcp(struct fake *f, struct loop *l)
{
    *f = (struct fake){.loop = l};
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof in;
    listen_at(f, socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0),
              (struct sockaddr *)&in, sizeof in);
    assert_int_equal(getsockname(f->io.fd, (struct sockaddr *)&in, &len), 0);
    f->port = ntohs(in.sin_port);
}

void fake_stop(struct fake *f)
{
    for (int i = 0; i < 16; i++)
        fake_close(&f->conns[i]);
    int fd = f->io.fd;
    loop_io_remove(f->loop, &f->io);
    close(fd);
    if (!f->port) {
        unlink(f->path);
        rmdir(f->dir);
    }
}
