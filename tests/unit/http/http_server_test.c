/* Good requests, however they arrive, and what the answers look like. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "http_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#define HOST "Host: a.example\r\n"
#define GET "GET /v1/items HTTP/1.1\r\n" HOST
#define ORDER "POST /v1/orders HTTP/1.1\r\n" HOST "Content-Length: 5\r\n\r\nhello"

static struct fixture f;
static struct peer p;
static char head[2048], body[8192];

static int setup(void **state)
{
    (void)state;
    fixture_start(&f, "seckill_http");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    fixture_stop(&f);
    return 0;
}

static int ask(const char *request)
{
    peer_dial(&p, f.port);
    peer_says(&p, request);
    int status = peer_answer(&p, head, sizeof head, body, sizeof body);
    return status;
}

static void answer_has_its_head(void **state)
{
    (void)state;
    assert_int_equal(ask(ORDER), 200);
    assert_string_equal(body, "hello");
    assert_non_null(strstr(head, "HTTP/1.1 200 OK\r\n"));
    assert_non_null(strstr(head, "\r\nContent-Type: text/plain\r\n"));
    assert_non_null(strstr(head, "\r\nX-Extra: 1\r\n"));
    assert_non_null(strstr(head, "\r\nContent-Length: 5\r\n"));
    const char *date = strstr(head, "\r\nDate: ");
    assert_non_null(date);
    assert_memory_equal(date + 33, " GMT\r\n", 6);
    assert_null(strstr(head, "Connection:"));
    /* the connection is still good */
    peer_says(&p, ORDER);
    assert_int_equal(peer_status(&p), 200);
    peer_close(&p);
}

static void split_at_every_byte(void **state)
{
    (void)state;
    static const char request[] =
        "POST /v1/orders HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n"
        "3\r\nhel\r\n2;x\r\nlo\r\n0\r\n\r\n";
    peer_dial(&p, f.port);
    for (size_t cut = 1; cut < sizeof request - 1; cut++) {
        peer_say(&p, (struct str){request, cut});
        if (cut % 8 == 0)
            (void)fixture_connections(&f); /* a turn of the loop: the pieces arrive apart */
        peer_say(&p, (struct str){request + cut, sizeof request - 1 - cut});
        assert_int_equal(peer_answer(&p, head, sizeof head, body, sizeof body), 200);
        assert_string_equal(body, "hello");
    }
    for (size_t i = 0; i < sizeof request - 1; i++)
        peer_say(&p, (struct str){request + i, 1});
    assert_int_equal(peer_status(&p), 200);
    peer_close(&p);
}

static void sixteen_pipelined_are_answered_in_order(void **state)
{
    (void)state;
    char all[4096];
    size_t n = 0;
    int before = atomic_load(&f.executed);
    for (int i = 0; i < 16; i++)
        n += (size_t)snprintf(all + n, sizeof all - n,
                              "POST /v1/orders HTTP/1.1\r\n" HOST "Content-Length: 2\r\n\r\n%02d",
                              i);
    peer_dial(&p, f.port);
    peer_say(&p, (struct str){all, n});
    for (int i = 0; i < 16; i++) {
        assert_int_equal(peer_answer(&p, head, sizeof head, body, sizeof body), 200);
        assert_int_equal(atoi(body), i);
    }
    assert_int_equal(atomic_load(&f.executed), before + 16);
    peer_close(&p);
}

static void thousands_pipelined(void **state)
{
    (void)state;
    /* More than the blocks hold, in both directions, with a held one in between. */
    enum { N = 4000 };
    peer_dial(&p, f.port);
    for (int i = 0; i < N; i++)
        peer_says(&p, i == 20 ? "GET /hold HTTP/1.1\r\n" HOST "\r\n" : GET "\r\n");
    fixture_await(&f.held, 1);
    fixture_release(&f);
    for (int i = 0; i < N; i++) {
        assert_int_equal(peer_answer(&p, head, sizeof head, body, sizeof body), 200);
        assert_string_equal(body, i == 20 ? "released" : "items");
    }
    peer_close(&p);
}

static void continue_is_sent_before_the_body(void **state)
{
    (void)state;
    assert_int_equal(ask("POST /v1/orders HTTP/1.1\r\n" HOST
                         "Expect: 100-continue\r\nContent-Length: 5\r\n\r\n"),
                     100);
    peer_says(&p, "hel");
    assert_true(peer_silent(&p, 20)); /* said once */
    peer_says(&p, "lo");
    assert_int_equal(peer_answer(&p, head, sizeof head, body, sizeof body), 200);
    assert_string_equal(body, "hello");
    peer_close(&p);
    assert_int_equal(ask("POST /v1/orders HTTP/1.1\r\n" HOST
                         "Expect: 100-continue\r\nContent-Length: 5\r\n\r\nhello"),
                     200);
    peer_close(&p);
    /* a body that will be refused is not asked for */
    assert_int_equal(ask("POST /v1/orders HTTP/1.1\r\n" HOST
                         "Expect: 100-continue\r\nContent-Length: 5000\r\n\r\n"),
                     413);
    peer_close(&p);
}

static void head_is_get_without_a_body(void **state)
{
    (void)state;
    peer_dial(&p, f.port);
    peer_says(&p, "HEAD /v1/items HTTP/1.1\r\n" HOST "\r\n" GET "\r\n");
    assert_int_equal(peer_answer(&p, head, sizeof head, NULL, 0), 200);
    assert_non_null(strstr(head, "Content-Length: 5\r\n"));
    assert_int_equal(peer_answer(&p, head, sizeof head, body, sizeof body), 200);
    assert_string_equal(body, "items");
    peer_says(&p, "HEAD /nowhere HTTP/1.1\r\n" HOST "\r\n" GET "\r\n");
    assert_int_equal(peer_answer(&p, head, sizeof head, NULL, 0), 404);
    assert_int_equal(peer_status(&p), 200);
    peer_close(&p);
}

static void http_1_0(void **state)
{
    (void)state;
    assert_int_equal(ask("GET /v1/items HTTP/1.0\r\n\r\n"), 200);
    assert_non_null(strstr(head, "Connection: close\r\n"));
    assert_int_equal(peer_rest(&p), ENDED_EOF);
    peer_close(&p);
    assert_int_equal(ask("GET /v1/items HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"), 200);
    assert_non_null(strstr(head, "Connection: keep-alive\r\n"));
    peer_says(&p, GET "\r\n");
    assert_int_equal(peer_status(&p), 200);
    peer_close(&p);
}

static void connection_close_is_obeyed(void **state)
{
    (void)state;
    assert_int_equal(ask(GET "Connection: close\r\n\r\n" GET "\r\n"), 200);
    assert_non_null(strstr(head, "Connection: close\r\n"));
    assert_int_equal(peer_rest(&p), ENDED_EOF);
    assert_int_equal(p.len, 0);
    peer_close(&p);
}

static void half_close_still_gets_its_answers(void **state)
{
    (void)state;
    peer_dial(&p, f.port);
    peer_says(&p, "GET /hold HTTP/1.1\r\n" HOST "\r\n" ORDER);
    shutdown(p.fd, SHUT_WR);
    fixture_await(&f.held, 1);
    assert_true(peer_silent(&p, 20));
    assert_int_equal(atomic_load(&f.gone), 0);
    fixture_release(&f);
    assert_int_equal(peer_status(&p), 200);
    assert_int_equal(peer_answer(&p, head, sizeof head, body, sizeof body), 200);
    assert_string_equal(body, "hello");
    assert_non_null(strstr(head, "Connection: close\r\n"));
    assert_int_equal(peer_rest(&p), ENDED_EOF);
    peer_close(&p);
}

static void half_close_in_the_middle_of_a_request_ends_it(void **state)
{
    (void)state;
    peer_dial(&p, f.port);
    peer_says(&p, "POST /v1/orders HTTP/1.1\r\n" HOST "Content-Length: 5\r\n\r\nhel");
    shutdown(p.fd, SHUT_WR);
    assert_int_equal(peer_rest(&p), ENDED_EOF);
    assert_int_equal(p.len, 0);
    peer_close(&p);
}

static void routing(void **state)
{
    (void)state;
    static const struct {
        const char *target;
        int status;
        const char *body;
    } cases[] = {
        {"/v1/items/7/x/abc?q=1", 200, "7|abc|q=1"},
        {"/v1/items/7/x/", 404, NULL},
        {"/v1/items//x/abc", 404, NULL},
        {"/v1//items", 404, NULL},
        {"//v1/items", 404, NULL},
        {"/v1/items/", 404, NULL},
        {"/v1/items/./x/a", 404, NULL},
        {"/v1/items/../x/a", 404, NULL},
        {"/v1/items/%37/x/a", 404, NULL},
        {"/v1/%69tems", 404, NULL},
        {"/v1/items/.../x/..a", 200, "...|..a|"},
        {"/V1/items", 404, NULL},
        {"/", 404, NULL},
        {"/v1/item", 404, NULL},
        {"/v1/itemss", 404, NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char request[256];
        snprintf(request, sizeof request, "GET %s HTTP/1.1\r\n" HOST "\r\n", cases[i].target);
        int status = ask(request);
        if (status != cases[i].status)
            fail_msg("%s: %d", cases[i].target, status);
        if (cases[i].body)
            assert_string_equal(body, cases[i].body);
        peer_close(&p);
    }
    assert_int_equal(ask("POST /v1/items HTTP/1.1\r\n" HOST "Content-Length: 0\r\n\r\n"), 405);
    assert_non_null(strstr(head, "Allow: GET, HEAD\r\n"));
    peer_close(&p);
    assert_int_equal(ask("DELETE /v1/orders HTTP/1.1\r\n" HOST "\r\n"), 405);
    assert_non_null(strstr(head, "Allow: POST\r\n"));
    assert_null(strstr(head, "Connection: close"));
    peer_close(&p);
    assert_int_equal(ask("GET http://a.example/v1/items HTTP/1.1\r\n" HOST "\r\n"), 200);
    peer_close(&p);
}

static void problems(void **state)
{
    (void)state;
    assert_int_equal(ask("GET /sold HTTP/1.1\r\n" HOST "\r\n"), 409);
    assert_string_equal(
        body, "{\"type\":\"about:blank\",\"title\":\"The item is sold "
              "out.\",\"status\":409,\"code\":\"SOLD_OUT\","
              "\"retryable\":false,\"request_id\":\"00000000-0000-4000-8000-00000000000a\"}");
    assert_non_null(
        strstr(head, "HTTP/1.1 409 Conflict\r\nContent-Type: application/problem+json\r\n"));
    assert_null(strstr(head, "Retry-After"));
    peer_close(&p);
    assert_int_equal(ask("GET /detail HTTP/1.1\r\n" HOST "\r\n"), 429);
    assert_string_equal(body,
                        "{\"type\":\"about:blank\",\"title\":\"Too many "
                        "requests.\",\"status\":429,\"code\":\"RATE_LIMITED\","
                        "\"retryable\":true,\"detail\":\"a \\\"b\\\"\\n\",\"order_id\":\"7\"}");
    assert_non_null(strstr(head, "Retry-After: 1\r\n"));
    peer_close(&p);
}

static void unusual_answers(void **state)
{
    (void)state;
    assert_int_equal(ask("GET /nothing HTTP/1.1\r\n" HOST "\r\n" GET "\r\n"), 204);
    assert_null(strstr(head, "Content-Length"));
    assert_int_equal(peer_status(&p), 200);
    peer_close(&p);
    assert_int_equal(ask("GET /toobig HTTP/1.1\r\n" HOST "\r\n" GET "\r\n"), 500);
    assert_int_equal(peer_status(&p), 200);
    peer_close(&p);
}

static void large_answer_is_read_slowly(void **state)
{
    (void)state;
    peer_dial(&p, f.port);
    peer_says(&p, "GET /big HTTP/1.1\r\n" HOST "\r\n" GET "\r\n");
    assert_int_equal(peer_answer(&p, head, sizeof head, NULL, 0), 200);
    size_t left = FIXTURE_BIG;
    while (left > p.len) {
        left -= p.len;
        ssize_t n = recv(p.fd, p.bytes, left < 5000 ? left : 5000, 0);
        assert_true(n > 0);
        p.len = (size_t)n;
    }
    memmove(p.bytes, p.bytes + left, p.len - left);
    p.len -= left;
    assert_int_equal(peer_status(&p), 200);
    peer_close(&p);
}

static void counts(void **state)
{
    (void)state;
    const char *labels = "route=\"sold\",status=\"409\"";
    uint64_t before = fixture_metric("seckill_http_requests_total", labels);
    assert_int_equal(ask("GET /sold HTTP/1.1\r\n" HOST "\r\n"), 409);
    peer_close(&p);
    assert_int_equal(fixture_metric("seckill_http_requests_total", labels), before + 1);
    assert_true(fixture_metric("seckill_http_requests_total", "route=\"none\",status=\"404\"") > 0);
    fixture_await_connections(&f, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answer_has_its_head),
        cmocka_unit_test(split_at_every_byte),
        cmocka_unit_test(sixteen_pipelined_are_answered_in_order),
        cmocka_unit_test(thousands_pipelined),
        cmocka_unit_test(continue_is_sent_before_the_body),
        cmocka_unit_test(head_is_get_without_a_body),
        cmocka_unit_test(http_1_0),
        cmocka_unit_test(connection_close_is_obeyed),
        cmocka_unit_test(half_close_still_gets_its_answers),
        cmocka_unit_test(half_close_in_the_middle_of_a_request_ends_it),
        cmocka_unit_test(routing),
        cmocka_unit_test(problems),
        cmocka_unit_test(unusual_answers),
        cmocka_unit_test(large_answer_is_read_slowly),
        cmocka_unit_test(counts),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
