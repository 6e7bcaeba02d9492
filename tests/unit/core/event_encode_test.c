#include "event_fixture.h"

static void encode(const struct event *e, bool open, struct strbuf *b)
{
    strbuf_init(b, EVENT_MAX_BYTES);
    event_encode(e, open, b);
    assert_false(b->failed);
    assert_true(b->len <= EVENT_MAX_BYTES);
}

static void test_the_seeds_body(void **state)
{
    (void)state;
    struct event e = seed_event(), back;
    struct strbuf b;
    char expected[1024];
    encode(&e, false, &b);
    snprintf(expected, sizeof expected, "%s%s", seed, tail);
    assert_int_equal(b.len, strlen(expected));
    assert_memory_equal(b.ptr, expected, b.len);
    assert_decodes(strbuf_str(&b), &back);
    assert_same(&e, &back);
    strbuf_deinit(&b);
}

static void test_open_leaves_epoch_and_seq_to_the_script(void **state)
{
    (void)state;
    struct event e = seed_event();
    struct strbuf b;
    encode(&e, true, &b);
    assert_int_equal(b.len, strlen(seed));
    assert_memory_equal(b.ptr, seed, b.len);
    strbuf_deinit(&b);
}

static void test_round_trip_of_extremes(void **state)
{
    (void)state;
    static const int64_t numbers[] = {1, 9, 10, INT64_C(9007199254740993), INT64_MAX};
    static const int64_t times[] = {
        0, 1, 999, 1000, 999999, INT64_C(1782388800000001), INT64_C(253402300799999999)};
    for (size_t i = 0; i < N(numbers); i++) {
        for (size_t t = 0; t < N(times); t++) {
            struct event e = seed_event(), back;
            struct strbuf b;
            e.item = (struct item){numbers[i], numbers[N(numbers) - 1 - i]};
            e.user_id = e.order_id = numbers[i];
            e.version = (struct item_version){numbers[i], numbers[i] - 1};
            e.retry_count = t ? INT32_MAX : 0;
            e.created_at_us = times[t];
            encode(&e, false, &b);
            assert_decodes(strbuf_str(&b), &back);
            assert_same(&e, &back);
            strbuf_deinit(&b);
        }
    }
}

static void test_trace_is_escaped_and_bounded(void **state)
{
    (void)state;
    char long_text[EVENT_TRACE_MAX + 1], quotes[EVENT_TRACE_MAX], controls[EVENT_TRACE_MAX];
    memset(long_text, 'x', sizeof long_text);
    memset(quotes, '"', sizeof quotes);
    memset(controls, 1, sizeof controls);
    static const char bad_utf8[] = "\xff\xfe";
    const struct {
        struct str in, out; /* out: what a reader gets */
    } rows[] = {
        {STR("a=1,b=2"), STR("a=1,b=2")},
        {STR("a\"b\\c\n"), STR("")}, /* would have to be unescaped */
        {{long_text, EVENT_TRACE_MAX}, {long_text, EVENT_TRACE_MAX}},
        {{long_text, EVENT_TRACE_MAX + 1}, STR("")},
        {{quotes, sizeof quotes}, STR("")},
        {{controls, sizeof controls}, STR("")},
        {{bad_utf8, 2}, STR("\xef\xbf\xbd\xef\xbf\xbd")},
        {{NULL, 0}, STR("")},
    };
    for (size_t i = 0; i < N(rows); i++) {
        for (size_t k = 0; k < N(rows); k++) {
            struct event e = seed_event(), back;
            struct strbuf b;
            e.traceparent = rows[i].in;
            e.tracestate = rows[k].in;
            encode(&e, false, &b);
            assert_decodes(strbuf_str(&b), &back);
            assert_true(str_eq(back.traceparent, rows[i].out));
            assert_true(str_eq(back.tracestate, rows[k].out));
            strbuf_deinit(&b);
        }
    }
}

static void test_a_buffer_that_is_too_small_is_marked(void **state)
{
    (void)state;
    char mem[EVENT_MAX_BYTES];
    struct event e = seed_event();
    for (size_t cap = 0; cap < 900; cap += 10) {
        struct strbuf b;
        strbuf_init_fixed(&b, mem, cap);
        event_encode(&e, false, &b);
        assert_true(b.failed ? b.len <= cap : b.len == sizeof seed - 1 + sizeof tail - 1);
        assert_true(b.failed || cap >= b.len);
    }
}

static void test_trace_id(void **state)
{
    (void)state;
    struct str parent = STR("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
    assert_true(str_eq(event_trace_id(parent), STR("4bf92f3577b34da6a3ce929d0e0e4736")));
    assert_null(event_trace_id(STR("")).ptr);
    assert_null(event_trace_id((struct str){parent.ptr, 35}).ptr);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_seeds_body),
        cmocka_unit_test(test_open_leaves_epoch_and_seq_to_the_script),
        cmocka_unit_test(test_round_trip_of_extremes),
        cmocka_unit_test(test_trace_is_escaped_and_bounded),
        cmocka_unit_test(test_trace_id),
        cmocka_unit_test(test_a_buffer_that_is_too_small_is_marked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
