/* The strict body of POST /v1/orders. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "app/order_body.h"

#define J ORDER_BODY_INVALID_JSON
#define A ORDER_BODY_INVALID_ARGUMENT

static const struct {
    const char *body;
    enum order_body expected;
} refused[] = {
    {"", J},
    {" ", J},
    {"null", J},
    {"[]", J},
    {"1", J},
    {"\"x\"", J},
    {"{", J},
    {"}", J},
    {"{\"activity_id\":1,\"sku_id\":2", J},
    {"{\"activity_id\":1,\"sku_id\":2}}", J},
    {"{\"activity_id\":1,\"sku_id\":2} {}", J},
    {"{\"activity_id\":1,\"sku_id\":2}x", J},
    {"{\"activity_id\":1,\"sku_id\":2,}", J},
    {"{\"activity_id\":1 \"sku_id\":2}", J},
    {"{activity_id:1,\"sku_id\":2}", J},
    {"{'activity_id':1,\"sku_id\":2}", J},
    {"{\"activity_id\":01,\"sku_id\":2}", J},
    {"{\"activity_id\":+1,\"sku_id\":2}", J},
    {"{\"activity_id\":1,\"sku_id\":NaN}", J},
    {"{\"activity_id\":1,\"sku_id\":2/**/}", J},
    {"\xef\xbb\xbf{\"activity_id\":1,\"sku_id\":2}", J},    /* a byte order mark */
    {"{\"activity_id\":1,\"sku_id\":2,\"quantity\":1}", J}, /* unknown */
    {"{\"activity_id\":1,\"sku_id\":2,\"\":1}", J},
    {"{\"Activity_id\":1,\"sku_id\":2}", J},
    {"{\"activity_id\":1,\"activity_id\":1,\"sku_id\":2}", J},  /* twice */
    {"{\"activity_id\":1,\"sku_id\":2,\"sku\\u005fid\":2}", J}, /* twice, spelled another way */
    {"{\"activity_id\":\"\xff\",\"sku_id\":2}", J},             /* no UTF-8 */
    {"{\"activity_id\":\"x,\"sku_id\":2}", J},
    {"{\"activity_id\":\"x\",\"sku_id\":2}x", J}, /* what is no JSON is said first */
    {"{\"activity_id\":[1,\"sku_id\":2}", J},
    {"{}", A},
    {"{\"activity_id\":1}", A},
    {"{\"sku_id\":1}", A},
    {"{\"activity_id\":null,\"sku_id\":2}", A},
    {"{\"activity_id\":true,\"sku_id\":2}", A},
    {"{\"activity_id\":\"1\",\"sku_id\":2}", A},
    {"{\"activity_id\":[1],\"sku_id\":2}", A},
    {"{\"activity_id\":{\"a\":[1,{}]},\"sku_id\":2}", A},
    {"{\"activity_id\":1.0,\"sku_id\":2}", A},
    {"{\"activity_id\":1e3,\"sku_id\":2}", A},
    {"{\"activity_id\":0,\"sku_id\":2}", A},
    {"{\"activity_id\":-0,\"sku_id\":2}", A},
    {"{\"activity_id\":-1,\"sku_id\":2}", A},
    {"{\"activity_id\":9223372036854775808,\"sku_id\":2}", A},
    {"{\"activity_id\":1,\"sku_id\":18446744073709551617}", A},
};

static void test_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        struct item item = {7, 7};
        const char *why = NULL;
        enum order_body got = order_body_parse(str_of(refused[i].body), &item, &why);
        if (got != refused[i].expected)
            fail_msg("%s: %d", refused[i].body, (int)got);
        assert_non_null(why);
        assert_int_equal(item.activity_id, 7); /* untouched */
    }
}

static void test_accepted(void **state)
{
    static const char *const bodies[] = {
        "{\"activity_id\":1001,\"sku_id\":9223372036854775807}",
        "{\"sku_id\":9223372036854775807,\"activity_id\":1001}",
        " \t\r\n{ \"activity_id\" : 1001 , \"sku_id\" : 9223372036854775807 } \n",
        "{\"\\u0061ctivity_id\":1001,\"sku\\u005fid\":9223372036854775807}",
    };
    (void)state;
    for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
        struct item item;
        const char *why;
        assert_int_equal(order_body_parse(str_of(bodies[i]), &item, &why), ORDER_BODY_OK);
        assert_int_equal(item.activity_id, 1001);
        assert_true(item.sku_id == INT64_MAX);
    }
}

static void test_zero_byte_and_cuts(void **state)
{
    static const char good[] = "{\"activity_id\":1001,\"sku_id\":2001}";
    struct item item;
    const char *why;
    (void)state;
    assert_int_equal(order_body_parse((struct str){good, sizeof(good)}, &item, &why), J);
    for (size_t n = 0; n < sizeof(good) - 1; n++)
        assert_int_equal(order_body_parse((struct str){good, n}, &item, &why), J);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_accepted),
        cmocka_unit_test(test_zero_byte_and_cuts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
