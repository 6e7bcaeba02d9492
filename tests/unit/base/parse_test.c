#include "base/clock.h"
#include "base/err.h"
#include "base/parse.h"
#include "unit.h"
#include <time.h>

#define INVALID INT64_C(-4242424242) /* in a table: refused */

struct row {
    const char *text;
    int64_t value;
};

static void check(const struct row *rows, size_t n, int (*parse)(struct str, int64_t *))
{
    for (size_t i = 0; i < n; i++) {
        int64_t v = INVALID;
        int rc = parse(str_of(rows[i].text), &v);
        if (v != rows[i].value || rc != (rows[i].value == INVALID ? ERR_INVALID : 0))
            fail_msg("\"%s\": rc %d, value %lld", rows[i].text, rc, (long long)v);
    }
}
#define CHECK(rows, parse) check(rows, sizeof rows / sizeof *rows, parse)

static int any_i64(struct str s, int64_t *out)
{
    return parse_i64(s, INT64_MIN, INT64_MAX, out);
}

static void test_i64(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"0", 0},
        {"7", 7},
        {"-7", -7},
        {"9223372036854775807", INT64_MAX},
        {"-9223372036854775808", INT64_MIN},
        {"9223372036854775808", INVALID},
        {"-9223372036854775809", INVALID},
        {"18446744073709551617", INVALID}, /* 1 in 64 bits */
        {"99999999999999999999999", INVALID},
        {"", INVALID},
        {"-", INVALID},
        {"-0", INVALID},
        {"--1", INVALID},
        {"+1", INVALID},
        {"01", INVALID},
        {"-01", INVALID},
        {" 1", INVALID},
        {"1 ", INVALID},
        {"0x1", INVALID},
        {"1e3", INVALID},
        {"1.0", INVALID},
        {"\xd9\xa1", INVALID}, /* an Arabic digit */
    };
    CHECK(rows, any_i64);
    int64_t v;
    assert_int_equal(parse_i64(STR("5"), 5, 5, &v), 0);
    assert_int_equal(parse_i64(STR("4"), 5, 9, &v), ERR_INVALID);
    assert_int_equal(parse_i64(STR("10"), 5, 9, &v), ERR_INVALID);
    uint64_t u;
    assert_int_equal(parse_u64(STR("18446744073709551615"), UINT64_MAX, &u), 0);
    assert_true(u == UINT64_MAX);
    assert_int_equal(parse_u64(STR("18446744073709551616"), UINT64_MAX, &u), ERR_INVALID);
    assert_int_equal(parse_u64(STR("-1"), UINT64_MAX, &u), ERR_INVALID);
    assert_int_equal(parse_u64((struct str){NULL, 0}, UINT64_MAX, &u), ERR_INVALID);
}

static int as_bool(struct str s, int64_t *out)
{
    bool yes;
    int rc = parse_bool(s, &yes);
    if (rc == 0)
        *out = yes;
    return rc;
}

static void test_bool(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"true", 1}, {"yes", 1},     {"on", 1},     {"false", 0},      {"no", 0},
        {"off", 0},  {"1", INVALID}, {"", INVALID}, {"True", INVALID}, {"true ", INVALID},
    };
    CHECK(rows, as_bool);
}

static void test_duration(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"0", 0},
        {"0ms", 0},
        {"250us", 250},
        {"90ms", 90000},
        {"2s", 2000000},
        {"15m", 900000000},
        {"1h", INT64_C(3600000000)},
        {"3d", INT64_C(259200000000)},
        {"106751991d", INT64_C(9223372022400000000)},
        {"106751992d", INVALID}, /* above 2^63 µs */
        {"5", INVALID},
        {"ms", INVALID},
        {"", INVALID},
        {"-1s", INVALID},
        {"1.5s", INVALID},
        {"1 s", INVALID},
        {"1S", INVALID},
        {"01s", INVALID},
        {"1h30m", INVALID},
        {"1w", INVALID},
    };
    CHECK(rows, parse_duration_us);
}

static void test_size(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"0", 0},
        {"4096", 4096},
        {"4KiB", 4096},
        {"16MiB", 16 << 20},
        {"1GiB", 1 << 30},
        {"8589934591GiB", INT64_C(9223372035781033984)},
        {"8589934592GiB", INVALID},
        {"4K", INVALID},
        {"4kib", INVALID},
        {"KiB", INVALID},
        {"-1", INVALID},
        {"", INVALID},
    };
    CHECK(rows, parse_size);
}

static void test_time(void **state)
{
    (void)state;
    static const struct row rows[] = {
        {"1970-01-01T00:00:00Z", 0},
        {"1970-01-01T00:00:00.001Z", 1},
        {"1969-12-31T23:59:59Z", -1000},
        {"2026-06-25T12:00:00Z", INT64_C(1782388800000)},
        {"2026-06-25T20:00:00+08:00", INT64_C(1782388800000)},
        {"2026-06-25T06:30:00.5-05:30", INT64_C(1782388800500)},
        {"2026-06-25T12:00:00.123456789Z", INT64_C(1782388800123)},
        {"2000-02-29T00:00:00Z", INT64_C(951782400000)},
        {"2024-02-29T00:00:00-00:00", INT64_C(1709164800000)},
        {"9999-12-31T23:59:59.999Z", INT64_C(253402300799999)},
        {"0000-03-01T00:00:00Z", INT64_C(-62162035200000)},
        {"2023-02-29T00:00:00Z", INVALID},
        {"1900-02-29T00:00:00Z", INVALID},
        {"2026-04-31T00:00:00Z", INVALID},
        {"2026-00-01T00:00:00Z", INVALID},
        {"2026-13-01T00:00:00Z", INVALID},
        {"2026-01-00T00:00:00Z", INVALID},
        {"2026-01-01T24:00:00Z", INVALID},
        {"2026-01-01T00:60:00Z", INVALID},
        {"2026-01-01T00:00:60Z", INVALID},
        {"2026-01-01T00:00:00", INVALID},
        {"2026-01-01T00:00:00.Z", INVALID},
        {"2026-01-01T00:00Z", INVALID},
        {"2026-01-01 00:00:00Z", INVALID},
        {"2026-01-01T00:00:00z", INVALID},
        {"2026-01-01T00:00:00Z ", INVALID},
        {"2026-01-01T00:00:00+24:00", INVALID},
        {"2026-01-01T00:00:00+01:60", INVALID},
        {"2026-01-01T00:00:00+0100", INVALID},
        {"2026-01-01T00:00:00+01", INVALID},
        {"2026-1-01T00:00:00Z", INVALID},
        {"26-01-01T00:00:00Z", INVALID},
        {"", INVALID},
    };
    CHECK(rows, parse_time_ms);
}

static void test_format_time(void **state)
{
    (void)state;
    char text[25] = "";
    assert_int_equal(parse_format_time_ms(text, INT64_C(1782388800123)), 24);
    assert_string_equal(text, "2026-06-25T12:00:00.123Z");
    parse_format_time_ms(text, -5); /* outside the years: the nearest end */
    assert_string_equal(text, "1970-01-01T00:00:00.000Z");
    parse_format_time_ms(text, INT64_MAX);
    assert_string_equal(text, "9999-12-31T23:59:59.999Z");
    /* Against the C library, every day for 400 years and more, and back. */
    for (int64_t day = 0; day < 150000; day++) {
        int64_t ms = day * 86400000 + 45296789, back;
        time_t t = (time_t)(ms / 1000);
        struct tm tm;
        char expected[64];
        gmtime_r(&t, &tm);
        strftime(expected, sizeof expected, "%Y-%m-%dT%H:%M:%S.789Z", &tm);
        parse_format_time_ms(text, ms);
        if (strcmp(text, expected) != 0 || parse_time_ms(str_of(text), &back) || back != ms)
            fail_msg("%s, expected %s", text, expected);
    }
}

static void test_clocks(void **state)
{
    (void)state;
    int64_t a = clock_mono_us(), b = clock_mono_us();
    assert_true(a > 0 && b >= a);
    assert_true(clock_wall_us() > INT64_C(1577836800000000)); /* 2020 */
    assert_true(clock_cpu_us() >= 0);
}

static void test_host_port(void **state)
{
    (void)state;
    static const struct {
        const char *text, *host;
        int port;
    } good[] = {{"127.0.0.1:8081", "127.0.0.1", 8081},
                {"[::1]:9", "::1", 9},
                {"a-b_c.internal:65535", "a-b_c.internal", 65535}};
    static const char *const bad[] = {"",      ":1",         "a",    "a:",   "a:0",  "a:65536",
                                      "a:1x",  "a b:1",      "a:01", "[]:1", "[a:1", "[a]b:1",
                                      "::1:9", "http://a:1", "é:1",  "a:1 ", "a:-1", "[::1]"};
    struct str host;
    int port;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_int_equal(parse_host_port(str_of(good[i].text), &host, &port), 0);
        assert_true(str_eq(host, str_of(good[i].host)));
        assert_int_equal(port, good[i].port);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        if (parse_host_port(str_of(bad[i]), &host, &port) != ERR_INVALID)
            fail_msg("\"%s\" is taken", bad[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_i64),      cmocka_unit_test(test_bool),
        cmocka_unit_test(test_duration), cmocka_unit_test(test_size),
        cmocka_unit_test(test_time),     cmocka_unit_test(test_format_time),
        cmocka_unit_test(test_clocks),   cmocka_unit_test(test_host_port),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
