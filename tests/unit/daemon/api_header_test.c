#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "daemon/api/header.h"

static void test_json(void **state)
{
    static const char *const good[] = {
        "application/json", "Application/JSON", "application/json;charset=utf-8",
        "application/json; charset=UTF-8", "application/json ; charset=\"utf-8\""};
    static const char *const bad[] = {"",
                                      "application/jsonx",
                                      "application/json2; charset=utf-8",
                                      "application/problem+json",
                                      "text/plain",
                                      "application/json;",
                                      "application/json; charset=latin1",
                                      "application/json; charset=utf-8; charset=utf-8",
                                      "application/json, text/plain"};
    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        assert_true(header_is_json(str_of(good[i])));
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_false(header_is_json(str_of(bad[i])));
    assert_false(header_is_json((struct str){NULL, 0}));
}

static void test_traceparent(void **state)
{
    static const char *const bad[] = {"",
                                      "00",
                                      "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0",
                                      "01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
                                      "00-0AF7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
                                      "00-00000000000000000000000000000000-b7ad6b7169203331-01",
                                      "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
                                      "00-0af7651916cd43dd8448eb211c80319c_b7ad6b7169203331-01",
                                      "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0\"",
                                      "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-x"};
    (void)state;
    assert_true(
        header_is_traceparent(STR("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")));
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_false(header_is_traceparent(str_of(bad[i])));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_json),
                                       cmocka_unit_test(test_traceparent)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
