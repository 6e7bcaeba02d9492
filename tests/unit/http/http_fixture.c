#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/metric.h"
#include "http_fixture.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static struct fixture *fixture_of(struct http_service *s)
{
    return container_of(s, struct fixture, service);
}

static void on_orders(struct http_service *s, struct http_exchange *x)
{
    atomic_fetch_add(&fixture_of(s)->executed, 1);
    http_respond(x, 200, STR("text/plain"), STR("X-Extra: 1\r\n"), x->body);
}

static void on_items(struct http_service *s, struct http_exchange *x)
{
    atomic_fetch_add(&fixture_of(s)->executed, 1);
    http_respond(x, 200, STR("text/plain"), (struct str){NULL, 0}, STR("items"));
}

static void on_params(struct http_service *s, struct http_exchange *x)
{
    (void)s;
    char text[256];
    int n = snprintf(text, sizeof text, STR_FMT "|" STR_FMT "|" STR_FMT, STR_ARG(x->params[0]),
                     STR_ARG(x->params[1]), STR_ARG(x->query));
    http_respond(x, 200, STR("text/plain"), (struct str){NULL, 0}, (struct str){text, (size_t)n});
}

static void on_gone(struct http_exchange *x)
{
    struct fixture *f = x->viewer;
    for (int i = 0; i < FIXTURE_HELD; i++) {
        if (f->exchanges[i] == x) {
            f->exchanges[i] = NULL;
            atomic_fetch_sub(&f->held, 1);
            atomic_fetch_add(&f->gone, 1);
        }
    }
}

static void hold(struct fixture *f, struct http_exchange *x)
{
    x->viewer = f;
    for (int i = 0; i < FIXTURE_HELD; i++) {
        if (!f->exchanges[i]) {
            f->exchanges[i] = x;
            atomic_fetch_add(&f->held, 1);
            return;
        }
    }
    fail_msg("too many are held");
}

static void on_hold(struct http_service *s, struct http_exchange *x)
{
    x->on_gone = on_gone;
    hold(fixture_of(s), x);
}

static void on_careless(struct http_service *s, struct http_exchange *x)
{
    hold(fixture_of(s), x);
}

static void on_big(struct http_service *s, struct http_exchange *x)
{
    (void)s;
    char *p = malloc(FIXTURE_BIG);
    memset(p, 'b', FIXTURE_BIG);
    http_respond(x, 200, STR("text/plain"), (struct str){NULL, 0}, (struct str){p, FIXTURE_BIG});
    free(p);
}

static void on_too_big(struct http_service *s, struct http_exchange *x)
{
    (void)s;
    char *p = calloc(1, 9 * 1024 * 1024);
    http_respond(x, 200, STR("text/plain"), (struct str){NULL, 0},
                 (struct str){p, 9 * 1024 * 1024});
    free(p);
}

static void on_sold(struct http_service *s, struct http_exchange *x)
{
    (void)s;
    struct uuid id;
    uuid_parse(STR("00000000-0000-4000-8000-00000000000a"), &id);
    http_problem(x, ANSWER_SOLD_OUT, &id, NULL);
}

static void on_detail(struct http_service *s, struct http_exchange *x)
{
    (void)s;
    http_problem_with(x, ANSWER_RATE_LIMITED, NULL, "a \"b\"\n", STR("\"order_id\":\"7\""));
}

static void on_nothing(struct http_service *s, struct http_exchange *x)
{
    (void)s;
    http_respond(x, 204, (struct str){NULL, 0}, (struct str){NULL, 0}, (struct str){NULL, 0});
}

static const struct http_route routes[] = {
    {"POST", "/v1/orders", "orders", on_orders},       {"GET", "/v1/items", "items", on_items},
    {"GET", "/v1/items/{}/x/{}", "params", on_params}, {"GET", "/hold", "hold", on_hold},
    {"GET", "/careless", "careless", on_careless},     {"GET", "/big", "big", on_big},
    {"GET", "/toobig", "toobig", on_too_big},          {"GET", "/sold", "sold", on_sold},
    {"GET", "/detail", "detail", on_detail},           {"GET", "/nothing", "nothing", on_nothing},
};

static void *run(void *arg)
{
    struct fixture *f = arg;
    loop_run(f->loop);
    return NULL;
}

void fixture_start(struct fixture *f, const char *prefix)
{
    char err[256] = "";
    f->service = (struct http_service){routes, sizeof routes / sizeof *routes};
    f->prefix = prefix;
    struct http_limits defaults = {.header_us = 2000000,
                                   .read_us = 5000000,
                                   .write_us = 10000000,
                                   .idle_us = 60000000,
                                   .max_connections = 1000,
                                   .max_header = 8192,
                                   .max_body = 4096};
    if (!f->limits.max_header)
        f->limits = defaults;
    f->loop = loop_new();
    f->server = http_server_new(f->loop, "127.0.0.1:0", false, &f->limits, &f->service, prefix, err,
                                sizeof err);
    if (!f->server)
        fail_msg("%s", err);
    f->port = http_server_port(f->server);
    assert_int_equal(pthread_create(&f->thread, NULL, run, f), 0);
}

void fixture_stop(struct fixture *f)
{
    loop_stop(f->loop);
    pthread_join(f->thread, NULL);
    http_server_free(f->server);
    loop_free(f->loop);
}

struct call {
    struct loop_post post;
    struct fixture *f;
    void (*fn)(struct fixture *f, void *arg);
    void *arg;
    sem_t done;
};

static void on_call(struct loop_post *p)
{
    struct call *c = container_of(p, struct call, post);
    c->fn(c->f, c->arg);
    sem_post(&c->done);
}

void fixture_call(struct fixture *f, void (*fn)(struct fixture *f, void *arg), void *arg)
{
    struct call c = {.post.on_run = on_call, .f = f, .fn = fn, .arg = arg};
    sem_init(&c.done, 0, 0);
    loop_post(f->loop, &c.post);
    while (sem_wait(&c.done) && errno == EINTR)
        ;
    sem_destroy(&c.done);
}

static void release(struct fixture *f, void *arg)
{
    (void)arg;
    for (int i = 0; i < FIXTURE_HELD; i++) {
        struct http_exchange *x = f->exchanges[i];
        if (!x)
            continue;
        f->exchanges[i] = NULL;
        atomic_fetch_sub(&f->held, 1);
        http_respond(x, 200, STR("text/plain"), (struct str){NULL, 0}, STR("released"));
    }
}

void fixture_release(struct fixture *f)
{
    fixture_call(f, release, NULL);
}

static void on_drained(struct http_server *s, void *arg)
{
    (void)s;
    struct fixture *f = arg;
    atomic_fetch_add(&f->drained, 1);
}

static void drain(struct fixture *f, void *arg)
{
    http_server_drain(f->server, loop_now_us(f->loop) + *(int64_t *)arg, on_drained, f);
}

void fixture_drain(struct fixture *f, int64_t in_us)
{
    fixture_call(f, drain, &in_us);
}

static void count(struct fixture *f, void *arg)
{
    *(int *)arg = http_server_connections(f->server);
}

int fixture_connections(struct fixture *f)
{
    int n = -1;
    fixture_call(f, count, &n);
    return n;
}

static void pause_briefly(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 500000}, NULL);
}

void fixture_await(const atomic_int *what, int n)
{
    int64_t until = clock_mono_us() + 5000000;
    while (atomic_load(what) != n) {
        if (clock_mono_us() > until)
            fail_msg("waited in vain for %d: it is %d", n, atomic_load(what));
        pause_briefly();
    }
}

void fixture_await_connections(struct fixture *f, int n)
{
    int64_t until = clock_mono_us() + 5000000;
    for (int now; (now = fixture_connections(f)) != n; pause_briefly())
        if (clock_mono_us() > until)
            fail_msg("waited in vain for %d connections: %d", n, now);
}

uint64_t fixture_metric(const char *name, const char *labels)
{
    return metric_value(metric_counter(name, "", labels));
}

/* --- the raw client --- */

void peer_dial(struct peer *p, int port)
{
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_port = htons((uint16_t)port),
                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct timeval limit = {.tv_sec = 8};
    p->len = 0;
    p->fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(p->fd >= 0);
    int on = 1; /* each piece leaves as it is said */
    setsockopt(p->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(p->fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    assert_int_equal(connect(p->fd, (struct sockaddr *)&a, sizeof a), 0);
}

void peer_say(struct peer *p, struct str s)
{
    for (size_t at = 0; at < s.len;) {
        ssize_t n = send(p->fd, s.ptr + at, s.len - at, MSG_NOSIGNAL);
        if (n <= 0) /* the server has closed: what it said is still read */
            return;
        at += (size_t)n;
    }
}

void peer_says(struct peer *p, const char *s)
{
    peer_say(p, str_of(s));
}

static ssize_t more(struct peer *p)
{
    ssize_t n;
    do /* with a time limit of its own it is interrupted by whatever stops a process and wakes it */
        n = recv(p->fd, p->bytes + p->len, sizeof p->bytes - p->len, 0);
    while (n < 0 && errno == EINTR);
    if (n > 0)
        p->len += (size_t)n;
    return n;
}

static void drop(struct peer *p, size_t n)
{
    memmove(p->bytes, p->bytes + n, p->len - n);
    p->len -= n;
}

int peer_answer(struct peer *p, char *head, size_t head_cap, char *body, size_t body_cap)
{
    char *end;
    while (!(end = memmem(p->bytes, p->len, "\r\n\r\n", 4)))
        if (more(p) <= 0)
            return -1;
    size_t head_len = (size_t)(end - p->bytes) + 4;
    str_copy(head, head_cap, (struct str){p->bytes, head_len});
    drop(p, head_len);
    const char *length = strstr(head, "Content-Length: ");
    size_t n = length ? strtoul(length + 16, NULL, 10) : 0, got = 0;
    if (body)
        body[0] = 0;
    while (body && got < n) {
        if (p->len == 0 && more(p) <= 0)
            return -1;
        size_t take = p->len < n - got ? p->len : n - got;
        if (got < body_cap - 1)
            str_copy(body + got, body_cap - got, (struct str){p->bytes, take});
        drop(p, take);
        got += take;
    }
    assert_memory_equal(head, "HTTP/1.1 ", 9);
    return atoi(head + 9);
}

int peer_status(struct peer *p)
{
    char head[1024], body[4200];
    return peer_answer(p, head, sizeof head, body, sizeof body);
}

enum ending peer_rest(struct peer *p)
{
    for (;;) {
        if (p->len == sizeof p->bytes)
            p->len = 0;
        ssize_t n = more(p);
        if (n == 0)
            return ENDED_EOF;
        if (n < 0)
            return errno == EAGAIN ? ENDED_TIMEOUT : ENDED_RESET;
    }
}

bool peer_silent(struct peer *p, int ms)
{
    struct pollfd f = {.fd = p->fd, .events = POLLIN};
    return poll(&f, 1, ms) == 0;
}

void peer_close(struct peer *p)
{
    close(p->fd);
}

void peer_reset(struct peer *p)
{
    struct linger now = {.l_onoff = 1};
    setsockopt(p->fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    close(p->fd);
}
