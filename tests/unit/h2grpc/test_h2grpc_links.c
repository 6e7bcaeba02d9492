/* What happens to connections, and what the calls on them then say of the world. */
#include "h2_world.h"

#include "adapter/h2grpc/internal.h"
#include "base/metric.h"
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

static struct h2_conn *conn(void)
{
    return h2_server_conn(&server);
}

static void start(struct test_call *t)
{
    test_call_init(t, PATH, STR("hello"), in(60 * SECONDS));
    h2grpc_start(channel, &t->call);
    assert_int_equal(t->ends, 0);
}

static int run(struct test_call *t)
{
    test_call_init(t, PATH, STR("hello"), in(60 * SECONDS));
    return test_call_run(loop, channel, t);
}

/* --- no connection --- */

/* A port where nobody listens, as long as the descriptor is open. */
static int closed_port(char *target, size_t cap)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof a;
    assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &len), 0);
    snprintf(target, cap, "127.0.0.1:%d", ntohs(a.sin_port));
    return fd;
}

static void nobody_listens(void **state)
{
    (void)state;
    char target[32];
    int fd = closed_port(target, sizeof target);
    begin_with((struct h2grpc_config){.target = target});
    struct test_call patient, hasty;
    test_call_init(&hasty, PATH, STR("hello"), in(60 * SECONDS));
    hasty.call.fail_fast = true;
    assert_int_equal(test_call_run(loop, channel, &hasty), ERR_UNAVAIL);
    assert_string_equal(hasty.text, "Connection refused");
    assert_int_equal(hasty.end.status, GRPC_UNAVAILABLE);
    test_call_init(&patient, PATH, STR("hello"), in(60 * MS));
    assert_int_equal(test_call_run(loop, channel, &patient), ERR_DEADLINE);
    assert_string_equal(patient.text, "Connection refused");
    assert_int_equal(patient.end.status, GRPC_DEADLINE_EXCEEDED);
    assert_int_equal(patient.call.sent_us, 0);
    assert_false(h2grpc_up(channel));
    close(fd);
}

/* Whatever a resolver says to it, and when: it may say nothing within dial_us. */
static void a_host_without_an_address(void **state)
{
    (void)state;
    begin_with((struct h2grpc_config){.target = "seckill.invalid:1", .dial_us = 100 * MS});
    struct test_call t;
    test_call_init(&t, PATH, STR("hello"), in(60 * SECONDS));
    t.call.fail_fast = true;
    assert_int_equal(test_call_run(loop, channel, &t), ERR_UNAVAIL);
    test_call_init(&t, PATH, STR("hello"), in(60 * SECONDS));
    h2grpc_start(channel, &t.call);
    UNTIL(loop, channel->current);
    h2grpc_free(channel); /* perhaps while it asks */
    channel = NULL;
    assert_int_equal(t.end.rc, ERR_CANCELED);
}

/* Nobody waits, and yet it is found up again. */
static void those_in_a_hurry_make_it_try(void **state)
{
    (void)state;
    begin();
    struct test_call t;
    server.limit = 5; /* into its SETTINGS */
    test_call_init(&t, PATH, STR("hello"), in(60 * SECONDS));
    t.call.fail_fast = true;
    assert_int_equal(test_call_run(loop, channel, &t), ERR_UNAVAIL);
    server.limit = 0;
    UNTIL(loop, (t.ends = 0, test_call_run(loop, channel, &t)) == 0);
}

static void no_time_is_left(void **state)
{
    (void)state;
    begin();
    struct test_call t;
    test_call_init(&t, PATH, STR("hello"), in(-1));
    assert_int_equal(test_call_run(loop, channel, &t), ERR_DEADLINE);
    assert_int_equal(run(&t), 0);
    test_call_init(&t, PATH, STR("hello"), in(-1));
    assert_int_equal(test_call_run(loop, channel, &t), ERR_DEADLINE);
    assert_int_equal(server.requests, 1);
}

static void a_server_without_settings_is_given_up(void **state)
{
    (void)state;
    begin_with((struct h2grpc_config){.dial_us = 20 * MS});
    struct test_call t;
    server.mute = true;
    start(&t);
    UNTIL(loop, server.accepted >= 3);
    assert_int_equal(t.ends, 0);
    server.mute = false;
    UNTIL(loop, t.ends);
    assert_int_equal(t.end.rc, 0);
}

static void speak_http1(struct h2_conn *c)
{
    static const char text[] = "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n";
    h2_say_bytes(c, text, sizeof text - 1);
}

static void a_server_of_another_protocol(void **state)
{
    (void)state;
    begin();
    server.mute = true;
    struct test_call t;
    test_call_init(&t, PATH, STR("hello"), in(60 * SECONDS));
    t.call.fail_fast = true;
    h2grpc_start(channel, &t.call);
    UNTIL(loop, server.accepted && conn()->greeted);
    speak_http1(conn());
    UNTIL(loop, t.ends);
    assert_int_equal(t.end.rc, ERR_UNAVAIL);
    assert_int_equal(server.requests, 0);
}

static void waits_grow_and_have_a_cap(void **state)
{
    (void)state;
    char target[32];
    int fd = closed_port(target, sizeof target);
    begin_with((struct h2grpc_config){
        .target = target, .backoff_min_us = 4 * MS, .backoff_max_us = 20 * MS});
    struct metric *losses = of_link_total("seckill_grpc_reconnects_total");
    uint64_t before = metric_value(losses);
    struct test_call t;
    int64_t began = in(0);
    test_call_init(&t, PATH, STR("hello"), in(60 * SECONDS));
    h2grpc_start(channel, &t.call);
    UNTIL(loop, metric_value(losses) - before == 8);
    /* 4 6.4 10.2 16.4 20 20 20, each 20 % less at the shortest. */
    assert_true(in(0) - began >= 77 * MS);
    h2grpc_free(channel); /* the call is on this stack */
    channel = NULL;
    assert_int_equal(t.end.rc, ERR_CANCELED);
    close(fd);
}

/* --- lost connections --- */

static void a_connection_lost_before_the_request_costs_nothing(void **state)
{
    (void)state;
    begin();
    struct test_call t;
    server.limit = 5; /* into its SETTINGS */
    start(&t);
    UNTIL(loop, server.accepted >= 3);
    assert_int_equal(t.ends, 0);
    server.limit = 0;
    UNTIL(loop, t.ends);
    assert_int_equal(t.end.rc, 0);
    assert_int_equal(server.requests, 1);
}

static void close_at_once(struct h2_conn *c, int32_t id)
{
    (void)id;
    h2_close(c);
}

static void a_connection_lost_after_the_request(void **state)
{
    (void)state;
    begin();
    struct test_call t;
    server.on_end = close_at_once;
    assert_int_equal(run(&t), ERR_UNCERTAIN);
    assert_int_equal(t.end.status, GRPC_UNAVAILABLE);
    assert_int_equal(server.requests, 1); /* not sent again by itself */
    server.on_end = NULL;
    assert_int_equal(run(&t), 0);
}

/* The whole of it has less than 150 bytes, SETTINGS and acknowledgement included. */
static void an_answer_cut_at_every_byte(void **state)
{
    (void)state;
    begin();
    int whole = 0;
    for (long limit = 1; limit < 150; limit++) {
        struct test_call t;
        int accepted = server.accepted, requests = server.requests;
        server.limit = limit;
        h2grpc_reconnect(channel, "the next cut");
        UNTIL(loop, !h2grpc_up(channel));
        test_call_init(&t, PATH, STR("hello"), in(60 * SECONDS));
        h2grpc_start(channel, &t.call);
        UNTIL(loop, server.accepted > accepted);
        server.limit = 0; /* the next one is a good one */
        UNTIL(loop, t.ends);
        if (t.end.rc == 0) {
            /* Either nobody had seen it, or the answer came whole: once, in any case. */
            assert_int_equal(t.messages, 1);
            assert_int_equal(server.requests, requests + 1);
            whole += server.accepted == accepted + 1;
        } else {
            assert_int_equal(t.end.rc, ERR_UNCERTAIN);
            assert_int_equal(whole, 0);
        }
        assert_int_equal(t.ends, 1);
    }
    assert_true(whole > 0);
}

/* False: the kernel took the call after all, which it may while this process sleeps. */
static bool sent_again_after_the_kernel_took_none_of_it(void)
{
    struct test_call first, big, after;
    assert_int_equal(run(&first), 0);
    h2_say_u32(conn(), WINDOW, 0, 1 << 30);
    assert_int_equal(run(&first), 0);
    h2_pause(conn());
    size_t n = 24 << 20; /* more than a socket holds */
    char *bytes = calloc(1, n);
    test_call_init(&big, PATH, (struct str){bytes, n}, in(60 * SECONDS));
    h2grpc_start(channel, &big.call);
    UNTIL(loop, big.call.sent_us);
    struct metric *retries = of_link_total("seckill_grpc_retries_total");
    uint64_t before = metric_value(retries);
    int accepted = server.accepted;
    start(&after);
    UNTIL(loop, after.call.sent_us); /* behind the bytes that the socket does not take */
    assert_int_equal(after.ends, 0);
    h2_close(conn());
    UNTIL(loop, big.ends && after.ends);
    assert_int_equal(big.end.rc, ERR_UNCERTAIN);
    free(bytes);
    if (after.end.rc == ERR_UNCERTAIN)
        return false;
    assert_int_equal(after.end.rc, 0);
    assert_int_equal(metric_value(retries), before + 1);
    assert_int_equal(server.accepted, accepted + 1);
    return true;
}

static void what_the_kernel_never_took_is_sent_again(void **state)
{
    (void)state;
    h2_server_setting(&server, 4, INT32_MAX);
    begin();
    bool again = false;
    for (int i = 0; i < 10 && !again; i++)
        again = sent_again_after_the_kernel_took_none_of_it();
    assert_true(again);
}

static void a_dead_connection_is_given_up_by_who_knows(void **state)
{
    (void)state;
    begin();
    struct test_call t;
    server.on_end = h2_nothing;
    h2grpc_reconnect(channel, "there is none");
    start(&t);
    UNTIL(loop, server.ends == 1);
    h2grpc_reconnect(channel, "no heartbeat");
    assert_int_equal(t.ends, 0);
    UNTIL(loop, t.ends);
    assert_int_equal(t.end.rc, ERR_UNCERTAIN);
    assert_string_equal(t.text, "no heartbeat");
    server.on_end = NULL;
    assert_int_equal(run(&t), 0);
    assert_int_equal(server.accepted, 2);
}

static void give_up_inside(struct test_call *t)
{
    h2grpc_reconnect(t->channel, "from inside");
    assert_int_equal(t->ends, 0);
}

static void a_connection_is_given_up_from_inside_a_message(void **state)
{
    (void)state;
    begin();
    struct test_call t, other;
    start(&other);
    test_call_init(&t, PATH, STR("hello"), in(60 * SECONDS));
    t.channel = channel;
    t.on_message = give_up_inside;
    h2grpc_start(channel, &t.call);
    UNTIL(loop, t.ends && other.ends);
    assert_int_equal(run(&t), 0);
    assert_int_equal(server.accepted, 2);
}

static void an_idle_connection_may_close(void **state)
{
    (void)state;
    begin();
    struct test_call t;
    for (int i = 1; i <= 3; i++) {
        test_call_init(&t, PATH, STR("hello"), in(60 * SECONDS));
        t.call.fail_fast = true; /* it is not known to be down */
        assert_int_equal(test_call_run(loop, channel, &t), 0);
        assert_int_equal(server.accepted, i);
        h2_close(conn());
        UNTIL(loop, !h2grpc_up(channel));
    }
}

/* --- frames that end a connection --- */

static void frames_that_break_the_protocol(void **state)
{
    (void)state;
    begin();
    static const struct {
        int type, flags, id;
        const char *payload;
        size_t n;
    } cases[] = {
        {DATA, 0, 0, "x", 1},                        /* DATA on the connection */
        {5, 4, 1, "\0\0\0\2\x88", 5},                /* PUSH_PROMISE, which we forbade */
        {SETTINGS, 0, 0, "\0\4\xff\xff\xff\xff", 6}, /* a window above 2^31 */
        {SETTINGS, 0, 0, "\0\4", 2},
        {WINDOW, 0, 0, "\0\0\0\0", 4},
        {HEADERS, 4, 1, "\xff\xff\xff\xff\xff", 5}, /* no HPACK */
        {9, 4, 1, "\x88", 1},                       /* CONTINUATION of nothing */
        {HEADERS, 4, 2, "\x88", 1},                 /* a stream of the server's */
        {PING, 0, 0, "x", 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct test_call t;
        int before = server.ends;
        server.on_end = h2_nothing;
        start(&t);
        UNTIL(loop, server.ends == before + 1);
        h2_say(conn(), cases[i].type, cases[i].flags, cases[i].id, cases[i].payload, cases[i].n);
        UNTIL(loop, t.ends);
        assert_int_equal(t.end.rc, ERR_UNCERTAIN);
        server.on_end = NULL;
        assert_int_equal(run(&t), 0);
        assert_int_equal(server.accepted, 2 + (int)i);
    }
}

static void a_ping_is_answered(void **state)
{
    (void)state;
    begin();
    struct test_call t;
    assert_int_equal(run(&t), 0);
    h2_say(conn(), PING, 0, 0, "12345678", 8);
    UNTIL(loop, conn()->pongs == 1);
    assert_int_equal(conn()->pings, 0);
}

/* --- GOAWAY --- */

static void goaway_lets_streams_finish_beside_a_new_connection(void **state)
{
    (void)state;
    begin();
    struct test_call old, fresh;
    server.on_end = h2_nothing;
    start(&old);
    UNTIL(loop, server.ends == 1);
    struct h2_conn *first = conn();
    h2_say_goaway(first, INT32_MAX, 0);
    UNTIL(loop, !h2grpc_up(channel));
    server.on_end = NULL;
    assert_int_equal(run(&fresh), 0);
    assert_true(h2grpc_up(channel));
    assert_int_equal(server.accepted, 2);
    assert_true(first->open);
    assert_int_equal(old.ends, 0);
    h2_say_goaway(first, 1, 0); /* the second one, as servers do */
    h2_say_ok(first, 1);
    UNTIL(loop, old.ends);
    assert_int_equal(old.end.rc, 0);
    UNTIL(loop, !first->open); /* nothing is left to wait for */
    assert_true(h2grpc_up(channel));
}

static void what_goaway_cuts_off_is_sent_again(void **state)
{
    (void)state;
    begin();
    struct test_call t[4];
    server.on_end = h2_nothing;
    for (int i = 0; i < 4; i++)
        start(&t[i]);
    UNTIL(loop, server.ends == 4);
    struct h2_conn *first = conn();
    server.on_end = NULL;
    h2_say_goaway(first, 3, 0);
    UNTIL(loop, t[2].ends && t[3].ends);
    assert_int_equal(t[2].end.rc, 0);
    assert_int_equal(t[3].end.rc, 0);
    assert_int_equal(t[0].ends + t[1].ends, 0);
    assert_int_equal(server.accepted, 2);
    h2_say_ok(first, 3);
    h2_close(first);
    UNTIL(loop, t[0].ends && t[1].ends);
    assert_int_equal(t[0].end.rc, ERR_UNCERTAIN);
    assert_int_equal(t[1].end.rc, 0);
}

static void leave(struct h2_conn *c, int32_t id)
{
    h2_say_goaway(c, id - 2 < 0 ? 0 : id - 2, 0);
}

static void a_server_that_sends_everybody_away(void **state)
{
    (void)state;
    begin();
    struct test_call t;
    server.on_request = leave;
    server.on_end = h2_nothing;
    assert_int_equal(run(&t), ERR_UNAVAIL); /* three retries, and nobody looked at it */
    assert_int_equal(server.accepted, 4);
    assert_int_equal(t.end.status, GRPC_UNAVAILABLE);
}

static void stream_ids_run_out(void **state)
{
    (void)state;
    begin();
    struct test_call t[3];
    assert_int_equal(run(&t[0]), 0);
    nghttp2_session_set_next_stream_id(channel->current->session, INT32_MAX);
    for (int i = 0; i < 3; i++)
        start(&t[i]);
    UNTIL(loop, t[0].ends && t[1].ends && t[2].ends);
    for (int i = 0; i < 3; i++)
        assert_int_equal(t[i].end.rc, 0);
    assert_int_equal(server.accepted, 2);
    assert_int_equal(server.requests, 4);
}

static void goaway_with_the_settings(void **state)
{
    (void)state;
    begin();
    struct test_call t;
    server.mute = true;
    start(&t);
    UNTIL(loop, conn()->greeted);
    h2_say(conn(), SETTINGS, 0, 0, NULL, 0);
    h2_say_goaway(conn(), 0, 11);
    server.mute = false;
    UNTIL(loop, t.ends);
    assert_int_equal(t.end.rc, 0);
    assert_int_equal(server.accepted, 2);
}

static void draining_connections_are_bounded(void **state)
{
    (void)state;
    begin();
    static struct test_call t[7];
    server.on_end = h2_nothing;
    for (int i = 0; i < 7; i++) {
        start(&t[i]);
        UNTIL(loop, server.ends == i + 1);
        h2_say_goaway(conn(), INT32_MAX, 0);
        UNTIL(loop, !h2grpc_up(channel));
    }
    UNTIL(loop, t[2].ends); /* 7 drain, 4 may */
    assert_int_equal(t[0].end.rc, ERR_UNCERTAIN);
    assert_int_equal(t[2].end.rc, ERR_UNCERTAIN);
    assert_int_equal(t[3].ends, 0);
}

static int load_ends;
static void count(struct test_call *t)
{
    assert_int_equal(t->ends, 1);
    load_ends++;
}

/* Every 50th request the server goes away: sometimes with a cut, sometimes cutting the line. */
static void answer_or_leave(struct h2_conn *c, int32_t id)
{
    struct h2_server *s = c->server;
    if (s->ends % 50 == 0 && s->ends % 150 == 0)
        h2_close(c);
    else if (s->ends % 50 == 0)
        h2_say_goaway(c, id > 20 ? id - 20 : 0, 0);
    else
        h2_say_ok(c, id);
}

static void goaway_under_load_ends_each_call_once(void **state)
{
    (void)state;
    begin_with((struct h2grpc_config){.max_streams = 64});
    enum { CALLS = 1000 };
    struct test_call *t = calloc(CALLS, sizeof *t);
    server.on_end = answer_or_leave;
    load_ends = 0;
    for (int i = 0; i < CALLS; i++) {
        test_call_init(&t[i], PATH, STR("hello"), in(60 * SECONDS));
        t[i].then = count;
        h2grpc_start(channel, &t[i].call);
    }
    UNTIL(loop, load_ends == CALLS);
    int done = 0;
    for (int i = 0; i < CALLS; i++) {
        assert_int_equal(t[i].ends, 1);
        assert_true(t[i].end.rc == 0 || t[i].end.rc == ERR_UNCERTAIN || t[i].end.rc == ERR_UNAVAIL);
        done += t[i].end.rc == 0;
    }
    assert_true(done > 400);
    assert_true(server.accepted > 5);
    free(t);
}

/* As nginx and Envoy do: a connection lasts for so many calls, however soon they are over. */
static void answer_ten(struct h2_conn *c, int32_t id)
{
    h2_say_ok(c, id);
    if (id == 19)
        h2_say_goaway(c, id, 0);
}

static void goaway_after_ten_calls_costs_no_wait(void **state)
{
    (void)state;
    begin_with(
        (struct h2grpc_config){.backoff_min_us = 60 * SECONDS, .backoff_max_us = 60 * SECONDS});
    server.on_end = answer_ten;
    for (int i = 0; i < 60; i++) {
        struct test_call t;
        start(&t);
        UNTIL(loop, t.ends);
        assert_int_equal(t.end.rc, 0);
    }
    assert_int_equal(server.accepted, 6);
}

/* --- bounds --- */

struct due {
    struct loop_task task;
    struct h2_conn *conn;
    int32_t id;
};

static void on_due(struct loop_task *task)
{
    struct due *d = container_of(task, struct due, task);
    h2_say_ok(d->conn, d->id);
    free(d);
}

static void answer_soon(struct h2_conn *c, int32_t id)
{
    struct due *d = calloc(1, sizeof *d);
    *d = (struct due){.task.on_run = on_due, .conn = c, .id = id};
    list_init(&d->task.link);
    loop_defer(loop, &d->task);
}

static void the_servers_limit_of_streams_is_kept(void **state)
{
    (void)state;
    h2_server_setting(&server, 3, 1);
    begin();
    static struct test_call t[30];
    server.on_end = answer_soon;
    for (int i = 0; i < 30; i++)
        start(&t[i]);
    UNTIL(loop, t[29].ends);
    for (int i = 0; i < 30; i++)
        assert_int_equal(t[i].end.rc, 0);
    assert_int_equal(conn()->most_streams, 1);
    /* Cancelled ones leave their place, though the server says nothing that would wake us. */
    server.on_end = h2_nothing;
    server.stall = true;
    start(&t[0]);
    start(&t[1]);
    UNTIL(loop, server.ends == 31);
    h2grpc_cancel(&t[0].call);
    UNTIL(loop, server.ends == 32);
    assert_int_equal(conn()->most_streams, 1);
    h2_say_ok(conn(), conn()->last);
    UNTIL(loop, t[1].ends);
    assert_int_equal(t[1].end.rc, 0);
}

static void a_limit_of_none_can_be_lifted(void **state)
{
    (void)state;
    h2_server_setting(&server, 3, 0);
    begin();
    struct test_call t, late;
    test_call_init(&t, PATH, STR("hello"), in(60 * MS));
    assert_int_equal(test_call_run(loop, channel, &t), ERR_DEADLINE);
    start(&late);
    UNTIL(loop, h2grpc_up(channel));
    assert_int_equal(server.requests, 0);
    h2_say(conn(), SETTINGS, 0, 0, "\0\3\0\0\0\1", 6);
    UNTIL(loop, late.ends);
    assert_int_equal(late.end.rc, 0);
    assert_int_equal(server.requests, 1);
}

static void our_limit_of_streams_is_kept(void **state)
{
    (void)state;
    begin_with((struct h2grpc_config){.max_streams = 3});
    static struct test_call t[20];
    server.on_end = answer_soon;
    for (int i = 0; i < 20; i++)
        start(&t[i]);
    UNTIL(loop, t[19].ends);
    assert_int_equal(conn()->most_streams, 3);
}

static void what_waits_is_bounded(void **state)
{
    (void)state;
    begin_with((struct h2grpc_config){.max_pending = 5});
    struct metric *overload = of_link_total("seckill_grpc_overload_total");
    uint64_t before = metric_value(overload);
    static struct test_call t[8];
    for (int i = 0; i < 8; i++)
        start(&t[i]);
    assert_int_equal(metric_value(of_link("seckill_grpc_pending_calls")), 5);
    UNTIL(loop, t[0].ends && t[4].ends && t[7].ends);
    for (int i = 0; i < 8; i++)
        assert_int_equal(t[i].end.rc, i < 5 ? 0 : ERR_OVERLOAD);
    assert_int_equal(metric_value(overload) - before, 3);
}

/* --- silence, and the end --- */

static void silence_until_the_deadline(void **state)
{
    (void)state;
    begin();
    struct test_call t, other;
    server.on_end = h2_nothing;
    test_call_init(&t, PATH, STR("hello"), 0);
    assert_int_equal(test_call_expire(loop, channel, &t, 40 * MS), ERR_UNCERTAIN);
    assert_int_equal(t.end.status, GRPC_DEADLINE_EXCEEDED);
    UNTIL(loop, conn()->resets == 1);
    h2_say_ok(conn(), 1); /* too late: nobody minds */
    server.on_end = NULL;
    assert_int_equal(run(&other), 0);
    assert_int_equal(t.ends, 1);
    assert_int_equal(server.accepted, 1);
}

static void start_again(struct test_call *t)
{
    if (t->again-- > 0) {
        t->ends = 0;
        h2grpc_start(t->channel, &t->call);
    }
}

static void the_end_with_calls_in_every_state(void **state)
{
    (void)state;
    for (int links = 0; links < 4; links++) {
        begin_with((struct h2grpc_config){.max_streams = 2});
        server.on_end = h2_nothing;
        server.ends = 0;
        static struct test_call t[6];
        for (int i = 0; i < 4; i++) { /* two on the wire, two wait */
            start(&t[i]);
            t[i].channel = channel;
            t[i].then = start_again;
            t[i].again = 3;
        }
        if (links > 0)
            UNTIL(loop, server.ends == 2);
        if (links == 2)
            h2_say_goaway(conn(), INT32_MAX, 0);
        if (links == 2)
            UNTIL(loop, server.ends == 4); /* two drain, two are on the new one */
        if (links == 3)
            h2_close(conn());
        start(&t[4]);
        h2grpc_cancel(&t[4].call);
        h2grpc_free(channel);
        channel = NULL;
        for (int i = 0; i < 4; i++) {
            assert_int_equal(t[i].ends, 1);
            assert_int_equal(t[i].end.rc, ERR_CANCELED); /* the last of its starts */
            assert_true(t[i].again < 0);
        }
        assert_int_equal(t[4].ends, 1);
        assert_int_equal(t[4].end.rc, ERR_CANCELED);
    }
    h2grpc_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(nobody_listens),
        TEST(a_host_without_an_address),
        TEST(those_in_a_hurry_make_it_try),
        TEST(no_time_is_left),
        TEST(a_server_without_settings_is_given_up),
        TEST(a_server_of_another_protocol),
        TEST(waits_grow_and_have_a_cap),
        TEST(a_connection_lost_before_the_request_costs_nothing),
        TEST(a_connection_lost_after_the_request),
        TEST(an_answer_cut_at_every_byte),
        TEST(what_the_kernel_never_took_is_sent_again),
        TEST(a_dead_connection_is_given_up_by_who_knows),
        TEST(a_connection_is_given_up_from_inside_a_message),
        TEST(an_idle_connection_may_close),
        TEST(frames_that_break_the_protocol),
        TEST(a_ping_is_answered),
        TEST(goaway_lets_streams_finish_beside_a_new_connection),
        TEST(what_goaway_cuts_off_is_sent_again),
        TEST(a_server_that_sends_everybody_away),
        TEST(stream_ids_run_out),
        TEST(goaway_with_the_settings),
        TEST(draining_connections_are_bounded),
        TEST(goaway_under_load_ends_each_call_once),
        TEST(goaway_after_ten_calls_costs_no_wait),
        TEST(the_servers_limit_of_streams_is_kept),
        TEST(a_limit_of_none_can_be_lifted),
        TEST(our_limit_of_streams_is_kept),
        TEST(what_waits_is_bounded),
        TEST(silence_until_the_deadline),
        TEST(the_end_with_calls_in_every_state),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
