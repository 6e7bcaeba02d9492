#include "event_fixture.h"
#include <stdlib.h>

static void assert_refused(struct str body, const char *reason)
{
    /* Exactly as long as it is, so that the sanitizer sees a byte read too far. */
    char *copy = malloc(body.len ? body.len : 1);
    assert_non_null(copy);
    if (body.len)
        memcpy(copy, body.ptr, body.len);
    struct event e = {.user_id = 77};
    const char *why = NULL;
    int rc = event_decode((struct str){copy, body.len}, &e, &why);
    if (rc != ERR_INVALID || (reason && strcmp(why, reason) != 0))
        print_error("%s for " STR_FMT "\n", why ? why : "accepted", STR_ARG(body));
    assert_int_equal(rc, ERR_INVALID);
    assert_non_null(why);
    if (reason)
        assert_string_equal(why, reason);
    assert_int_equal(e.user_id, 77);
    free(copy);
}

static void test_as_the_seed_prints_it(void **state)
{
    (void)state;
    struct event e, expected = seed_event();
    expected.version = (struct item_version){0, 0};
    assert_decodes(STR("{\n"
                       "  \"message_id\": \"019f2db9-8af0-7a21-88e1-2df337730001\",\n"
                       "  \"message_key\": \"1001:2001:019f2db9-8af0-7a21-88e1-2df337730002\",\n"
                       "  \"request_id\": \"019f2db9-8af0-7a21-88e1-2df337730003\",\n"
                       "  \"reservation_id\": \"019f2db9-8af0-7a21-88e1-2df337730002\",\n"
                       "  \"activity_id\": 1001,\n"
                       "  \"sku_id\": 2001,\n"
                       "  \"user_id\": 3001,\n"
                       "  \"order_id\": 900000000000001,\n"
                       "  \"schema_version\": 1,\n"
                       "  \"created_at\": \"2026-06-25T12:00:00.123456Z\",\n"
                       "  \"retry_count\": 0,\n"
                       "  \"trace\": {\n"
                       "    \"traceparent\": "
                       "\"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\",\n"
                       "    \"tracestate\": \"\"\n"
                       "  }\n"
                       "}\n"),
                   &e);
    assert_same(&e, &expected);
}

/* The seed's body with one member's text replaced; NULL: the member left out. */
static size_t with(char *dst, size_t cap, const char *member, const char *replacement)
{
    char body[1024];
    snprintf(body, sizeof body, "%s%s", seed, tail);
    char name[64];
    snprintf(name, sizeof name, "\"%s\":", member);
    char *from = strstr(body, name);
    assert_non_null(from);
    char *to = from + strlen(name);
    int depth = 0;
    bool quoted = false;
    for (; *to && (quoted || depth || (*to != ',' && *to != '}')); to++) {
        quoted ^= *to == '"';
        depth += *to == '{';
        depth -= *to == '}';
    }
    if (replacement)
        return (size_t)snprintf(dst, cap, "%.*s%s%s%s", (int)(from - body), body, name, replacement,
                                to);
    if (*to == ',')
        to++; /* the last member keeps its comma before: none of ours is the last and required */
    return (size_t)snprintf(dst, cap, "%.*s%s", (int)(from - body), body, to);
}

static const char *const required[] = {
    "message_id", "message_key", "request_id",     "reservation_id", "activity_id", "sku_id",
    "user_id",    "order_id",    "schema_version", "created_at",     "retry_count", "trace",
};

static void test_each_field_is_required(void **state)
{
    (void)state;
    for (size_t i = 0; i < N(required); i++) {
        char body[1024], reason[64];
        size_t n = with(body, sizeof body, required[i], NULL);
        snprintf(reason, sizeof reason, "%s is missing", required[i]);
        assert_refused((struct str){body, n}, reason);
    }
    struct event e;
    char body[1024];
    size_t n = with(body, sizeof body, "epoch", NULL);
    assert_decodes((struct str){body, n}, &e);
    assert_int_equal(e.version.epoch, 0);
    assert_int_equal(e.version.seq, 42);
}

static void test_each_field_of_a_wrong_type(void **state)
{
    (void)state;
    static const struct {
        const char *member, *values[24];
    } rows[] = {
        {"message_id",
         {"null", "1", "true", "{}", "[]", "\"\"", "\"019f2db9-8af0-7a21-88e1-2df33773000\"",
          "\"019F2DB9-8AF0-7A21-88E1-2DF337730001\"", "\"019f2db98af07a2188e12df337730001\"",
          "\"\\u0030019f2db9-8af0-7a21-88e1-2df33773001\"", "[[{\"a\":[]}]]"}},
        {"message_key",
         {"null", "1", "{}", "\"\"", "\"1001:2001:\"",
          "\"1001:2002:019f2db9-8af0-7a21-88e1-2df337730002\"",
          "\"01001:2001:019f2db9-8af0-7a21-88e1-2df337730002\"",
          "\"1001:2001:019f2db9-8af0-7a21-88e1-2df337730003\"",
          "\"1001:2001:019f2db9-8af0-7a21-88e1-2df337730002 \"",
          "\"1001:2001:019F2DB9-8AF0-7A21-88E1-2DF337730002\""}},
        {"request_id", {"null", "3", "[]", "\"x\"", "\"019F2DB9-8AF0-7A21-88E1-2DF337730003\""}},
        {"reservation_id", {"null", "2", "{\"a\":1}", "\"019f2db9\""}},
        {"activity_id",
         {"null", "0", "-1", "1001.0", "1e3", "\"1001\"", "{}", "[1001]", "true",
          "9223372036854775808", "1001.5"}},
        {"sku_id", {"null", "0", "-2001", "2001.0", "\"2001\"", "[]", "9223372036854775808"}},
        {"user_id", {"null", "0", "-3001", "3001.0", "\"3001\"", "{}", "9223372036854775808"}},
        {"order_id",
         {"null", "0", "-1", "9e14", "900000000000001.0", "\"\"", "\"0\"", "\"-5\"", "\"+5\"",
          "\"05\"", "\" 5\"", "\"5 \"", "\"0x5\"", "\"9223372036854775808\"", "9223372036854775808",
          "true", "{}", "[1]"}},
        {"schema_version", {"null", "0", "-1", "\"1\"", "1.0", "true", "{}", "2147483648"}},
        {"created_at",
         {"null", "1782388800", "{}", "\"\"", "\"2026-06-25\"", "\"2026-06-25T12:00:00\"",
          "\"2026-06-25 12:00:00Z\"", "\"2026-13-25T12:00:00Z\"", "\"2026-02-29T12:00:00Z\"",
          "\"2026-06-25T24:00:00Z\"", "\"2026-06-25T12:00:00.Z\"",
          "\"2026-06-25T12:00:00.12345xZ\"", "\"1969-12-31T23:59:59.999999Z\"",
          "\"2026-06-25T12:00:00.123456Z \"", "\"9999-12-31T23:59:59-01:00\""}},
        {"retry_count", {"null", "-1", "\"0\"", "0.0", "2147483648", "[]", "false"}},
        {"trace",
         {"null", "\"\"", "[]", "1", "{\"traceparent\":1}", "{\"tracestate\":{}}",
          "{\"traceparent\":\"a\",\"traceparent\":\"b\"}", "{\"tracestate\":[[]]}"}},
        {"epoch", {"null", "-1", "\"7\"", "7.0", "[]", "9223372036854775808"}},
        {"seq", {"null", "-1", "\"42\"", "42e0", "{}"}},
    };
    for (size_t i = 0; i < N(rows); i++) {
        for (size_t v = 0; v < N(rows[i].values) && rows[i].values[v]; v++) {
            char body[1200];
            size_t n = with(body, sizeof body, rows[i].member, rows[i].values[v]);
            assert_refused((struct str){body, n}, NULL);
        }
    }
}

static void test_each_field_twice(void **state)
{
    (void)state;
    for (size_t i = 0; i < N(required); i++) {
        char body[1200], reason[64];
        snprintf(reason, sizeof reason, "%s comes twice", required[i]);
        size_t n = (size_t)snprintf(body, sizeof body, "%s,\"%s\":null}", seed, required[i]);
        assert_refused((struct str){body, n}, reason);
        /* The same name, its first letter spelled as an escape. */
        n = (size_t)snprintf(body, sizeof body, "%s,\"\\u%04x%s\":null}", seed,
                             (unsigned)required[i][0], required[i] + 1);
        assert_refused((struct str){body, n}, reason);
    }
}

static void test_unknown_fields_are_ignored(void **state)
{
    (void)state;
    static const char *const extra[] = {
        ",\"x\":1}",
        ",\"x\":{\"message_id\":[1,{\"a\":null}]}}",
        ",\"x\":[[[]]],\"x\":2}",
        ",\"Message_id\":1}",
        ",\"\":\"\"}",
    };
    struct event expected = seed_event();
    for (size_t i = 0; i < N(extra); i++) {
        char body[1200];
        struct event e;
        size_t n = (size_t)snprintf(body, sizeof body, "%s%s", seed, tail) - 1;
        n += (size_t)snprintf(body + n, sizeof body - n, "%s", extra[i]);
        assert_decodes((struct str){body, n}, &e);
        assert_same(&e, &expected);
    }
    char body[1200];
    struct event e;
    size_t n = with(body, sizeof body, "trace", "{\"baggage\":{\"a\":[1]},\"tracestate\":\"s\"}");
    assert_decodes((struct str){body, n}, &e);
    assert_true(str_eq(e.traceparent, STR("")) && str_eq(e.tracestate, STR("s")));
}

/* A newer version explains every other surprise: it is the reason that is told. */
static void test_a_newer_schema(void **state)
{
    (void)state;
    char body[1200];
    struct event e = {0}, expected = seed_event();
    const char *why;
    size_t n = with(body, sizeof body, "schema_version", "3");
    assert_int_equal(event_decode((struct str){body, n}, &e, &why), ERR_INVALID);
    assert_string_equal(why, "schema_version");
    /* Its ids are told, for the quarantine; but only if all of it is as we know it. */
    expected.schema_version = 3;
    assert_same(&e, &expected);
    assert_refused(STR("{\"schema_version\":2147483647}"), "schema_version");
    assert_refused(STR("{\"message_id\":{\"v\":8},\"order_id\":[],\"schema_version\":3}"),
                   "schema_version");
    assert_refused(STR("{\"schema_version\":3"), "not JSON");
}

static void test_order_id_as_text(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t value;
    } rows[] = {{"\"900000000000001\"", INT64_C(900000000000001)},
                {"\"9223372036854775807\"", INT64_MAX},
                {"9223372036854775807", INT64_MAX},
                {"\"1\"", 1}};
    for (size_t i = 0; i < N(rows); i++) {
        char body[1200];
        struct event e;
        size_t n = with(body, sizeof body, "order_id", rows[i].text);
        assert_decodes((struct str){body, n}, &e);
        assert_int_equal(e.order_id, rows[i].value);
    }
}

static void test_created_at(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t us;
    } rows[] = {
        {"\"2026-06-25T12:00:00Z\"", INT64_C(1782388800000000)},
        {"\"2026-06-25T12:00:00.1Z\"", INT64_C(1782388800100000)},
        {"\"2026-06-25T12:00:00.123Z\"", INT64_C(1782388800123000)},
        {"\"2026-06-25T12:00:00.1234Z\"", INT64_C(1782388800123400)},
        {"\"2026-06-25T12:00:00.12345Z\"", INT64_C(1782388800123450)},
        {"\"2026-06-25T12:00:00.123456789Z\"", INT64_C(1782388800123456)},
        {"\"2026-06-25T20:00:00.123456+08:00\"", INT64_C(1782388800123456)},
        {"\"2026-06-25T20:00:00.12+08:00\"", INT64_C(1782388800120000)},
        {"\"2026-06-25T20:00:00+08:00\"", INT64_C(1782388800000000)},
    };
    for (size_t i = 0; i < N(rows); i++) {
        char body[1200];
        struct event e;
        size_t n = with(body, sizeof body, "created_at", rows[i].text);
        assert_decodes((struct str){body, n}, &e);
        assert_int_equal(e.created_at_us, rows[i].us);
    }
}

static void test_cut_at_each_byte(void **state)
{
    (void)state;
    char body[1024];
    size_t n = (size_t)snprintf(body, sizeof body, "%s%s", seed, tail);
    for (size_t cut = 0; cut < n; cut++)
        assert_refused((struct str){body, cut}, "not JSON");
    /* Zero bytes and trailing text are no JSON either. */
    assert_refused((struct str){body, n + 1}, "not JSON");
    body[n] = ' ';
    struct event e;
    assert_decodes((struct str){body, n + 1}, &e);
    body[n] = '{';
    assert_refused((struct str){body, n + 1}, "not JSON");
}

static void test_not_an_object(void **state)
{
    (void)state;
    assert_refused(STR("[]"), "not an object");
    assert_refused(STR("\"x\""), "not an object");
    assert_refused(STR("null"), "not an object");
    assert_refused(STR(""), "not JSON");
    assert_refused((struct str){NULL, 0}, "not JSON");
    assert_refused(STR("{}"), "message_id is missing");
}

static void test_the_bound(void **state)
{
    (void)state;
    char body[EVENT_MAX_BYTES + 1];
    struct event e;
    size_t n = (size_t)snprintf(body, sizeof body, "%s%s", seed, tail);
    memset(body + n, ' ', sizeof body - n);
    assert_decodes((struct str){body, EVENT_MAX_BYTES}, &e);
    assert_refused((struct str){body, EVENT_MAX_BYTES + 1}, "too long");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_as_the_seed_prints_it),
        cmocka_unit_test(test_each_field_is_required),
        cmocka_unit_test(test_each_field_of_a_wrong_type),
        cmocka_unit_test(test_each_field_twice),
        cmocka_unit_test(test_unknown_fields_are_ignored),
        cmocka_unit_test(test_a_newer_schema),
        cmocka_unit_test(test_order_id_as_text),
        cmocka_unit_test(test_created_at),
        cmocka_unit_test(test_cut_at_each_byte),
        cmocka_unit_test(test_not_an_object),
        cmocka_unit_test(test_the_bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
