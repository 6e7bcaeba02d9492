/* What the payment provider sends: the strict body of POST /v1/payments, and its signature. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "app/payment_body.h"
#include "base/err.h"
#include "daemon/common/payment_auth.h"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* --- the body --- */

#define P "\"payment_id\":\"p-1\""
#define I "\"activity_id\":1,\"sku_id\":2"
#define U "\"user_id\":3"
#define R "\"request_id\":\"019f2db9-8af0-7a21-88e1-2df337730003\""
#define O "\"order_id\":\"900000000000001\""

static void test_a_payment(void **state)
{
    (void)state;
    struct payment_body b;
    const char *why = NULL;
    assert_int_equal(payment_body_parse(STR("{" P "," I "," U "," R "," O "}"), &b, &why),
                     ORDER_BODY_OK);
    assert_true(str_eq(b.payment_id, STR("p-1")));
    assert_int_equal(b.item.activity_id, 1);
    assert_int_equal(b.item.sku_id, 2);
    assert_int_equal(b.user_id, 3);
    assert_int_equal(b.order_id, INT64_C(900000000000001));
    assert_string_equal(uuid_text(&b.request_id).z, "019f2db9-8af0-7a21-88e1-2df337730003");
    assert_int_equal(payment_body_parse(STR(" { " O " , " R "," U "," I "," P " } \n"), &b, &why),
                     ORDER_BODY_OK);
}

static void test_what_is_no_payment(void **state)
{
    (void)state;
    static const struct {
        const char *body;
        enum order_body expected;
    } rows[] = {
        {"", ORDER_BODY_INVALID_JSON},
        {"[]", ORDER_BODY_INVALID_JSON},
        {"{" P "," I "," U "," R "," O "", ORDER_BODY_INVALID_JSON},
        {"{" P "," I "," U "," R "," O "}}", ORDER_BODY_INVALID_JSON},
        {"{" P "," I "," U "," R "," O ",\"amount\":1}", ORDER_BODY_INVALID_JSON},
        {"{" P "," I "," U "," R "," O "," P "}", ORDER_BODY_INVALID_JSON},
        {"{" P "," I "," U "," R "," O ",\"order\\u005fid\":\"1\"}", ORDER_BODY_INVALID_JSON},
        {"{}", ORDER_BODY_INVALID_ARGUMENT},
        {"{" I "," U "," R "," O "}", ORDER_BODY_INVALID_ARGUMENT},
        {"{" P "," U "," R "," O "}", ORDER_BODY_INVALID_ARGUMENT},
        {"{" P "," I "," R "," O "}", ORDER_BODY_INVALID_ARGUMENT},
        {"{" P "," I "," U "," O "}", ORDER_BODY_INVALID_ARGUMENT},
        {"{" P "," I "," U "," R "}", ORDER_BODY_INVALID_ARGUMENT},
        {"{\"payment_id\":1," I "," U "," R "," O "}", ORDER_BODY_INVALID_ARGUMENT},
        {"{\"payment_id\":\"\"," I "," U "," R "," O "}", ORDER_BODY_INVALID_ARGUMENT},
        {"{\"payment_id\":\"a b\"," I "," U "," R "," O "}", ORDER_BODY_INVALID_ARGUMENT},
        {"{\"payment_id\":\"\\u0061\"," I "," U "," R "," O "}", ORDER_BODY_INVALID_ARGUMENT},
        {"{\"payment_id\":\"cancel1\"," I "," U "," R "," O "}", ORDER_BODY_INVALID_ARGUMENT},
        {"{" P "," I ",\"user_id\":0," R "," O "}", ORDER_BODY_INVALID_ARGUMENT},
        {"{" P "," I ",\"user_id\":\"3\"," R "," O "}", ORDER_BODY_INVALID_ARGUMENT},
        {"{" P "," I "," U ",\"request_id\":\"x\"," O "}", ORDER_BODY_INVALID_ARGUMENT},
        {"{" P "," I "," U "," R ",\"order_id\":5}", ORDER_BODY_INVALID_ARGUMENT},
        {"{" P "," I "," U "," R ",\"order_id\":\"0\"}", ORDER_BODY_INVALID_ARGUMENT},
        {"{" P "," I "," U "," R ",\"order_id\":\"05\"}", ORDER_BODY_INVALID_ARGUMENT},
        {"{" P "," I "," U "," R ",\"order_id\":[{}]}", ORDER_BODY_INVALID_ARGUMENT},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct payment_body b = {.user_id = 77};
        const char *why = NULL;
        enum order_body got = payment_body_parse(str_of(rows[i].body), &b, &why);
        if (got != rows[i].expected)
            print_error("%s: %d\n", rows[i].body, (int)got);
        assert_int_equal(got, rows[i].expected);
        assert_non_null(why);
        assert_int_equal(b.user_id, 77);
    }
}

/* --- the credential --- */

#define SECRET "0123456789abcdef0123456789abcdef"
#define OTHER "fedcba9876543210fedcba9876543210"

static char path[] = "/tmp/seckill-payments-XXXXXX";

static int load(struct payment_auth *a, const char *text)
{
    char err[256] = "";
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
    int rc = payment_auth_load(a, path, INT64_C(300000000), err, sizeof err);
    if (rc < 0) {
        assert_non_null(strstr(err, "payments.secret_file"));
        assert_null(strstr(err, SECRET));
    }
    return rc;
}

static bool check(const struct payment_auth *a, const char *header, const char *body, int64_t at)
{
    const char *why = NULL;
    bool good = payment_auth_check(a, str_of(header), str_of(body), at, &why);
    assert_true(good || why);
    return good;
}

static void test_secrets(void **state)
{
    (void)state;
    struct payment_auth a;
    char err[256];
    assert_int_equal(load(&a, SECRET "\n"), 0);
    assert_int_equal(a.secrets.n, 1);
    assert_int_equal(load(&a, SECRET "\r\n\n" OTHER), 0);
    assert_int_equal(a.secrets.n, 2);
    assert_int_equal(a.secrets.lengths[0], 32);
    assert_int_equal(load(&a, ""), ERR_INVALID);
    assert_int_equal(load(&a, "short\n"), ERR_INVALID);
    assert_int_equal(load(&a, SECRET "\n" SECRET "\n" SECRET "\n" SECRET "\n" SECRET "\n"),
                     ERR_INVALID);
    char long_text[3000];
    memset(long_text, 'x', sizeof long_text - 1);
    long_text[sizeof long_text - 1] = 0;
    assert_int_equal(load(&a, long_text), ERR_INVALID);
    assert_int_equal(payment_auth_load(&a, "/nowhere/at/all", 1, err, sizeof err), ERR_INVALID);
    /* none: nobody may pay */
    assert_int_equal(payment_auth_load(&a, "", 1, err, sizeof err), 0);
    char header[PAYMENT_SIGNATURE_MAX];
    struct payment_auth b;
    assert_int_equal(load(&b, SECRET), 0);
    assert_int_equal(payment_auth_sign(&b, STR("{}"), 1000, header), 0);
    assert_false(check(&a, header, "{}", 1000));
}

static void test_signatures(void **state)
{
    (void)state;
    struct payment_auth a, both, other;
    char header[PAYMENT_SIGNATURE_MAX];
    assert_int_equal(load(&a, SECRET), 0);
    assert_int_equal(load(&both, OTHER "\n" SECRET), 0);
    assert_int_equal(load(&other, OTHER), 0);
    assert_int_equal(payment_auth_sign(&a, STR("{\"a\":1}"), 1782388800, header), 0);
    /* Python: hmac.new(SECRET, b'1782388800.{"a":1}', sha256).hexdigest() */
    assert_string_equal(header, "Seckill-HMAC-SHA256 t=1782388800,v1="
                                "8ec0bbbc8f08a79b2229e4e287c77c692fced2148de161bde86478d35bfe70e4");
    assert_true(check(&a, header, "{\"a\":1}", 1782388800));
    assert_true(check(&both, header, "{\"a\":1}", 1782388800));
    assert_false(check(&other, header, "{\"a\":1}", 1782388800));
    assert_false(check(&a, header, "{\"a\":2}", 1782388800));
    assert_false(check(&a, header, "", 1782388800));
    /* the window, both sides */
    assert_true(check(&a, header, "{\"a\":1}", 1782388800 + 300));
    assert_false(check(&a, header, "{\"a\":1}", 1782388800 + 301));
    assert_true(check(&a, header, "{\"a\":1}", 1782388800 - 300));
    assert_false(check(&a, header, "{\"a\":1}", 1782388800 - 301));
    /* each character counts; the scheme's case does not */
    for (size_t i = 0; header[i]; i++) {
        char c = header[i];
        header[i] = c == 'x' ? 'y' : 'x';
        assert_false(check(&a, header, "{\"a\":1}", 1782388800));
        header[i] = 0;
        assert_false(check(&a, header, "{\"a\":1}", 1782388800));
        header[i] = c;
    }
    header[0] = 's';
    assert_true(check(&a, header, "{\"a\":1}", 1782388800));
    char more[PAYMENT_SIGNATURE_MAX + 8];
    snprintf(more, sizeof more, "%s,v1=", header);
    assert_false(check(&a, more, "{\"a\":1}", 1782388800));
    assert_false(check(&a, "", "", 0));
    assert_false(check(&a, "Seckill-HMAC-SHA256", "", 0));
    assert_false(check(&a, "Seckill-HMAC-SHA256 t=", "", 0));
    assert_false(check(&a, "Seckill-HMAC-SHA256 v1=0,t=1", "", 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_payment),
        cmocka_unit_test(test_what_is_no_payment),
        cmocka_unit_test(test_secrets),
        cmocka_unit_test(test_signatures),
    };
    int fd = mkstemp(path);
    if (fd < 0)
        return 1;
    close(fd);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(path);
    return failed;
}
