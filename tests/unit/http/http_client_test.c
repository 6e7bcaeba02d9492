/* The tools' client against our server, and against peers that misbehave. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "adapter/http/client.h"
#include "base/err.h"
#include "http_fixture.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

static struct fixture f;
static struct loop *l;

struct asked {
    struct http_call call;
    int rc, times;
    char body[256];
};

static void on_done(struct op *op, int rc)
{
    struct asked *a = container_of(op, struct asked, call.op);
    a->rc = rc;
    a->times++;
    str_copy(a->body, sizeof a->body, a->call.body);
    loop_stop(l);
}

static struct asked ask(struct http_client *c, const char *request, int64_t in_us)
{
    struct asked a = {
        .call = {.op = {on_done, loop_now_us(l) + in_us}, .request = str_of(request)}};
    http_client_send(c, &a.call);
    assert_int_equal(a.times, 0); /* never inside the call */
    loop_run(l);
    assert_int_equal(a.times, 1);
    return a;
}

static int setup(void **state)
{
    (void)state;
    f = (struct fixture){0};
    fixture_start(&f, "test_client");
    l = loop_new();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    loop_free(l);
    fixture_stop(&f);
    return 0;
}

static struct http_client *client(int port)
{
    char where[64];
    snprintf(where, sizeof where, "localhost:%d", port);
    struct http_client *c = http_client_new(l, where);
    assert_non_null(c);
    return c;
}

#define GET "GET /v1/items HTTP/1.1\r\nHost: a\r\n\r\n"

static void one_connection_serves_many_calls(void **state)
{
    (void)state;
    struct http_client *c = client(f.port);
    for (int i = 0; i < 100; i++) {
        struct asked a = ask(c, GET, 5000000);
        assert_int_equal(a.rc, 0);
        assert_int_equal(a.call.status, 200);
        assert_string_equal(a.body, "items");
    }
    assert_int_equal(fixture_metric("test_client_connections_accepted_total", NULL), 1);
    struct asked a = ask(c, "HEAD /v1/items HTTP/1.1\r\nHost: a\r\n\r\n", 5000000);
    assert_int_equal(a.rc, 0);
    assert_string_equal(a.body, "");
    a = ask(c, GET, 5000000);
    assert_string_equal(a.body, "items");
    http_client_free(c);
}

static void closing_server_is_dialled_again(void **state)
{
    (void)state;
    struct http_client *c = client(f.port);
    for (int i = 0; i < 3; i++) {
        struct asked a =
            ask(c, "GET /v1/items HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", 5000000);
        assert_int_equal(a.rc, 0);
        assert_int_equal(a.call.status, 200);
    }
    http_client_free(c);
}

static void nobody_listens(void **state)
{
    (void)state;
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM, 0); /* bound, not listening: nobody else takes the port */
    assert_int_equal(bind(fd, (struct sockaddr *)&a, len), 0);
    getsockname(fd, (struct sockaddr *)&a, &len);
    struct http_client *c = client(ntohs(a.sin_port));
    assert_int_equal(ask(c, GET, 5000000).rc, ERR_UNAVAIL);
    assert_int_equal(ask(c, GET, 5000000).rc, ERR_UNAVAIL);
    http_client_free(c);
    close(fd);
}

static void late_answer_is_uncertain_and_costs_the_connection(void **state)
{
    (void)state;
    struct http_client *c = client(f.port);
    struct asked a = ask(c, "GET /hold HTTP/1.1\r\nHost: a\r\n\r\n", 50000);
    assert_int_equal(a.rc, ERR_UNCERTAIN);
    fixture_release(&f);
    a = ask(c, GET, 5000000); /* does not meet the late one */
    assert_int_equal(a.rc, 0);
    assert_string_equal(a.body, "items");
    http_client_free(c);
}

static void answer_beyond_the_bound(void **state)
{
    (void)state;
    struct http_client *c = client(f.port);
    assert_int_equal(ask(c, "GET /big HTTP/1.1\r\nHost: a\r\n\r\n", 5000000).rc, ERR_UNCERTAIN);
    assert_int_equal(ask(c, GET, 5000000).rc, 0);
    http_client_free(c);
}

static void freed_while_under_way(void **state)
{
    (void)state;
    struct http_client *c = client(f.port);
    struct asked a = {.call = {.op = {on_done, loop_now_us(l) + 5000000},
                               .request = str_of("GET /hold HTTP/1.1\r\nHost: a\r\n\r\n")}};
    http_client_send(c, &a.call);
    http_client_free(c);
    assert_int_equal(a.times, 0);
    loop_run(l);
    assert_int_equal(a.times, 1);
    assert_int_equal(a.rc, ERR_UNCERTAIN);
}

static void continue_is_skipped(void **state)
{
    (void)state;
    struct http_client *c = client(f.port);
    struct asked a = ask(
        c, "GET /v1/items HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 0\r\n\r\n",
        5000000);
    assert_int_equal(a.call.status, 200);
    http_client_free(c);
}

static void retry_after_is_told(void **state)
{
    (void)state;
    struct http_client *c = client(f.port);
    struct asked a = ask(c, "GET /detail HTTP/1.1\r\nHost: a\r\n\r\n", 5000000);
    assert_int_equal(a.call.status, 429);
    assert_int_equal(a.call.retry_after_s, 1);
    a = ask(c, GET, 5000000); /* each call's own */
    assert_int_equal(a.call.retry_after_s, 0);
    http_client_free(c);
}

/* A server of one answer, byte by byte. */
struct drip {
    int listener;
    const char *answer;
};

static void *drip(void *arg)
{
    const struct drip *d = arg;
    int on = 1, fd = accept(d->listener, NULL, NULL);
    char request[512];
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (read(fd, request, sizeof request) <= 0)
        abort();
    for (const char *at = d->answer; *at; at++) {
        if (send(fd, at, 1, MSG_NOSIGNAL) != 1)
            break;
        sched_yield();
    }
    close(fd);
    return NULL;
}

static void retry_after_in_pieces_or_not_in_seconds(void **state)
{
    (void)state;
    static const struct {
        const char *header;
        int seconds;
    } rows[] = {
        {"retry-after: 120", 120}, {"Retry-After: Wed, 21 Oct 2026 07:28:00 GMT", 0},
        {"Retry-After: -1", 0},    {"Retry-After: 99999999999", 0},
        {"X-Retry-After: 7", 0},   {"A-Name-Longer-Than-The-Place-It-Has: 7", 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t len = sizeof a;
        char text[256];
        snprintf(text, sizeof text,
                 "HTTP/1.1 503 Service Unavailable\r\n%s\r\nContent-Length: 0\r\n\r\n",
                 rows[i].header);
        struct drip d = {socket(AF_INET, SOCK_STREAM, 0), text};
        assert_int_equal(bind(d.listener, (struct sockaddr *)&a, len), 0);
        assert_int_equal(listen(d.listener, 1), 0);
        getsockname(d.listener, (struct sockaddr *)&a, &len);
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, drip, &d), 0);
        struct http_client *c = client(ntohs(a.sin_port));
        struct asked got = ask(c, GET, 5000000);
        assert_int_equal(got.rc, 0);
        assert_int_equal(got.call.status, 503);
        assert_int_equal(got.call.retry_after_s, rows[i].seconds);
        http_client_free(c);
        pthread_join(thread, NULL);
        close(d.listener);
    }
}

static void addresses(void **state)
{
    (void)state;
    const char *bad[] = {
        "", "localhost", ":80", "localhost:", "localhost:0", "localhost:65536", "localhost:x"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_null(http_client_new(l, bad[i]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_connection_serves_many_calls),
        cmocka_unit_test(closing_server_is_dialled_again),
        cmocka_unit_test(nobody_listens),
        cmocka_unit_test(late_answer_is_uncertain_and_costs_the_connection),
        cmocka_unit_test(answer_beyond_the_bound),
        cmocka_unit_test(freed_while_under_way),
        cmocka_unit_test(continue_is_skipped),
        cmocka_unit_test(retry_after_is_told),
        cmocka_unit_test(retry_after_in_pieces_or_not_in_seconds),
        cmocka_unit_test(addresses),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
