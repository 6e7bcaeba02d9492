/* Every case of http_cases.h against a real server: one answer with the right status, then the end
 * without a reset, and a good request pipelined behind it is never executed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "http_cases.h"
#include "http_fixture.h"

#include <stdio.h>

#define PROBE "POST /v1/orders HTTP/1.1\r\nHost: a.example\r\nContent-Length: 5\r\n\r\nprobe"

static struct fixture f;
static struct peer p;

static int setup(void **state)
{
    (void)state;
    fixture_start(&f, "test_refusal");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    fixture_stop(&f);
    return 0;
}

static void check(const char *name, struct str bytes, int status)
{
    char head[1024], body[1024], expect[64];
    int before = atomic_load(&f.executed);
    peer_dial(&p, f.port);
    char *all = malloc(bytes.len + sizeof PROBE);
    memcpy(all, bytes.ptr, bytes.len);
    memcpy(all + bytes.len, PROBE, sizeof PROBE - 1);
    peer_say(&p, (struct str){all, bytes.len + sizeof PROBE - 1});
    free(all);
    int got = peer_answer(&p, head, sizeof head, body, sizeof body);
    if (got != status)
        fail_msg("%s: status %d instead of %d", name, got, status);
    snprintf(expect, sizeof expect, "\"status\":%d,\"code\":\"", status);
    if (!strstr(head, "\r\nConnection: close\r\n") || !strstr(head, "application/problem+json") ||
        !strstr(body, expect))
        fail_msg("%s: %s%s", name, head, body);
    enum ending e = peer_rest(&p);
    if (e != ENDED_EOF || p.len)
        fail_msg("%s: after the answer %zu bytes and ending %d", name, p.len, (int)e);
    if (atomic_load(&f.executed) != before)
        fail_msg("%s: what stood behind it was executed", name);
    peer_close(&p);
}

static void every_bad_request_is_refused_and_the_connection_closed(void **state)
{
    (void)state;
    assert_true(HTTP_BAD_CASES >= 45);
    for (size_t i = 0; i < HTTP_BAD_CASES; i++)
        check(http_bad_cases[i].name, http_bad_cases[i].bytes, http_bad_cases[i].status);
    assert_int_equal(fixture_metric("test_refusal_malformed_total", NULL), HTTP_BAD_CASES);
    printf("%d bad requests refused\n", (int)HTTP_BAD_CASES);
}

static void what_is_too_large(void **state)
{
    (void)state;
    struct str line = http_case_filled("GET /", 'a', 20000, " HTTP/1.1\r\nHost: a\r\n\r\n");
    struct str header =
        http_case_filled("GET / HTTP/1.1\r\nHost: a\r\nX: ", 'a', 20000, "\r\n\r\n");
    struct str body = http_case_filled(
        "POST /v1/orders HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n", 'a', 100000, "");
    check("line", line, 414);
    check("header", header, 431);
    check("body", body, 413);
    free((void *)(uintptr_t)line.ptr);
    free((void *)(uintptr_t)header.ptr);
    free((void *)(uintptr_t)body.ptr);
    char many[4096];
    int n = snprintf(many, sizeof many, "GET / HTTP/1.1\r\nHost: a\r\n");
    for (int i = 0; i < 64; i++)
        n += snprintf(many + n, sizeof many - (size_t)n, "X-%d: a\r\n", i);
    n += snprintf(many + n, sizeof many - (size_t)n, "\r\n");
    check("headers", (struct str){many, (size_t)n}, 431);
}

/* The same, each byte in a segment of its own. */
static void cut_into_single_bytes(void **state)
{
    (void)state;
    for (size_t i = 0; i < HTTP_BAD_CASES; i += 7) {
        struct str b = http_bad_cases[i].bytes;
        peer_dial(&p, f.port);
        for (size_t k = 0; k < b.len; k++)
            peer_say(&p, (struct str){b.ptr + k, 1});
        assert_int_equal(peer_status(&p), http_bad_cases[i].status);
        assert_int_equal(peer_rest(&p), ENDED_EOF);
        peer_close(&p);
    }
}

static void good_one_before_a_bad_one_is_answered(void **state)
{
    (void)state;
    int before = atomic_load(&f.executed);
    peer_dial(&p, f.port);
    peer_says(&p, PROBE "GET / HTTP/1.1\r\n\r\n" PROBE);
    assert_int_equal(peer_status(&p), 200);
    assert_int_equal(peer_status(&p), 400);
    assert_int_equal(peer_rest(&p), ENDED_EOF);
    assert_int_equal(p.len, 0);
    assert_int_equal(atomic_load(&f.executed), before + 1);
    peer_close(&p);
}

static void bad_one_behind_a_held_one_waits_its_turn(void **state)
{
    (void)state;
    int before = atomic_load(&f.executed);
    peer_dial(&p, f.port);
    peer_says(&p, "GET /hold HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\n\r\n" PROBE);
    fixture_await(&f.held, 1);
    fixture_release(&f);
    assert_int_equal(peer_status(&p), 200);
    assert_int_equal(peer_status(&p), 400);
    assert_int_equal(peer_rest(&p), ENDED_EOF);
    assert_int_equal(atomic_load(&f.executed), before);
    peer_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_bad_request_is_refused_and_the_connection_closed),
        cmocka_unit_test(what_is_too_large),
        cmocka_unit_test(cut_into_single_bytes),
        cmocka_unit_test(good_one_before_a_bad_one_is_answered),
        cmocka_unit_test(bad_one_behind_a_held_one_waits_its_turn),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
