/* What a server may answer to a call, good and bad, and what the call then says of the world. */
#include "h2_world.h"

#include "base/metric.h"
#include <stdio.h>
#include <stdlib.h>

/* The linker has all calls of calloc come here. */
static bool no_memory;
void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size)
{
    return no_memory ? NULL : __real_calloc(n, size);
}

static int run(struct test_call *t)
{
    test_call_init(t, PATH, STR("hello"), in(60 * SECONDS));
    return test_call_run(loop, channel, t);
}

/* --- the good answer, and what was asked --- */

static void a_request_says_what_grpc_wants(void **state)
{
    (void)state;
    begin();
    struct test_call t;
    static const struct h2grpc_header metadata[] = {{"x-mq-language", STR("CPP")},
                                                    {"authorization", STR("MQv2 secret")}};
    test_call_init(&t, PATH, STR("hello"), in(60 * SECONDS));
    t.call.metadata = metadata;
    t.call.n_metadata = 2;
    assert_int_equal(test_call_run(loop, channel, &t), 0);
    assert_int_equal(t.messages, 1);
    assert_memory_equal(t.last, "ok", 2);
    assert_true(t.end.from_server);
    struct h2_conn *c = h2_server_conn(&server);
    char authority[64];
    snprintf(authority, sizeof authority, ":authority: %s\n", server.target);
    assert_non_null(strstr(c->headers, ":method: POST\n:scheme: http\n:path: " PATH "\n"));
    assert_non_null(strstr(c->headers, authority));
    assert_non_null(strstr(c->headers, "te: trailers\ncontent-type: application/grpc\n"));
    assert_non_null(strstr(c->headers, "x-mq-language: CPP\nauthorization: MQv2 secret\n"));
    const char *timeout = strstr(c->headers, "grpc-timeout: ");
    assert_non_null(timeout);
    long us = atol(timeout + 14);
    assert_true(us > 30 * SECONDS && us <= 60 * SECONDS);
    assert_int_equal(c->data, 10);
    assert_memory_equal(c->body, "\0\0\0\0\5hello", 10);
    assert_true(c->window_bytes >= (4 << 20) - 65535); /* the connection's window */
}

static void an_empty_request_is_a_message_too(void **state)
{
    (void)state;
    begin();
    struct test_call t;
    test_call_init(&t, PATH, STR(""), INT64_MAX);
    assert_int_equal(test_call_run(loop, channel, &t), 0);
    assert_int_equal(h2_server_conn(&server)->data, 5);
    assert_null(strstr(h2_server_conn(&server)->headers, "grpc-timeout"));
}

static void a_large_request_waits_for_the_window(void **state)
{
    (void)state;
    begin();
    size_t n = 3 << 20;
    char *bytes = malloc(n);
    memset(bytes, 'x', n);
    struct test_call t;
    test_call_init(&t, PATH, (struct str){bytes, n}, in(20 * SECONDS));
    assert_int_equal(test_call_run(loop, channel, &t), 0);
    assert_int_equal(h2_server_conn(&server)->data, n + 5);
    free(bytes);
}

static void a_window_that_never_opens_costs_the_deadline(void **state)
{
    (void)state;
    begin();
    server.stall = true;
    char *bytes = calloc(1, 100000);
    struct test_call t, other;
    test_call_init(&t, PATH, (struct str){bytes, 100000}, 0);
    assert_int_equal(test_call_expire(loop, channel, &t, 200 * MS), ERR_UNCERTAIN);
    assert_int_equal(t.end.status, GRPC_DEADLINE_EXCEEDED);
    struct h2_conn *c = h2_server_conn(&server);
    assert_int_equal(c->data, 65535);
    UNTIL(loop, c->resets == 1);
    assert_int_equal(c->reset, 8);
    h2_say_u32(c, WINDOW, 0, 65535);
    assert_int_equal(run(&other), 0);
    assert_int_equal(server.accepted, 1);
    free(bytes);
}

/* --- answers in pieces --- */

static void split_at_every_byte(struct h2_conn *c, int32_t id)
{
    const char *bytes = "\0\0\0\0\3one\0\0\0\0\0\0\0\0\0\5three";
    h2_say_head(c, id);
    for (int i = 0; i < 23; i++)
        h2_say(c, DATA, 0, id, bytes + i, 1);
    h2_say(c, DATA, 0, id, NULL, 0);
    h2_say_status(c, id, "0");
}

static void messages_in_one_byte_frames(void **state)
{
    (void)state;
    begin();
    struct test_call t;
    server.on_end = split_at_every_byte;
    assert_int_equal(run(&t), 0);
    assert_int_equal(t.messages, 3);
    assert_int_equal(t.bytes, 8);
    assert_memory_equal(t.last, "three", 5);
}

static void a_thousand_in_a_frame(struct h2_conn *c, int32_t id)
{
    unsigned char bytes[7000];
    for (int i = 0; i < 1000; i++)
        memcpy(bytes + i * 7, (unsigned char[]){0, 0, 0, 0, 2, 'o', 'k'}, 7);
    h2_say_head(c, id);
    h2_say(c, DATA, 0, id, bytes, sizeof bytes);
    h2_say_status(c, id, "0");
}

static void many_messages_in_one_frame(void **state)
{
    (void)state;
    begin();
    struct test_call t;
    server.on_end = a_thousand_in_a_frame;
    assert_int_equal(run(&t), 0);
    assert_int_equal(t.messages, 1000);
}

static void megabytes(struct h2_conn *c, int32_t id)
{
    static const unsigned char zeros[16384];
    h2_say_head(c, id);
    h2_say(c, DATA, 0, id, (unsigned char[]){0, 0, 0x30, 0, 0}, 5); /* 3 MiB */
    for (int i = 0; i < 192; i++)
        h2_say(c, DATA, 0, id, zeros, sizeof zeros);
    h2_say_status(c, id, "0");
}

static void a_large_answer_passes_and_opens_the_window(void **state)
{
    (void)state;
    begin();
    struct test_call t;
    server.on_end = megabytes;
    assert_int_equal(run(&t), 0);
    assert_int_equal(t.last_n, 3 << 20);
    assert_true(h2_server_conn(&server)->window_bytes > 5 << 20);
}

/* --- statuses --- */

static const char *const *trailers; /* of a trailers-only answer */
static void only_trailers(struct h2_conn *c, int32_t id)
{
    h2_say_headers(c, id, END_STREAM, trailers);
}

static void a_trailers_only_answer(void **state)
{
    (void)state;
    begin();
    struct test_call t;
    server.on_end = only_trailers;
    trailers = (const char *const[]){":status",     "200", "content-type", "application/grpc",
                                     "grpc-status", "5",   "grpc-message", "no%20such%20%e4%B8%ad%",
                                     NULL};
    assert_int_equal(run(&t), ERR_NOTFOUND);
    assert_int_equal(t.end.status, GRPC_NOT_FOUND);
    assert_string_equal(t.text, "no such \xe4\xb8\xad%");
    assert_true(t.end.from_server);
    assert_int_equal(t.messages, 0);
}

static void answers_that_are_no_grpc(void **state)
{
    (void)state;
    begin();
    server.on_end = only_trailers;
    static const struct {
        const char *trailers[12];
        int status;
        bool from_server;
    } cases[] = {
        {{":status", "503", "content-type", "text/html"}, GRPC_UNAVAILABLE},
        {{":status", "404"}, GRPC_UNIMPLEMENTED},
        {{":status", "431"}, GRPC_INTERNAL},
        {{":status", "200"}, GRPC_UNKNOWN},
        {{":status", "200", "content-type", "application/grpc"}, GRPC_UNKNOWN},
        {{":status", "200", "content-type", "text/html", "grpc-status", "0"}, GRPC_UNKNOWN},
        {{":status", "503", "content-type", "application/grpc", "grpc-status", "0"},
         GRPC_UNAVAILABLE},
        {{":status", "200", "content-type", "application/grpcx", "grpc-status", "0"}, GRPC_UNKNOWN},
        {{":status", "200", "content-type", "application/grpc", "grpc-status", "x"},
         GRPC_UNKNOWN,
         true},
        {{":status", "200", "content-type", "application/grpc", "grpc-status", "99"},
         GRPC_UNKNOWN,
         true},
        {{":status", "200", "content-type", "application/grpc", "grpc-status", "0", "grpc-status",
          "0"},
         GRPC_UNKNOWN,
         true},
        {{"content-type", "application/grpc", "grpc-status", "0"}, GRPC_INTERNAL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct test_call t;
        trailers = cases[i].trailers;
        assert_int_equal(run(&t), ERR_UNCERTAIN);
        assert_int_equal(t.end.status, cases[i].status);
        assert_int_equal(t.end.from_server, cases[i].from_server);
    }
    /* With a status of the server's own, HTTP's does not matter. */
    struct test_call t;
    trailers = (const char *const[]){":status", "403", "grpc-status", "7", NULL};
    assert_int_equal(run(&t), ERR_DENIED);
    trailers = (const char *const[]){
        ":status", "200", "content-type", "application/grpc+proto", "grpc-status", "0", NULL};
    assert_int_equal(run(&t), 0);
    assert_int_equal(server.accepted, 1);
}

static const char *html_status;
static void html(struct h2_conn *c, int32_t id)
{
    SAY_HEADERS(c, id, 0, ":status", html_status, "content-type", "text/html");
    h2_say(c, DATA, 0, id, "<html>", 6);
    h2_say(c, DATA, END_STREAM, id, "</html>", 7);
    c->streams--;
}

static void a_page_of_a_proxy_is_not_read(void **state)
{
    (void)state;
    begin();
    struct test_call t;
    server.on_end = html;
    html_status = "200";
    assert_int_equal(run(&t), ERR_UNCERTAIN);
    assert_int_equal(t.end.status, GRPC_UNKNOWN);
    html_status = "502";
    assert_int_equal(run(&t), ERR_UNCERTAIN);
    assert_int_equal(t.end.status, GRPC_UNAVAILABLE);
    assert_int_equal(t.messages, 0);
}

static void no_trailers(struct h2_conn *c, int32_t id)
{
    h2_say_head(c, id);
    h2_say(c, DATA, END_STREAM, id, "\0\0\0\0\2ok", 7);
    c->streams--;
}

static void early_status(struct h2_conn *c, int32_t id)
{
    SAY_HEADERS(c, id, 0, ":status", "200", "content-type", "application/grpc", "grpc-status", "0");
    h2_say_message(c, id, "ok");
    SAY_HEADERS(c, id, END_STREAM, "x-nothing", "1");
}

static void a_missing_status_is_unknown(void **state)
{
    (void)state;
    begin();
    struct test_call t;
    server.on_end = no_trailers;
    assert_int_equal(run(&t), ERR_UNCERTAIN);
    assert_int_equal(t.end.status, GRPC_UNKNOWN);
    assert_int_equal(t.messages, 1);
    server.on_end = early_status; /* it counts only at the end */
    assert_int_equal(run(&t), ERR_UNCERTAIN);
    assert_int_equal(t.end.status, GRPC_UNKNOWN);
}

static void interim(struct h2_conn *c, int32_t id)
{
    SAY_HEADERS(c, id, 0, ":status", "103", "link", "</x>", "grpc-status", "13");
    h2_say_ok(c, id);
}

static void an_interim_answer_is_passed_over(void **state)
{
    (void)state;
    begin();
    struct test_call t;
    server.on_end = interim;
    assert_int_equal(run(&t), 0);
}

/* --- answers that end badly --- */

static uint32_t reset_code;
static int reset_after; /* 0: at once, 1: after the head, 2: inside a message */
static void reset(struct h2_conn *c, int32_t id)
{
    if (reset_after > 0)
        h2_say_head(c, id);
    if (reset_after > 1)
        h2_say(c, DATA, 0, id, "\0\0\0\0\5he", 7);
    h2_say_u32(c, RST_STREAM, id, reset_code);
}

static void every_reset_code(void **state)
{
    (void)state;
    begin();
    server.on_end = reset;
    for (reset_after = 0; reset_after < 3; reset_after++) {
        for (reset_code = 0; reset_code <= 14; reset_code++) {
            struct test_call t;
            int before = server.requests;
            int rc = run(&t);
            bool refused = reset_code == 7 && reset_after == 0;
            assert_int_equal(rc, refused ? ERR_UNAVAIL : ERR_UNCERTAIN);
            assert_int_equal(t.end.status, reset_code == 7    ? GRPC_UNAVAILABLE
                                           : reset_code == 8  ? GRPC_CANCELLED
                                           : reset_code == 11 ? GRPC_RESOURCE_EXHAUSTED
                                           : reset_code == 12 ? GRPC_PERMISSION_DENIED
                                                              : GRPC_INTERNAL);
            assert_false(t.end.from_server);
            assert_int_equal(server.requests - before, refused ? 4 : 1); /* three retries */
            assert_int_equal(t.messages, 0);
        }
    }
    assert_int_equal(server.accepted, 1);
}

static void what_was_refused_is_sent_again(void **state)
{
    (void)state;
    begin();
    struct metric *retries = of_link_total("seckill_grpc_retries_total");
    uint64_t before = metric_value(retries);
    struct test_call t;
    server.refuse = 2;
    assert_int_equal(run(&t), 0);
    assert_int_equal(server.requests, 3);
    assert_int_equal(metric_value(retries) - before, 2);
    assert_memory_equal(h2_server_conn(&server)->body, "\0\0\0\0\5hello", 10);
}

static void what_was_written_and_refused_cannot_be_sent_again(void **state)
{
    (void)state;
    begin();
    struct test_call t;
    server.on_bytes = NULL;
    server.on_end = reset;
    reset_after = 0;
    reset_code = 7;
    test_call_init(&t, PATH, STR("first"), in(5 * SECONDS));
    t.call.streaming = true;
    h2grpc_start(channel, &t.call);
    assert_int_equal(h2grpc_write(&t.call, STR("second")), 0);
    h2grpc_close_send(&t.call);
    UNTIL(loop, t.ends);
    assert_int_equal(t.end.rc, ERR_UNAVAIL);
    assert_int_equal(server.requests, 1);
}

static const unsigned char *bad_bytes;
static size_t bad_n;
static void bad_message(struct h2_conn *c, int32_t id)
{
    h2_say_head(c, id);
    h2_say(c, DATA, 0, id, bad_bytes, bad_n);
    h2_say_status(c, id, "0");
}

static void messages_that_are_refused(void **state)
{
    (void)state;
    begin_with((struct h2grpc_config){.max_message = 10});
    static const struct {
        const char *bytes;
        size_t n;
        int status;
    } cases[] = {
        {"\1\0\0\0\2ok", 7, GRPC_INTERNAL},
        {"\0\0\0\0\13abcdefghijk", 16, GRPC_RESOURCE_EXHAUSTED},
        {"\0\377\377\377\377", 5, GRPC_RESOURCE_EXHAUSTED},
        {"\0\0\0\0\3ok", 7, GRPC_INTERNAL}, /* cut by its end */
        {"\0\0\0", 3, GRPC_INTERNAL},
    };
    server.on_end = bad_message;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct test_call t;
        bad_bytes = (const unsigned char *)cases[i].bytes;
        bad_n = cases[i].n;
        assert_int_equal(run(&t), ERR_UNCERTAIN);
        assert_int_equal(t.end.status, cases[i].status);
        assert_int_equal(t.messages, 0);
    }
    struct test_call t;
    server.on_end = NULL;
    assert_int_equal(run(&t), 0);
    assert_int_equal(server.accepted, 1); /* it cost the stream, not the connection */
}

static char *fat;
static void fat_head(struct h2_conn *c, int32_t id)
{
    SAY_HEADERS(c, id, 0, ":status", "200", "content-type", "application/grpc", "x-fat", fat);
    h2_say_status(c, id, "0");
}

static void fat_trailers(struct h2_conn *c, int32_t id)
{
    h2_say_head(c, id);
    SAY_HEADERS(c, id, END_STREAM, "grpc-status", "0", "x-fat", fat);
}

static void a_header_block_above_the_bound_is_refused(void **state)
{
    (void)state;
    begin();
    struct test_call t;
    fat = calloc(1, 40001);
    memset(fat, 'f', 40000);
    for (int i = 0; i < 2; i++) {
        server.on_end = i ? fat_trailers : fat_head;
        assert_int_equal(run(&t), ERR_UNCERTAIN);
        assert_int_equal(t.end.status, GRPC_RESOURCE_EXHAUSTED);
        assert_false(t.end.from_server);
    }
    memset(fat + 15000, 0, 25001);
    assert_int_equal(run(&t), 0); /* 15,000 bytes are fine */
    free(fat);
}

static void our_own_headers_are_bounded(void **state)
{
    (void)state;
    h2_server_setting(&server, 6, 8192);
    begin();
    static char value[9000];
    memset(value, 'v', sizeof value);
    struct h2grpc_header metadata[25] = {{"x-fat", {value, sizeof value}}};
    struct test_call t;
    test_call_init(&t, PATH, STR("hello"), in(5 * SECONDS));
    t.call.metadata = metadata;
    t.call.n_metadata = 1;
    assert_int_equal(test_call_run(loop, channel, &t), ERR_INVALID);
    assert_int_equal(t.call.sent_us, 0);
    metadata[0].value.len = 7000;
    assert_int_equal(test_call_run(loop, channel, (t.ends = 0, &t)), 0);
    static const struct h2grpc_header bad[] = {
        {"Upper", STR("x")}, {":path", STR("x")}, {"", STR("x")},      {"sp ace", STR("x")},
        {"x", STR("a\nb")},  {"x", STR("\x80")},  {"te", STR("gzip")}, {"grpc-timeout", STR("1H")},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        t.ends = 0;
        t.call.metadata = &bad[i];
        assert_int_equal(test_call_run(loop, channel, &t), ERR_INVALID);
    }
    for (int i = 0; i < 25; i++)
        metadata[i] = (struct h2grpc_header){"x", STR("y")};
    t.ends = 0;
    t.call.metadata = metadata;
    t.call.n_metadata = 25;
    assert_int_equal(test_call_run(loop, channel, &t), ERR_INVALID);
    t.ends = 0;
    t.call.n_metadata = 24;
    assert_int_equal(test_call_run(loop, channel, &t), 0);
}

/* --- streams --- */

static void echo(struct h2_conn *c)
{
    /* One answer per whole message of five bytes. */
    static size_t told;
    if (c->data < told)
        told = 0;
    if (told == 0)
        h2_say_head(c, c->last);
    for (; c->data - told >= 10; told += 10)
        h2_say(c, DATA, 0, c->last, c->body + told, 10);
    if (c->data == told && told == 100)
        told = 0;
}

static void a_conversation(void **state)
{
    (void)state;
    begin();
    server.on_bytes = echo;
    server.on_end = h2_nothing;
    struct test_call t;
    test_call_init(&t, PATH, (struct str){0}, INT64_MAX);
    t.call.streaming = true;
    h2grpc_start(channel, &t.call);
    assert_int_equal(h2grpc_write(&t.call, STR("msg-0")), 0); /* before it is on the wire */
    for (int i = 0; i < 10; i++) {
        UNTIL(loop, t.messages == i + 1);
        assert_int_equal(t.last[4], '0' + i);
        char text[6] = "msg-0";
        text[4] = (char)('1' + i);
        if (i < 9)
            assert_int_equal(h2grpc_write(&t.call, (struct str){text, 5}), 0);
    }
    assert_int_equal(server.ends, 0);
    h2grpc_close_send(&t.call);
    UNTIL(loop, server.ends == 1);
    h2_say_status(h2_server_conn(&server), h2_server_conn(&server)->last, "0");
    UNTIL(loop, t.ends);
    assert_int_equal(t.end.rc, 0);
}

/* Neither a message nor our end can be kept: told, and never lost in silence. */
static void writes_without_memory(void **state)
{
    (void)state;
    begin();
    struct metric *overload = of_link_total("seckill_grpc_overload_total");
    uint64_t before = metric_value(overload);
    struct test_call t;
    test_call_init(&t, PATH, (struct str){0}, INT64_MAX);
    t.call.streaming = true;
    h2grpc_start(channel, &t.call); /* waits for the connection */
    no_memory = true;
    assert_int_equal(h2grpc_write(&t.call, STR("hello")), ERR_OVERLOAD);
    no_memory = false;
    assert_int_equal(metric_value(overload) - before, 1);
    assert_int_equal(h2grpc_write(&t.call, STR("hello")), 0);
    h2grpc_close_send(&t.call);
    UNTIL(loop, t.ends);
    assert_int_equal(t.end.rc, 0);
    assert_int_equal(h2_server_conn(&server)->data, 10);

    h2_close(h2_server_conn(&server));
    UNTIL(loop, !h2grpc_up(channel));
    struct test_call other;
    test_call_init(&other, PATH, STR("hello"), INT64_MAX);
    test_call_init(&t, PATH, STR("hello"), INT64_MAX);
    t.call.streaming = other.call.streaming = true;
    h2grpc_start(channel, &other.call);
    assert_int_equal(h2grpc_write(&other.call, STR("more")), 0); /* has the spare one */
    h2grpc_start(channel, &t.call);
    no_memory = true;
    h2grpc_close_send(&t.call);
    no_memory = false;
    assert_int_equal(t.ends, 0);
    UNTIL(loop, t.ends);
    assert_int_equal(t.end.rc, ERR_OVERLOAD);
    h2grpc_cancel(&other.call);
    UNTIL(loop, other.ends);
}

static void a_server_that_ends_first(void **state)
{
    (void)state;
    begin();
    server.on_request = h2_nothing;
    struct test_call t;
    test_call_init(&t, PATH, STR("hello"), INT64_MAX);
    t.call.streaming = true;
    h2grpc_start(channel, &t.call);
    UNTIL(loop, h2_server_conn(&server)->data == 10);
    h2_say_head(h2_server_conn(&server), h2_server_conn(&server)->last);
    h2_say_status(h2_server_conn(&server), h2_server_conn(&server)->last, "9");
    UNTIL(loop, t.ends);
    assert_int_equal(t.end.rc, ERR_CONFLICT);
    assert_int_equal(h2grpc_write(&t.call, STR("more")), ERR_INVALID);
    UNTIL(loop, h2_server_conn(&server)->resets == 1); /* our side was open */
    struct test_call other;
    assert_int_equal(run(&other), 0);
}

static uint32_t sum_message(uint32_t sum, const char *bytes, size_t n)
{
    unsigned char prefix[5] = {0, (unsigned char)(n >> 24), (unsigned char)(n >> 16),
                               (unsigned char)(n >> 8), (unsigned char)n};
    return h2_sum(h2_sum(sum, prefix, 5), bytes, n);
}

static void writes_are_bounded(void **state)
{
    (void)state;
    begin();
    server.stall = true;
    server.on_end = h2_nothing;
    static char big[200 << 10];
    for (size_t i = 0; i < sizeof big; i++)
        big[i] = (char)(i * 7 + i / 251);
    struct str message = {big, sizeof big};
    uint32_t sum = 0;
    struct test_call t;
    test_call_init(&t, PATH, (struct str){0}, INT64_MAX);
    t.call.streaming = true;
    h2grpc_start(channel, &t.call);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(h2grpc_write(&t.call, message), 0);
        sum = sum_message(sum, big, sizeof big);
    }
    assert_int_equal(h2grpc_write(&t.call, message), ERR_OVERLOAD);
    UNTIL(loop, h2_server_conn(&server)->data == 65535); /* the window */
    assert_int_equal(h2grpc_write(&t.call, message), ERR_OVERLOAD);
    assert_int_equal(h2grpc_write(&t.call, (struct str){big, 5000}), 0);
    sum = sum_message(sum, big, 5000);
    h2_say_u32(h2_server_conn(&server), WINDOW, 0, 1 << 30);
    h2_say_u32(h2_server_conn(&server), WINDOW, h2_server_conn(&server)->last, 1 << 30);
    UNTIL(loop, h2_server_conn(&server)->data == 5 * (sizeof big + 5) + 5005);
    assert_int_equal(h2grpc_write(&t.call, message), 0);
    sum = sum_message(sum, big, sizeof big);
    UNTIL(loop, h2_server_conn(&server)->data == 6 * (sizeof big + 5) + 5005);
    assert_int_equal(h2_server_conn(&server)->sum, sum);
    assert_int_equal(h2grpc_write(&t.call, (struct str){big, (1 << 20) + 1}), ERR_OVERLOAD);
    h2grpc_cancel(&t.call);
    UNTIL(loop, t.ends);
}

/* --- cancel --- */

static void cancel_inside(struct test_call *t)
{
    h2grpc_cancel(&t->call);
    assert_int_equal(t->ends, 0);
}

static void a_cancel_inside_a_message_stops_the_rest(void **state)
{
    (void)state;
    begin();
    struct test_call t;
    server.on_end = a_thousand_in_a_frame;
    test_call_init(&t, PATH, STR("hello"), in(60 * SECONDS));
    t.on_message = cancel_inside;
    assert_int_equal(test_call_run(loop, channel, &t), ERR_UNCERTAIN);
    assert_int_equal(t.end.status, GRPC_CANCELLED);
    assert_int_equal(t.messages, 1);
    server.on_end = NULL;
    assert_int_equal(run(&t), 0);
}

static void cancel_in_every_state(void **state)
{
    (void)state;
    begin();
    struct test_call t;
    server.on_end = h2_nothing;
    test_call_init(&t, PATH, STR("hello"), INT64_MAX);
    h2grpc_cancel(&t.call); /* never started */
    h2grpc_start(channel, &t.call);
    h2grpc_cancel(&t.call); /* waits for a connection */
    h2grpc_cancel(&t.call); /* over, but not told */
    assert_int_equal(t.ends, 0);
    UNTIL(loop, t.ends);
    assert_int_equal(t.end.rc, ERR_CANCELED);
    assert_int_equal(t.call.sent_us, 0);
    assert_int_equal(server.requests, 0);
    h2grpc_cancel(&t.call);
    test_call_init(&t, PATH, STR("hello"), INT64_MAX);
    h2grpc_start(channel, &t.call);
    UNTIL(loop, server.ends == 1);
    h2grpc_cancel(&t.call); /* on the wire, no answer */
    UNTIL(loop, t.ends);
    assert_int_equal(t.end.rc, ERR_UNCERTAIN);
    UNTIL(loop, h2_server_conn(&server)->resets == 1);
    /* After the head, and a late answer then. */
    test_call_init(&t, PATH, STR("hello"), INT64_MAX);
    h2grpc_start(channel, &t.call);
    UNTIL(loop, server.ends == 2);
    struct h2_conn *c = h2_server_conn(&server);
    h2_say_head(c, c->last);
    h2_say_message(c, c->last, "one");
    UNTIL(loop, t.messages == 1);
    h2grpc_cancel(&t.call);
    h2_say_message(c, c->last, "two");
    h2_say_status(c, c->last, "0");
    UNTIL(loop, t.ends);
    assert_int_equal(t.end.rc, ERR_UNCERTAIN);
    assert_int_equal(t.messages, 1);
    server.on_end = NULL;
    assert_int_equal(run(&t), 0);
    assert_int_equal(server.accepted, 1);
}

static void again(struct test_call *t)
{
    if (t->again-- > 0) {
        t->ends = 0;
        h2grpc_start(channel, &t->call);
    }
}

static void a_call_may_start_again_from_its_end(void **state)
{
    (void)state;
    begin();
    struct test_call t;
    test_call_init(&t, PATH, STR("hello"), in(60 * SECONDS));
    t.then = again;
    t.again = 50;
    h2grpc_start(channel, &t.call);
    UNTIL(loop, t.ends && t.again < 0);
    assert_int_equal(t.messages, 51);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_request_says_what_grpc_wants),
        TEST(an_empty_request_is_a_message_too),
        TEST(a_large_request_waits_for_the_window),
        TEST(a_window_that_never_opens_costs_the_deadline),
        TEST(messages_in_one_byte_frames),
        TEST(many_messages_in_one_frame),
        TEST(a_large_answer_passes_and_opens_the_window),
        TEST(a_trailers_only_answer),
        TEST(answers_that_are_no_grpc),
        TEST(a_page_of_a_proxy_is_not_read),
        TEST(a_missing_status_is_unknown),
        TEST(an_interim_answer_is_passed_over),
        TEST(every_reset_code),
        TEST(what_was_refused_is_sent_again),
        TEST(what_was_written_and_refused_cannot_be_sent_again),
        TEST(messages_that_are_refused),
        TEST(a_header_block_above_the_bound_is_refused),
        TEST(our_own_headers_are_bounded),
        TEST(a_conversation),
        TEST(writes_without_memory),
        TEST(a_server_that_ends_first),
        TEST(writes_are_bounded),
        TEST(a_cancel_inside_a_message_stops_the_rest),
        TEST(cancel_in_every_state),
        TEST(a_call_may_start_again_from_its_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
