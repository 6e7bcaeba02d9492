#include "unit.h"

#include "core/result.h"

static struct result one(void)
{
    struct result r = {.id = INT64_MAX,
                       .event = "ORDER_CREATED",
                       .item = {INT64_MAX, INT64_MAX},
                       .user_id = INT64_MAX,
                       .order_id = INT64_MAX,
                       .verdict = {VERDICT_REJECTED, REASON_IDEMPOTENCY_KEY_REUSED},
                       .decided_at_ms = INT64_C(1780000000123)};
    r.message_id.b[15] = 1;
    r.request_id.b[15] = 2;
    r.reservation_id.b[15] = 3;
    return r;
}

static struct str encode(const struct result *r, char *text)
{
    struct strbuf b;
    strbuf_init_fixed(&b, text, RESULT_MAX_BYTES);
    result_encode(r, &b);
    assert_false(b.failed);
    return strbuf_str(&b);
}

static void test_body(void **state)
{
    char text[RESULT_MAX_BYTES];
    struct result r = one();
    (void)state;
    struct str body = encode(&r, text);
    struct str expected =
        STR("{\"schema_version\":1,\"result_id\":\"9223372036854775807\",\"event_type\":"
            "\"ORDER_CREATED\",\"message_id\":\"00000000-0000-0000-0000-000000000001\","
            "\"request_id\":\"00000000-0000-0000-0000-000000000002\",\"reservation_id\":"
            "\"00000000-0000-0000-0000-000000000003\",\"activity_id\":9223372036854775807,"
            "\"sku_id\":9223372036854775807,\"user_id\":9223372036854775807,\"order_id\":"
            "\"9223372036854775807\",\"state\":\"REJECTED\",\"reason\":\"IDEMPOTENCY_KEY_REUSED\","
            "\"version\":3,\"decided_at\":\"2026-05-28T20:26:40.123Z\"}");
    assert_int_equal(body.len, expected.len);
    assert_memory_equal(body.ptr, expected.ptr, body.len);
    r.order_id = 0;
    r.verdict = (struct verdict){VERDICT_CANCELLED, REASON_EXPIRED};
    body = encode(&r, text);
    text[body.len] = '\0';
    assert_non_null(strstr(text, "\"order_id\":null,\"state\":\"CANCELLED\",\"reason\":\"EXPIRED\","
                                 "\"version\":4,"));
}

/* The longest fits, whatever the event is called. */
static void test_bound(void **state)
{
    char text[RESULT_MAX_BYTES];
    struct result r = one();
    (void)state;
    memset(r.event, 1, sizeof r.event - 1); /* each is \u0001 */
    encode(&r, text);
}

static void test_key(void **state)
{
    struct result a = one(), b = one();
    (void)state;
    struct uuid ka = result_key(&a), kb = result_key(&b);
    assert_true(uuid_eq(&ka, &kb));
    b.id--;
    kb = result_key(&b);
    assert_false(uuid_eq(&ka, &kb));
    b = one();
    b.message_id.b[0] = 1;
    kb = result_key(&b);
    assert_false(uuid_eq(&ka, &kb));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_body),
        cmocka_unit_test(test_bound),
        cmocka_unit_test(test_key),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
