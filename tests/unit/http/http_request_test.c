/* The parser alone: what is refused and how, what is accepted and how it reads, each cut at every
 * byte. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "adapter/http/request.h"

#include "http_cases.h"
#include <stdio.h>

enum { HEADER = 8192, BODY = 4096, ROOM = HEADER + BODY + 1024 };

/* Feeds at most `step` bytes at a time, moving the buffer at each, as a connection may. Returns the
 * state; *rest: bytes behind the request. */
static enum http_request_result feed(struct http_request *r, struct str in, size_t step, char *buf,
                                     size_t *rest)
{
    enum http_request_result got = HTTP_REQUEST_MORE;
    size_t n = 0, at = 0;
    http_request_init(r, HEADER, BODY);
    while (got == HTTP_REQUEST_MORE && at < in.len) {
        size_t take = in.len - at < step ? in.len - at : step;
        if (take > ROOM - n)
            take = ROOM - n;
        assert_true(take > 0);
        memcpy(buf + n, in.ptr + at, take);
        n += take, at += take;
        char *moved = malloc(n); /* exactly as large: reading behind it is seen */
        memcpy(moved, buf, n);
        got = http_request_feed(r, moved, &n);
        memcpy(buf, moved, n);
        free(moved);
    }
    *rest = got == HTTP_REQUEST_COMPLETE ? n - r->end + (in.len - at) : 0;
    return got;
}

static void check_refused(const char *name, struct str bytes, int status)
{
    static char buf[ROOM];
    size_t steps[] = {1, 2, 3, 7, 64, 100000}, rest;
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        struct http_request r;
        enum http_request_result got = feed(&r, bytes, steps[i], buf, &rest);
        if (got != HTTP_REQUEST_REFUSED || answer_info(r.refusal)->status != status)
            fail_msg("%s (by %zu): result %d, status %d instead of %d", name, steps[i], (int)got,
                     got == HTTP_REQUEST_REFUSED ? answer_info(r.refusal)->status : 0, status);
    }
}

static void refusals(void **state)
{
    (void)state;
    for (size_t i = 0; i < HTTP_BAD_CASES; i++)
        check_refused(http_bad_cases[i].name, http_bad_cases[i].bytes, http_bad_cases[i].status);
}

static void refusals_of_size(void **state)
{
    (void)state;
    struct {
        struct str bytes;
        int status;
    } cases[] = {
        {http_case_filled("GET /", 'a', HEADER, " HTTP/1.1\r\nHost: a\r\n\r\n"), 414},
        {http_case_filled("GET / HTTP/1.1\r\nHost: a\r\nX: ", 'a', HEADER, "\r\n\r\n"), 431},
        /* one byte too many */
        {http_case_filled("GET / HTTP/1.1\r\nHost: a\r\nX: ", 'a', HEADER - 31, "\r\n\r\n"), 431},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        check_refused("size", cases[i].bytes, cases[i].status);
        free((void *)(uintptr_t)cases[i].bytes.ptr);
    }
    char many[4096];
    int n = snprintf(many, sizeof many, "GET / HTTP/1.1\r\nHost: a\r\n");
    for (int i = 0; i < HTTP_MAX_HEADERS; i++)
        n += snprintf(many + n, sizeof many - (size_t)n, "X-%d: a\r\n", i);
    n += snprintf(many + n, sizeof many - (size_t)n, "\r\n");
    check_refused("too many headers", (struct str){many, (size_t)n}, 431);
}

static void framing_is_bounded(void **state)
{
    (void)state;
    /* One byte of data in chunks with long extensions: more framing than a body of this size can
     * need. */
    size_t cap = 200000, n = 0;
    char *p = malloc(cap);
    n += (size_t)snprintf(p, cap, "%s", POST HOST CHUNKED END);
    while (n < cap - 200)
        n += (size_t)snprintf(p + n, cap - n, "1;%0100d\r\na\r\n", 0);
    check_refused("endless framing", (struct str){p, n}, 400);
    free(p);
}

#define S(s) ((s).ptr ? (s) : STR("-"))

/* Reads it by every step and compares a description of all that was read. */
static void check_accepted(const char *name, struct str bytes, const char *expected,
                           size_t expected_rest)
{
    static char buf[ROOM];
    for (size_t step = 1; step <= bytes.len; step++) {
        struct http_request r;
        size_t rest;
        char text[512];
        enum http_request_result got = feed(&r, bytes, step, buf, &rest);
        if (got != HTTP_REQUEST_COMPLETE)
            fail_msg("%s (by %zu): result %d, refusal %d", name, step, (int)got, (int)r.refusal);
        struct str path = http_span_str(r.path, buf), query = S(http_span_str(r.query, buf));
        struct str auth = S(http_span_str(r.authorization, buf)),
                   key = S(http_span_str(r.idempotency_key, buf));
        struct str type = S(http_span_str(r.content_type, buf)),
                   trace = S(http_span_str(r.traceparent, buf));
        snprintf(text, sizeof text,
                 "%d " STR_FMT " " STR_FMT " [" STR_FMT "] [" STR_FMT "] [" STR_FMT "] [" STR_FMT
                 "] %s '%.*s'",
                 (int)r.method, STR_ARG(path), STR_ARG(query), STR_ARG(auth), STR_ARG(key),
                 STR_ARG(type), STR_ARG(trace), r.keep_alive ? "keep" : "close", (int)r.body_len,
                 buf + r.head_len);
        assert_string_equal(text, expected);
        assert_int_equal(rest, expected_rest);
    }
}

static void accepted(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        struct str bytes;
        const char *expected;
        size_t rest;
    } cases[] = {
#define GOOD(name_, expected_, rest_, bytes_)                                                      \
    {name_, {bytes_, sizeof(bytes_) - 1}, expected_, rest_}
        GOOD("get", "0 /v1/items - [-] [-] [-] [-] keep ''", 0, GET HOST END),
        GOOD("with a query", "0 /a x=1?2 [-] [-] [-] [-] keep ''", 0,
             LINE("GET /a?x=1?2 HTTP/1.1") HOST END),
        GOOD("leading empty line", "0 /v1/items - [-] [-] [-] [-] keep ''", 0, "\r\n" GET HOST END),
        GOOD("pipelined", "0 /v1/items - [-] [-] [-] [-] keep ''", 5, GET HOST END "GET /"),
        GOOD("head", "1 /a - [-] [-] [-] [-] keep ''", 0, LINE("HEAD /a HTTP/1.1") HOST END),
        GOOD("put", "3 /a - [-] [-] [-] [-] keep ''", 0, LINE("PUT /a HTTP/1.1") HOST END),
        GOOD("post", "2 /v1/orders - [Bearer x] [k] [application/json] [t] keep 'hello'", 0,
             POST HOST LINE("Authorization: Bearer x") LINE("idempotency-KEY:k")
                 LINE("Content-Type:\t application/json \t") LINE("Traceparent: t")
                     LINE("Content-Length: 5") END "hello"),
        GOOD("empty body", "2 /v1/orders - [-] [-] [-] [-] keep ''", 0,
             POST HOST LINE("Content-Length: 0") END),
        GOOD("present but empty", "0 /v1/items - [] [-] [-] [-] keep ''", 0,
             GET HOST LINE("Authorization: ") END),
        GOOD("chunked", "2 /v1/orders - [-] [-] [-] [-] keep 'hello world'", 3,
             POST HOST LINE("transfer-encoding: CHUNKED") END
             "5\r\nhello\r\n06;a=b;c\r\n world\r\n0\r\n\r\nGET"),
        GOOD("chunked, empty", "2 /v1/orders - [-] [-] [-] [-] keep ''", 0,
             POST HOST CHUNKED END "0\r\n\r\n"),
        GOOD("chunk size in capitals", "2 /v1/orders - [-] [-] [-] [-] keep 'hellohello'", 0,
             POST HOST CHUNKED END "0000000A\r\nhellohello\r\n000;x\r\n\r\n"),
        GOOD("close", "0 /v1/items - [-] [-] [-] [-] close ''", 0,
             GET HOST LINE("Connection: x, Close") END),
        GOOD("close in a second line", "0 /v1/items - [-] [-] [-] [-] close ''", 0,
             GET HOST LINE("Connection: keep-alive") LINE("Connection: close") END),
        GOOD("upgrade is ignored", "0 /v1/items - [-] [-] [-] [-] keep ''", 0,
             GET HOST LINE("Connection: Upgrade, HTTP2-Settings") LINE("Upgrade: h2c")
                 LINE("HTTP2-Settings: x") END),
        GOOD("upgrade with a body", "2 /v1/orders - [-] [-] [-] [-] keep 'hi'", 0,
             POST HOST LINE("Connection: Upgrade") LINE("Upgrade: websocket")
                 LINE("Content-Length: 2") END "hi"),
        GOOD("1.0", "0 /a - [-] [-] [-] [-] close ''", 0, LINE("GET /a HTTP/1.0") END),
        GOOD("1.0 keep-alive", "0 /a - [-] [-] [-] [-] keep ''", 0,
             LINE("GET /a HTTP/1.0") LINE("Connection: Keep-Alive") END),
        GOOD("absolute", "0 /a x [-] [-] [-] [-] keep ''", 0,
             LINE("GET HTTP://A.example:80/a?x HTTP/1.1") LINE("Host: a.EXAMPLE:80") END),
        GOOD("IPv6 host", "0 /v1/items - [-] [-] [-] [-] keep ''", 0,
             GET LINE("Host: [::1]:8080") END),
        GOOD("address for a host", "0 /v1/items - [-] [-] [-] [-] keep ''", 0,
             GET LINE("Host: 127.0.0.1:65535") END),
        GOOD("bytes above 127 in a value", "0 /v1/items - [-] [-] [-] [-] keep ''", 0,
             GET HOST LINE("User-Agent: \xe7\xa7\x92\xe6\x9d\x80") END),
        GOOD("empty value", "0 /v1/items - [-] [-] [-] [-] keep ''", 0,
             GET HOST LINE("X-A:") LINE("X-B: ") END),
        GOOD("two traceparents are none", "0 /v1/items - [-] [-] [-] [-] keep ''", 0,
             GET HOST LINE("traceparent: a") LINE("traceparent: a") END),
        GOOD("Expect with its body", "2 /v1/orders - [-] [-] [-] [-] keep 'hi'", 0,
             POST HOST LINE("Expect: 100-Continue") LINE("Content-Length: 2") END "hi"),
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_accepted(cases[i].name, cases[i].bytes, cases[i].expected, cases[i].rest);
}

static void largest_request_fits(void **state)
{
    (void)state;
    static char buf[ROOM];
    size_t steps[] = {1, 999, 100000}, rest;
    /* A head of exactly max_header and a body of exactly max_body, in chunks of one byte. */
    const char *before = POST HOST CHUNKED "X: ";
    struct str head = http_case_filled(before, 'a', HEADER - strlen(before) - 4, "\r\n\r\n");
    assert_int_equal(head.len, HEADER);
    size_t n = head.len;
    char *all = malloc(HEADER + BODY * 6 + 5);
    memcpy(all, head.ptr, head.len);
    for (int i = 0; i < BODY; i++, n += 6)
        memcpy(all + n, "1\r\nb\r\n", 6);
    memcpy(all + n, "0\r\n\r\n", 5);
    n += 5;
    for (size_t i = 0; i < 3; i++) {
        struct http_request r;
        assert_int_equal(feed(&r, (struct str){all, n}, steps[i], buf, &rest),
                         HTTP_REQUEST_COMPLETE);
        assert_int_equal(r.body_len, BODY);
        for (int k = 0; k < BODY; k++)
            assert_int_equal(buf[r.head_len + (uint32_t)k], 'b');
    }
    free((void *)(uintptr_t)head.ptr);
    free(all);
}

static void continue_is_wanted_only_while_the_body_is_missing(void **state)
{
    (void)state;
    struct http_request r;
    char buf[256] = POST HOST "Expect: 100-continue\r\nContent-Length: 2\r\n\r\n";
    size_t n = strlen(buf);
    http_request_init(&r, HEADER, BODY);
    assert_int_equal(http_request_feed(&r, buf, &n), HTTP_REQUEST_MORE);
    assert_true(r.expects_continue);
    char old[256] = "POST / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n";
    n = strlen(old);
    http_request_init(&r, HEADER, BODY);
    assert_int_equal(http_request_feed(&r, old, &n), HTTP_REQUEST_MORE);
    assert_false(r.expects_continue);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refusals),
        cmocka_unit_test(refusals_of_size),
        cmocka_unit_test(framing_is_bounded),
        cmocka_unit_test(accepted),
        cmocka_unit_test(largest_request_fits),
        cmocka_unit_test(continue_is_wanted_only_while_the_body_is_missing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
