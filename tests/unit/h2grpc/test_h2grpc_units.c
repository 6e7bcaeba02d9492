/* The pure parts: numbers and texts of a status, targets, messages out of pieces. */
#include "h2grpc_test.h"

#include "adapter/h2grpc/message.h"
#include "adapter/h2grpc/metrics.h"
#include "adapter/h2grpc/status.h"
#include "adapter/h2grpc/target.h"
#include <stdio.h>
#include <stdlib.h>

static void a_status_of_the_server_says_what_happened(void **state)
{
    (void)state;
    static const int rc[] = {
        [GRPC_OK] = 0,
        [GRPC_CANCELLED] = ERR_UNCERTAIN,
        [GRPC_UNKNOWN] = ERR_UNCERTAIN,
        [GRPC_INVALID_ARGUMENT] = ERR_INVALID,
        [GRPC_DEADLINE_EXCEEDED] = ERR_UNCERTAIN,
        [GRPC_NOT_FOUND] = ERR_NOTFOUND,
        [GRPC_ALREADY_EXISTS] = ERR_CONFLICT,
        [GRPC_PERMISSION_DENIED] = ERR_DENIED,
        [GRPC_RESOURCE_EXHAUSTED] = ERR_UNAVAIL,
        [GRPC_FAILED_PRECONDITION] = ERR_CONFLICT,
        [GRPC_ABORTED] = ERR_CONFLICT,
        [GRPC_OUT_OF_RANGE] = ERR_INVALID,
        [GRPC_UNIMPLEMENTED] = ERR_INVALID,
        [GRPC_INTERNAL] = ERR_UNCERTAIN,
        [GRPC_UNAVAILABLE] = ERR_UNCERTAIN,
        [GRPC_DATA_LOSS] = ERR_UNCERTAIN,
        [GRPC_UNAUTHENTICATED] = ERR_DENIED,
    };
    for (int i = 0; i <= GRPC_UNAUTHENTICATED; i++)
        assert_int_equal(grpc_status_rc(i), rc[i]);
    assert_int_equal(grpc_status_rc(17), ERR_UNCERTAIN);
    assert_int_equal(grpc_status_rc(-1), ERR_UNCERTAIN);
}

static void a_status_is_a_number(void **state)
{
    (void)state;
    assert_int_equal(grpc_status_parse(STR("0")), 0);
    assert_int_equal(grpc_status_parse(STR("16")), 16);
    assert_int_equal(grpc_status_parse(STR("17")), GRPC_UNKNOWN);
    assert_int_equal(grpc_status_parse(STR("999999999")), GRPC_UNKNOWN);
    assert_int_equal(grpc_status_parse(STR("")), -1);
    assert_int_equal(grpc_status_parse(STR("-1")), -1);
    assert_int_equal(grpc_status_parse(STR("1 ")), -1);
    assert_int_equal(grpc_status_parse(STR("OK")), -1);
    assert_int_equal(grpc_status_parse(STR("9999999999")), -1);
}

static void a_timeout_has_at_most_eight_digits(void **state)
{
    (void)state;
    static const struct {
        int64_t us;
        const char *text;
    } cases[] = {
        {-5, "1u"},
        {0, "1u"},
        {1, "1u"},
        {1500000, "1500000u"},
        {99999999, "99999999u"},
        {100000000, "100000m"},
        {100000999, "100000m"},
        {99999999999, "99999999m"},
        {100000000000, "100000S"},
        {99999999 * INT64_C(1000000) + 1, "99999999S"},
        {100000000 * INT64_C(1000000), "1666666M"},
        {INT64_MAX - 1, "99999999H"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[GRPC_TIMEOUT_MAX + 1];
        text[grpc_timeout_format(text, cases[i].us)] = 0;
        assert_string_equal(text, cases[i].text);
        assert_true(strlen(text) <= 9);
    }
}

static void a_message_is_percent_decoded(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"", ""},           {"plain", "plain"},
        {"a%20b", "a b"},   {"%e4%B8%ad", "\xe4\xb8\xad"},
        {"100%", "100%"},   {"%4", "%4"},
        {"%zz%41", "%zzA"}, {"%%41", "%A"},
        {"%25", "%"},       {"trailing%0", "trailing%0"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t n = strlen(cases[i][0]);
        char *text = malloc(n + 1); /* exactly as large: reading behind it is seen */
        memcpy(text, cases[i][0], n);
        n = grpc_percent_decode(text, n);
        assert_int_equal(n, strlen(cases[i][1]));
        assert_memory_equal(text, cases[i][1], n);
        free(text);
    }
}

static void other_words_have_a_status_too(void **state)
{
    (void)state;
    assert_int_equal(grpc_status_of_http(404), GRPC_UNIMPLEMENTED);
    assert_int_equal(grpc_status_of_http(401), GRPC_UNAUTHENTICATED);
    assert_int_equal(grpc_status_of_http(403), GRPC_PERMISSION_DENIED);
    assert_int_equal(grpc_status_of_http(400), GRPC_INTERNAL);
    assert_int_equal(grpc_status_of_http(503), GRPC_UNAVAILABLE);
    assert_int_equal(grpc_status_of_http(429), GRPC_UNAVAILABLE);
    assert_int_equal(grpc_status_of_http(500), GRPC_UNKNOWN);
    assert_int_equal(grpc_status_of_reset(0), GRPC_INTERNAL);
    assert_int_equal(grpc_status_of_reset(7), GRPC_UNAVAILABLE);
    assert_int_equal(grpc_status_of_reset(8), GRPC_CANCELLED);
    assert_int_equal(grpc_status_of_reset(11), GRPC_RESOURCE_EXHAUSTED);
    assert_int_equal(grpc_status_of_reset(12), GRPC_PERMISSION_DENIED);
    assert_int_equal(grpc_status_of_rc(ERR_CANCELED), GRPC_CANCELLED);
    assert_int_equal(grpc_status_of_rc(ERR_DEADLINE), GRPC_DEADLINE_EXCEEDED);
    assert_int_equal(grpc_status_of_rc(ERR_OVERLOAD), GRPC_RESOURCE_EXHAUSTED);
    assert_int_equal(grpc_status_of_rc(ERR_UNAVAIL), GRPC_UNAVAILABLE);
    assert_int_equal(grpc_status_of_rc(ERR_UNCERTAIN), GRPC_UNAVAILABLE);
}

static void a_target_is_host_and_port(void **state)
{
    (void)state;
    struct h2_target t;
    assert_true(h2_target_parse(&t, "mq.example:8081", NULL));
    assert_string_equal(t.host, "mq.example");
    assert_int_equal(t.port, 8081);
    assert_string_equal(t.authority, "mq.example:8081");
    assert_string_equal(t.server_name, "mq.example");
    assert_false(t.server_is_address);
    assert_true(h2_target_parse(&t, "mq.example:8081", ""));
    assert_string_equal(t.server_name, "mq.example");
    assert_true(h2_target_parse(&t, "[::1]:1", NULL));
    assert_string_equal(t.host, "::1");
    assert_string_equal(t.server_name, "::1");
    assert_true(t.server_is_address);
    assert_true(h2_target_parse(&t, "10.0.0.1:443", "mq.example"));
    assert_string_equal(t.host, "10.0.0.1");
    assert_string_equal(t.authority, "mq.example");
    assert_string_equal(t.server_name, "mq.example");
    assert_true(h2_target_parse(&t, "10.0.0.1:443", "mq.example:444"));
    assert_string_equal(t.server_name, "mq.example");
    static const char *const bad[] = {"",      "host",   "host:",  ":1",     "host:0", "host:65536",
                                      "a b:1", "[::1:1", "[]:1",   "[::1]1", "::1:1",  "http://a:1",
                                      "a:1x",  "u@h:1",  "a:\x01", "a:00001"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(h2_target_parse(&t, bad[i], NULL));
    assert_false(h2_target_parse(&t, NULL, NULL));
    char err[64];
    assert_null(h2grpc_new(NULL, &(struct h2grpc_config){.target = "nowhere"}, err, sizeof err));
    assert_non_null(strstr(err, "nowhere"));
}

/* Three messages – "abc", "", 300 bytes – cut at every byte, and fed byte by byte. */
static size_t build(unsigned char *at)
{
    static const unsigned char head[] = {0, 0, 0, 0, 3, 'a', 'b', 'c', 0,
                                         0, 0, 0, 0, 0, 0,   0,   1,   44};
    memcpy(at, head, sizeof head);
    for (size_t i = 0; i < 300; i++)
        at[sizeof head + i] = (unsigned char)i;
    return sizeof head + 300;
}

static void feed(struct grpc_message *m, const unsigned char *bytes, size_t n, int *got)
{
    unsigned char *own = malloc(n); /* exactly as large */
    memcpy(own, bytes, n);
    struct str in = {(const char *)own, n}, out;
    while (grpc_message_next(m, &in, &out) == GRPC_MESSAGE_READY) {
        static const size_t lengths[] = {3, 0, 300};
        assert_true(*got < 3);
        assert_int_equal(out.len, lengths[*got]);
        if (*got == 0)
            assert_memory_equal(out.ptr, "abc", 3);
        for (size_t i = 0; *got == 2 && i < 300; i++)
            assert_int_equal((unsigned char)out.ptr[i], (unsigned char)i);
        ++*got;
    }
    assert_int_equal(in.len, 0);
    free(own);
}

static void messages_may_be_cut_anywhere(void **state)
{
    (void)state;
    unsigned char bytes[400];
    size_t n = build(bytes);
    struct grpc_message m;
    grpc_message_init(&m, 1000);
    for (size_t cut = 1; cut < n; cut++) {
        int got = 0;
        feed(&m, bytes, cut, &got);
        assert_int_equal(grpc_message_cut(&m), cut != 8 && cut != 13);
        feed(&m, bytes + cut, n - cut, &got);
        assert_int_equal(got, 3);
        assert_false(grpc_message_cut(&m));
    }
    int got = 0;
    for (size_t i = 0; i < n; i++)
        feed(&m, bytes + i, 1, &got);
    assert_int_equal(got, 3);
    feed(&m, bytes, 4, &got);
    grpc_message_reset(&m); /* for another stream */
    assert_false(grpc_message_cut(&m));
    got = 0;
    feed(&m, bytes, n, &got);
    assert_int_equal(got, 3);
    grpc_message_deinit(&m);
}

static enum grpc_message_result first(size_t max, const char *bytes, size_t n)
{
    struct grpc_message m;
    struct str in = {bytes, n}, out;
    grpc_message_init(&m, max);
    enum grpc_message_result r = grpc_message_next(&m, &in, &out);
    grpc_message_deinit(&m);
    return r;
}

static void messages_that_cannot_be_taken(void **state)
{
    (void)state;
    assert_int_equal(first(10,
                           "\0\0\0\0\12"
                           "0123456789",
                           15),
                     GRPC_MESSAGE_READY);
    assert_int_equal(first(10, "\0\0\0\0\13", 5), GRPC_MESSAGE_TOO_LARGE);
    assert_int_equal(first(10, "\0\377\377\377\377", 5), GRPC_MESSAGE_TOO_LARGE);
    assert_int_equal(first(10, "\1\0\0\0\1a", 6), GRPC_MESSAGE_COMPRESSED);
    assert_int_equal(first(10, "\2\0\0\0\1a", 6), GRPC_MESSAGE_COMPRESSED);
    assert_int_equal(first(10, "\0\0\0\0", 4), GRPC_MESSAGE_MORE);
}

/* tests/docs does not see them: its programs have the default queue. */
static void each_metric_is_documented(void **state)
{
    (void)state;
    static char docs[256 << 10];
    FILE *f = fopen(SECKILL_SOURCE_DIR "/docs/metrics.md", "r");
    assert_non_null(f);
    docs[fread(docs, 1, sizeof docs - 1, f)] = 0;
    fclose(f);
    struct grpc_metrics m;
    grpc_metrics_init(&m, "docs");
    struct strbuf text;
    strbuf_init(&text, 1 << 20);
    metric_render(&text);
    strbuf_add_char(&text, 0);
    int n = 0;
    for (const char *at = text.ptr; (at = strstr(at, "# TYPE seckill_grpc_")); at++, n++) {
        char name[80], type[16], row[128];
        assert_int_equal(sscanf(at, "# TYPE %79s %15s", name, type), 2);
        snprintf(row, sizeof row, "| `%s` | %s | `link`", name, type);
        if (!strstr(docs, row))
            fail_msg("docs/metrics.md has no row %s", row);
    }
    assert_int_equal(n, 7);
    strbuf_deinit(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_status_of_the_server_says_what_happened),
        cmocka_unit_test(a_status_is_a_number),
        cmocka_unit_test(a_timeout_has_at_most_eight_digits),
        cmocka_unit_test(a_message_is_percent_decoded),
        cmocka_unit_test(other_words_have_a_status_too),
        cmocka_unit_test(a_target_is_host_and_port),
        cmocka_unit_test(messages_may_be_cut_anywhere),
        cmocka_unit_test(messages_that_cannot_be_taken),
        cmocka_unit_test(each_metric_is_documented),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
