/* Deadlines, disappearing clients, bounds, and the drain. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "http_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define HOST "Host: a.example\r\n"
#define GET "GET /v1/items HTTP/1.1\r\n" HOST "\r\n"
#define HOLD "GET /hold HTTP/1.1\r\n" HOST "\r\n"

static struct fixture f;
static struct peer p;

static int setup(void **state)
{
    (void)state;
    /* Apart enough to tell which one it was, short enough for a test. */
    f = (struct fixture){.limits = {.header_us = 150000,
                                    .read_us = 400000,
                                    .write_us = 300000,
                                    .idle_us = 600000,
                                    .max_connections = 8,
                                    .max_header = 4096,
                                    .max_body = 1024}};
    fixture_start(&f, "test_life");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    fixture_stop(&f);
    return 0;
}

static uint64_t closed_by(const char *which)
{
    char labels[64];
    snprintf(labels, sizeof labels, "which=\"%s\"", which);
    return fixture_metric("test_life_deadline_closed_total", labels);
}

static void expect_end_between(int64_t start, int64_t least_us, int64_t most_us)
{
    int64_t took = clock_mono_us() - start;
    if (took < least_us || took > most_us)
        fail_msg("took %lld us", (long long)took);
}

/* --- deadlines --- */

static void header_deadline_is_absolute(void **state)
{
    (void)state;
    uint64_t before = closed_by("header");
    int64_t start = clock_mono_us();
    peer_dial(&p, f.port);
    /* A byte now and then does not put it off. */
    static const char slow[] = "GET /v1/items HTTP/1.1\r\nHost: a.example\r\nX-Slow: "
                               "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    for (size_t i = 0; i < sizeof slow - 1 && peer_silent(&p, 10); i++)
        peer_say(&p, (struct str){slow + i, 1});
    assert_int_equal(peer_status(&p), 408);
    assert_int_equal(peer_rest(&p), ENDED_EOF);
    expect_end_between(start, 150000, 8000000);
    peer_close(&p);
    assert_int_equal(closed_by("header"), before + 1);
}

static void body_deadline_counts_from_the_first_byte(void **state)
{
    (void)state;
    uint64_t before = closed_by("read");
    int64_t start = clock_mono_us();
    peer_dial(&p, f.port);
    peer_says(&p, "POST /v1/orders HTTP/1.1\r\n" HOST "Content-Length: 100\r\n\r\n");
    for (int i = 0; i < 99 && peer_silent(&p, 10); i++)
        peer_says(&p, "x");
    assert_int_equal(peer_status(&p), 408);
    assert_int_equal(peer_rest(&p), ENDED_EOF);
    expect_end_between(start, 400000, 8000000);
    peer_close(&p);
    assert_int_equal(closed_by("read"), before + 1);
}

/* How many; fewer than n where this machine let one of them wait for so long that the connection
 * had been idle. */
static int answers_300_ms_apart(int n)
{
    peer_dial(&p, f.port);
    for (int i = 0; i < n; i++) {
        int64_t start = clock_mono_us();
        peer_says(&p, GET);
        int status = peer_status(&p);
        bool silent = peer_silent(&p, 300);
        if (clock_mono_us() - start > 500000) {
            peer_close(&p);
            return i;
        }
        assert_int_equal(status, 200);
        assert_true(silent);
    }
    return n;
}

static void idle_connection_is_closed_silently(void **state)
{
    (void)state;
    uint64_t before = closed_by("idle");
    int64_t start = clock_mono_us();
    peer_dial(&p, f.port);
    assert_int_equal(peer_rest(&p), ENDED_EOF);
    expect_end_between(start, 600000, 8000000);
    assert_int_equal(p.len, 0);
    peer_close(&p);
    assert_int_equal(closed_by("idle"), before + 1);
    /* Each answer starts it anew. */
    int answers = 0;
    for (int tries = 0; answers < 4 && tries < 20; tries++)
        answers = answers_300_ms_apart(4);
    assert_int_equal(answers, 4);
    start = clock_mono_us();
    assert_int_equal(peer_rest(&p), ENDED_EOF);
    expect_end_between(start, 100000, 30000000);
    peer_close(&p);
}

static void waiting_for_the_handler_has_no_deadline_here(void **state)
{
    (void)state;
    peer_dial(&p, f.port);
    peer_says(&p, HOLD);
    fixture_await(&f.held, 1);
    assert_true(peer_silent(&p, 800));
    fixture_release(&f);
    assert_int_equal(peer_status(&p), 200);
    peer_says(&p, GET);
    assert_int_equal(peer_status(&p), 200);
    peer_close(&p);
}

static void who_does_not_read_is_cut(void **state)
{
    (void)state;
    uint64_t before = closed_by("write");
    int64_t start = clock_mono_us();
    peer_dial(&p, f.port);
    peer_says(&p, "GET /big HTTP/1.1\r\n" HOST "\r\n");
    while (closed_by("write") == before && clock_mono_us() - start < 8000000)
        usleep(500);
    expect_end_between(start, 300000, 8000000);
    fixture_await_connections(&f, 0);
    peer_close(&p);
}

static void lingering_ends(void **state)
{
    (void)state;
    /* Answered with an error, and the client neither reads nor closes: one second, and the place is
     * free again. */
    peer_dial(&p, f.port);
    peer_says(&p, "nonsense\r\n\r\n");
    fixture_await_connections(&f, 1);
    fixture_await_connections(&f, 0);
    assert_int_equal(peer_status(&p), 400);
    peer_close(&p);
}

static void refused_upload_reads_its_answer(void **state)
{
    (void)state;
    /* The client is still sending when it is refused; closing at once would reset it, answer and
     * all. */
    peer_dial(&p, f.port);
    peer_says(&p, "POST /v1/orders HTTP/1.1\r\n" HOST "Content-Length: 1000000\r\n\r\n");
    static const char block[4096];
    for (int i = 0; i < 200; i++)
        peer_say(&p, (struct str){block, sizeof block});
    assert_int_equal(peer_status(&p), 413);
    assert_int_equal(peer_rest(&p), ENDED_EOF);
    peer_close(&p);
}

/* --- clients that go away --- */

static void reset_is_told_once(void **state)
{
    (void)state;
    int before = atomic_load(&f.gone);
    uint64_t canceled = fixture_metric("test_life_client_canceled_total", NULL);
    peer_dial(&p, f.port);
    peer_says(&p, HOLD GET);
    fixture_await(&f.held, 1);
    peer_reset(&p);
    fixture_await(&f.gone, before + 1);
    fixture_await_connections(&f, 0);
    fixture_release(&f);
    assert_int_equal(atomic_load(&f.gone), before + 1);
    assert_int_equal(fixture_metric("test_life_client_canceled_total", NULL), canceled + 1);
}

static void reset_after_half_close_is_told(void **state)
{
    (void)state;
    int before = atomic_load(&f.gone);
    peer_dial(&p, f.port);
    peer_says(&p, HOLD);
    shutdown(p.fd, SHUT_WR);
    fixture_await(&f.held, 1);
    assert_true(peer_silent(&p, 50));
    assert_int_equal(atomic_load(&f.gone), before);
    peer_reset(&p);
    fixture_await(&f.gone, before + 1);
}

static void closed_client_is_noticed_when_written_to(void **state)
{
    (void)state;
    /* close() without unread bytes looks like a half-close: the answer goes into the void, nothing
     * breaks. */
    peer_dial(&p, f.port);
    peer_says(&p, HOLD);
    fixture_await(&f.held, 1);
    peer_close(&p);
    fixture_release(&f);
    fixture_await_connections(&f, 0);
}

/* … or a plain close(), once anything reaches the closed socket, or was there unread. */
static void close_behind_an_earlier_answer_is_told(void **state)
{
    (void)state;
    int before = atomic_load(&f.gone);
    peer_dial(&p, f.port);
    peer_says(&p, GET HOLD);
    peer_close(&p);
    fixture_await(&f.gone, before + 1);
    fixture_await_connections(&f, 0);
}

static void close_with_an_unread_answer_is_told(void **state)
{
    (void)state;
    int before = atomic_load(&f.gone);
    peer_dial(&p, f.port);
    peer_says(&p, GET HOLD);
    fixture_await(&f.held, 1);
    assert_false(peer_silent(&p, 5000)); /* it has come */
    peer_close(&p);
    fixture_await(&f.gone, before + 1);
    fixture_await_connections(&f, 0);
}

static void careless_handler_answers_into_the_void(void **state)
{
    (void)state;
    peer_dial(&p, f.port);
    peer_says(&p, "GET /careless HTTP/1.1\r\n" HOST "\r\n");
    fixture_await(&f.held, 1);
    peer_reset(&p);
    fixture_await_connections(&f, 0);
    fixture_release(&f);
    fixture_await(&f.held, 0);
}

static void handlers_hear_of_the_end_of_the_server(void **state)
{
    (void)state;
    static struct peer a, b;
    peer_dial(&a, f.port);
    peer_says(&a, HOLD);
    peer_dial(&b, f.port);
    peer_says(&b, "GET /careless HTTP/1.1\r\n" HOST "\r\n");
    fixture_await(&f.held, 2);
    int before = atomic_load(&f.gone);
    loop_stop(f.loop);
    pthread_join(f.thread, NULL);
    http_server_free(f.server);
    assert_int_equal(atomic_load(&f.gone), before + 1);
    for (int i = 0; i < FIXTURE_HELD; i++) /* the careless one still answers */
        if (f.exchanges[i])
            http_respond(f.exchanges[i], 200, STR("text/plain"), STR(""), STR("x"));
    loop_free(f.loop);
    peer_close(&a);
    peer_close(&b);
    setup(NULL);
}

/* --- bounds --- */

static void too_many_connections_are_closed_at_once(void **state)
{
    (void)state;
    static struct peer many[8], more;
    uint64_t before = fixture_metric("test_life_connections_refused_total", NULL);
    fixture_await_connections(&f, 0);
    for (int i = 0; i < 8; i++)
        peer_dial(&many[i], f.port);
    fixture_await_connections(&f, 8);
    peer_dial(&more, f.port);
    assert_int_equal(peer_rest(&more), ENDED_EOF);
    peer_close(&more);
    assert_int_equal(fixture_metric("test_life_connections_refused_total", NULL), before + 1);
    peer_says(&many[0], GET);
    assert_int_equal(peer_status(&many[0]), 200);
    peer_close(&many[1]);
    fixture_await_connections(&f, 7);
    peer_dial(&more, f.port);
    peer_says(&more, GET);
    assert_int_equal(peer_status(&more), 200);
    peer_close(&more);
    for (int i = 0; i < 8; i++)
        if (i != 1)
            peer_close(&many[i]);
    fixture_await_connections(&f, 0);
}

static void flood_behind_a_held_request_is_bounded(void **state)
{
    (void)state;
    /* The server stops reading when its block is full: the sender is stopped, not memory filled. */
    static const char block[4096] = {0};
    peer_dial(&p, f.port);
    peer_says(&p, HOLD);
    fixture_await(&f.held, 1);
    size_t sent = 0;
    for (;;) {
        ssize_t n = send(p.fd, block, sizeof block, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && sent == 0)
            continue;
        if (n < 0 || sent > 64 * 1024 * 1024)
            break;
        sent += (size_t)n;
    }
    assert_true(sent < 64 * 1024 * 1024);
    fixture_release(&f);
    assert_int_equal(peer_status(&p), 200);
    assert_int_equal(peer_status(&p), 400);
    peer_close(&p);
    fixture_await_connections(&f, 0);
}

/* --- drain --- */

static void drain_answers_everybody(void **state)
{
    (void)state;
    static struct peer idle, held, partial, queued;
    fixture_await_connections(&f, 0);
    peer_dial(&idle, f.port);
    peer_says(&idle, GET);
    assert_int_equal(peer_status(&idle), 200);
    peer_dial(&held, f.port);
    peer_says(&held, HOLD);
    fixture_await(&f.held, 1);
    peer_dial(&partial, f.port);
    peer_says(&partial, "GET /v1/items HT");
    fixture_await_connections(&f, 3);
    peer_dial(&queued, f.port); /* maybe still in the queue of the listener */
    peer_says(&queued, GET GET);
    fixture_drain(&f, 3000000);
    char head[1024], body[1024];
    assert_int_equal(peer_status(&queued), 200);
    assert_int_equal(peer_answer(&queued, head, sizeof head, body, sizeof body), 200);
    peer_says(&partial, "TP/1.1\r\n" HOST "\r\n");
    assert_int_equal(peer_answer(&partial, head, sizeof head, body, sizeof body), 200);
    assert_non_null(strstr(head, "Connection: close\r\n"));
    assert_int_equal(peer_rest(&partial), ENDED_EOF);
    /* An idle one gets its next answer. */
    peer_says(&idle, GET);
    assert_int_equal(peer_answer(&idle, head, sizeof head, body, sizeof body), 200);
    assert_non_null(strstr(head, "Connection: close\r\n"));
    assert_int_equal(peer_rest(&idle), ENDED_EOF);
    peer_close(&idle);
    peer_close(&partial);
    assert_int_equal(atomic_load(&f.drained), 0);
    fixture_release(&f);
    assert_int_equal(peer_answer(&held, head, sizeof head, body, sizeof body), 200);
    assert_non_null(strstr(head, "Connection: close\r\n"));
    assert_int_equal(peer_rest(&held), ENDED_EOF);
    peer_close(&held);
    peer_close(&queued);
    fixture_await(&f.drained, 1);
}

static void drain_closes_the_idle_without_a_reset(void **state)
{
    (void)state;
    peer_dial(&p, f.port);
    peer_says(&p, GET);
    assert_int_equal(peer_status(&p), 200);
    int64_t start = clock_mono_us();
    fixture_drain(&f, 1200000);
    assert_int_equal(peer_rest(&p), ENDED_EOF);
    expect_end_between(start, 100000, 8000000);
    peer_says(&p, GET); /* crosses our end: it is dropped, not reset */
    peer_close(&p);
    fixture_await(&f.drained, 1);
}

static void drain_deadline_cuts_the_rest(void **state)
{
    (void)state;
    peer_dial(&p, f.port);
    peer_says(&p, HOLD);
    fixture_await(&f.held, 1);
    fixture_drain(&f, 200000);
    fixture_await(&f.drained, 1);
    assert_int_equal(atomic_load(&f.gone), 1);
    assert_int_equal(fixture_connections(&f), 0);
    peer_close(&p);
}

static void drain_of_nothing_is_over_at_once(void **state)
{
    (void)state;
    fixture_drain(&f, 60000000);
    fixture_await(&f.drained, 1);
}

/* Clients that keep asking while the server drains see whole answers and a clean end, or nothing
 * was accepted. */
struct hammer {
    pthread_t thread;
    int port, answers, broken;
};
static void *hammer(void *arg)
{
    struct hammer *h = arg;
    struct peer *q = calloc(1, sizeof *q);
    char head[1024], body[1024];
    peer_dial(q, h->port);
    for (bool open = true; open;) {
        peer_says(q, GET);
        int status = peer_answer(q, head, sizeof head, body, sizeof body);
        h->answers += status == 200;
        h->broken += status != 200;
        open = status == 200 && !strstr(head, "Connection: close");
    }
    h->broken += peer_rest(q) != ENDED_EOF;
    peer_close(q);
    free(q);
    return NULL;
}
static void drain_under_load(void **state)
{
    (void)state;
    struct hammer h[4] = {0};
    for (int i = 0; i < 4; i++) {
        h[i].port = f.port;
        assert_int_equal(pthread_create(&h[i].thread, NULL, hammer, &h[i]), 0);
    }
    fixture_await_connections(&f, 4);
    while (atomic_load(&f.executed) < 500)
        usleep(200);
    fixture_drain(&f, 5000000);
    for (int i = 0; i < 4; i++) {
        pthread_join(h[i].thread, NULL);
        assert_int_equal(h[i].broken, 0);
        assert_true(h[i].answers > 0);
    }
    fixture_await(&f.drained, 1);
}

int main(void)
{
#define T(t) cmocka_unit_test_setup_teardown(t, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(header_deadline_is_absolute),
        T(body_deadline_counts_from_the_first_byte),
        T(idle_connection_is_closed_silently),
        T(waiting_for_the_handler_has_no_deadline_here),
        T(who_does_not_read_is_cut),
        T(lingering_ends),
        T(refused_upload_reads_its_answer),
        T(reset_is_told_once),
        T(reset_after_half_close_is_told),
        T(close_behind_an_earlier_answer_is_told),
        T(close_with_an_unread_answer_is_told),
        T(closed_client_is_noticed_when_written_to),
        T(careless_handler_answers_into_the_void),
        T(handlers_hear_of_the_end_of_the_server),
        T(too_many_connections_are_closed_at_once),
        T(flood_behind_a_held_request_is_bounded),
        T(drain_answers_everybody),
        T(drain_closes_the_idle_without_a_reset),
        T(drain_deadline_cuts_the_rest),
        T(drain_of_nothing_is_over_at_once),
        T(drain_under_load),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
