#include "base/err.h"
#include "base/json.h"
#include "unit.h"
#include <stdlib.h>

#define N(a) (sizeof(a) / sizeof *(a))

static bool accepts(struct str text)
{
    struct json j;
    /* A copy that ends where the text ends, so that the sanitizer sees a byte read too far. */
    char *exact = malloc(text.len ? text.len : 1);
    assert_non_null(exact);
    if (text.len)
        memcpy(exact, text.ptr, text.len);
    json_init(&j, (struct str){exact, text.len});
    enum json_type t;
    do {
        t = json_next(&j);
    } while (t != JSON_END && t != JSON_ERROR);
    assert_true(j.at <= text.len);
    assert_int_equal(json_next(&j), JSON_ERROR); /* after either end nothing more comes */
    free(exact);
    return t == JSON_END;
}

static void test_accepted(void **state)
{
    (void)state;
    static const struct str rows[] = {
        STR("null"),
        STR("true"),
        STR("false"),
        STR("0"),
        STR("-0"),
        STR("\"\""),
        STR("[]"),
        STR("{}"),
        STR(" \t\r\n[ ] \t\r\n"),
        STR("[[]   ]"),
        STR("{\"\":0}"),
        STR("{\"a\":1,\"a\":2}"),
        STR("[null,1,\"1\",{}]"),
        STR("[1\n]"),
        STR(" [1] "),
        STR("[123]"),
        STR("[0e+1]"),
        STR("[0e1]"),
        STR("[-1]"),
        STR("[-123]"),
        STR("[-0.0]"),
        STR("[1E22]"),
        STR("[1E-2]"),
        STR("[1E+2]"),
        STR("[123e45]"),
        STR("[123.456e78]"),
        STR("[123.456789]"),
        STR("[1e-2]"),
        STR("[1e+2]"),
        STR("[-0.000000000000000000000000000000000000000000000000000000000001]"),
        STR("[123456789012345678901234567890]"),
        STR("{\"a\":[{\"b\":[]}],\"c\":{}}"),
        STR("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\""),
        STR("\"\\u0060\\u012a\\u12AB\""),
        STR("\"\\u0000\""),
        STR("\"\\uD801\\udc37\""),
        STR("\"\\ud83d\\ude39\\ud83d\\udc8d\""),
        STR("\"\\uDBFF\\uDFFF\""),
        STR("\"\\uFFFF\""),
        STR("\"\\u005C\""),
        STR("\"\\u0022\""),
        STR("\"\\\\u0000\""),
        STR("\"\\\\a\""),
        STR("\"\x7f\""),
        STR("\"a/*b*/c\""),
        STR("\"\xf4\x8f\xbf\xbf\""),
        STR("\"\xef\xbf\xbf\""),
        STR("\"\xe2\x80\xa8\xe2\x80\xa9\""),
        STR("\"\xe7\xa7\x92\xe6\x9d\x80\""),
        STR("\"\xcf\x80\""),
        STR("\"\xf0\x9d\x84\x9e\""),
        STR("\"\xef\xbb\xbf\""),
        STR("{\"\\u0061\\ud83d\\ude00\":\"\xc3\xa9\"}"),
        STR("[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]"), /* 32 */
    };
    for (size_t i = 0; i < N(rows); i++) {
        if (!accepts(rows[i]))
            fail_msg("refused: " STR_FMT, STR_ARG(rows[i]));
    }
}

static void test_refused(void **state)
{
    (void)state;
    static const struct str rows[] = {
        /* nothing, cut, or too much */
        STR(""),
        STR(" "),
        STR("["),
        STR("{"),
        STR("]"),
        STR("}"),
        STR("\""),
        STR("-"),
        STR("t"),
        STR("nul"),
        STR("[1"),
        STR("[1,"),
        STR("[\"a"),
        STR("[\"a\""),
        STR("{\"a"),
        STR("{\"a\""),
        STR("{\"a\":"),
        STR("{\"a\":1"),
        STR("{\"a\":1,"),
        STR("[[]"),
        STR("[{}"),
        STR("{\"a\":[}"),
        STR("[]]"),
        STR("{}}"),
        STR("1 2"),
        STR("1,"),
        STR("[1]x"),
        STR("[],"),
        STR("{}#"),
        STR("\"a\"b"),
        STR("truetrue"),
        STR("nullx"),
        STR("[]\0"),
        STR("\0"),
        STR("[1]\f"),
        STR("[\v1]"),
        STR("\xc2\xa0[]"),
        STR("\xef\xbb\xbf{}"),
        STR("\xef\xbb"),
        STR("\xff\xfe[\0]\0"),
        STR("\xe2\x81\xa0[]"),
        /* structure */
        STR("[,]"),
        STR("[,1]"),
        STR("[1,]"),
        STR("[1,,2]"),
        STR("[1 2]"),
        STR("[1:2]"),
        STR("[\"a\":1]"),
        STR("[1}"),
        STR("{]"),
        STR("{,}"),
        STR("{\"a\"}"),
        STR("{\"a\",1}"),
        STR("{\"a\"::1}"),
        STR("{\"a\":1,}"),
        STR("{\"a\":1,,\"b\":2}"),
        STR("{,\"a\":1}"),
        STR("{\"a\":1 \"b\":2}"),
        STR("{\"a\":}"),
        STR("{:1}"),
        STR("{1:1}"),
        STR("{null:1}"),
        STR("{a:1}"),
        STR("{'a':1}"),
        STR("{[]:1}"),
        STR("{\"a\":1]"),
        STR("{\"a\" 1}"),
        STR("{\"a\":1:2}"),
        STR("[1],[2]"),
        STR("{\"a\":\"b\"}/**/"),
        STR("[1]//x"),
        STR("/**/[]"),
        STR("[/*x*/]"),
        /* words */
        STR("True"),
        STR("NULL"),
        STR("[nul]"),
        STR("[tru]"),
        STR("[fals]"),
        STR("[NaN]"),
        STR("[-NaN]"),
        STR("[Infinity]"),
        STR("[-Infinity]"),
        STR("[undefined]"),
        STR("[truth]"),
        STR("[true1]"),
        STR("*"),
        /* numbers */
        STR("01"),
        STR("-01"),
        STR("00"),
        STR("[012]"),
        STR("[-]"),
        STR("[--1]"),
        STR("[+1]"),
        STR("[++1]"),
        STR("[.5]"),
        STR("[-.5]"),
        STR("[1.]"),
        STR("[-1.]"),
        STR("[1.e1]"),
        STR("[.e1]"),
        STR("[1.2.3]"),
        STR("[0e]"),
        STR("[0e+]"),
        STR("[1e]"),
        STR("[1eE2]"),
        STR("[1e1.5]"),
        STR("[1e+-2]"),
        STR("[1 000]"),
        STR("[0x1]"),
        STR("[1a]"),
        STR("[1_0]"),
        STR("[1,5e]"),
        STR("[- 1]"),
        STR("[1+2]"),
        STR("[\xef\xbc\x91]"),
        STR("[1\xe5]"),
        STR("[-1x]"),
        STR("0.3e"),
        STR("1e"),
        /* strings */
        STR("['a']"),
        STR("[a]"),
        STR("[\"a]"),
        STR("[\"\\\"]"),
        STR("[\"\\"),
        STR("[\"\\\\\\\"]"),
        STR("[\"\\a\"]"),
        STR("[\"\\x41\"]"),
        STR("[\"\\0\"]"),
        STR("[\"\\U0041\"]"),
        STR("[\"\\'\"]"),
        STR("[\"\\u\"]"),
        STR("[\"\\u004\"]"),
        STR("[\"\\u004g\"]"),
        STR("[\"\\u 041\"]"),
        STR("[\"\\u+041\"]"),
        STR("[\"\\uD800\"]"),
        STR("[\"\\uDC00\"]"),
        STR("[\"\\uD800\\\"]"),
        STR("[\"\\uD800\\u\"]"),
        STR("[\"\\uD800\\u1\"]"),
        STR("[\"\\uD800\\uD800\"]"),
        STR("[\"\\uD800x\"]"),
        STR("[\"\\uD800\\n\"]"),
        STR("[\"\\uDC00\\uD800\"]"),
        STR("[\"\\uD800\\u0041\"]"),
        STR("[\"a\nb\"]"),
        STR("[\"\t\"]"),
        STR("[\"a\0b\"]"),
        STR("[\"\x1f\"]"),
        STR("[\"1234567\n\"]"),
        STR("[\"12345678901234\x01\"]"),
        STR("\\u0022a\\u0022"),
        STR("[\\n]"),
        STR("[\"\\\xe5\"]"),
        STR("[\"\\\xf0\x9f\x8c\x80\"]"),
        /* UTF-8 */
        STR("\"\xff\""),
        STR("\"\x80\""),
        STR("\"\xe9\""),
        STR("\"\xc0\xaf\""),
        STR("\"\xc1\xbf\""),
        STR("\"\xe0\x80\xaf\""),
        STR("\"\xe0\x9f\xbf\""),
        STR("\"\xf0\x80\x80\xaf\""),
        STR("\"\xed\xa0\x80\""),
        STR("\"\xed\xbf\xbf\""),
        STR("\"\xf4\x90\x80\x80\""),
        STR("\"\xf5\x80\x80\x80\""),
        STR("\"\xfc\x83\xbf\xbf\xbf\xbf\""),
        STR("\"\xe6\x97\""),
        STR("\"\xe6\x97"),
        STR("\"12345678\xff\""),
        STR("{\"\xb9\":1}"),
        STR("\xe5"),
        STR("[\xe5]"),
        /* depth: 33 */
        STR("[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]"),
        STR("[{\"\":[{\"\":[{\"\":[{\"\":[{\"\":[{\"\":[{\"\":[{\"\":[{\"\":[{\"\":[{\"\":[{\"\":[{"
            "\"\":[{\"\":[{\"\":"
            "[{\"\":[{\"\":[{\"\":[{\"\":[{\"\":[{\"\":[{\"\":[{\"\":[{\"\":"),
    };
    for (size_t i = 0; i < N(rows); i++) {
        if (accepts(rows[i]))
            fail_msg("accepted: row %zu, " STR_FMT, i, STR_ARG(rows[i]));
    }
}

static void test_tokens(void **state)
{
    (void)state;
    static const enum json_type expected[] = {
        JSON_OBJECT, JSON_KEY,    JSON_ARRAY,      JSON_NUMBER, JSON_TRUE,      JSON_FALSE,
        JSON_NULL,   JSON_OBJECT, JSON_OBJECT_END, JSON_ARRAY,  JSON_ARRAY_END, JSON_ARRAY_END,
        JSON_KEY,    JSON_STRING, JSON_OBJECT_END, JSON_END,    JSON_ERROR,     JSON_ERROR,
    };
    struct json j;
    json_init(&j, STR(" {\"a\" : [ 1 , true,false,null,{ } , [ ]], \"b\":\"x\"} "));
    for (size_t i = 0; i < N(expected); i++)
        assert_int_equal(json_next(&j), expected[i]);
}

static void test_place_of_error(void **state)
{
    (void)state;
    struct json j;
    json_init(&j, STR("{\"a\":1 x}"));
    while (json_next(&j) != JSON_ERROR)
        ;
    assert_int_equal(j.at, 7);
    assert_null(j.raw.ptr);
}

static void test_skip(void **state)
{
    (void)state;
    struct json j;
    json_init(
        &j,
        STR("{\"a\":{\"b\":[1,{\"c\":[]}]},\"d\":[[]],\"e\":1,\"f\":\"x\",\"g\":null,\"h\":2}"));
    assert_int_equal(json_next(&j), JSON_OBJECT);
    int keys = 0;
    enum json_type t;
    int64_t last = 0;
    while ((t = json_next(&j)) == JSON_KEY) {
        bool h = json_is(&j, STR("h"));
        t = json_next(&j);
        if (h)
            assert_int_equal(json_i64(&j, 0, 9, &last), 0);
        else
            assert_true(json_skip(&j, t));
        keys++;
    }
    assert_int_equal(t, JSON_OBJECT_END);
    assert_int_equal(json_next(&j), JSON_END);
    assert_int_equal(keys, 6);
    assert_int_equal(last, 2);

    json_init(&j, STR("[[1,}"));
    assert_int_equal(json_next(&j), JSON_ARRAY);
    assert_false(json_skip(&j, JSON_ARRAY));
    assert_false(json_skip(&j, JSON_ERROR));
    assert_false(json_skip(&j, JSON_OBJECT_END));
}

static void test_integers(void **state)
{
    (void)state;
    static const struct {
        struct str text;
        int rc;
        int64_t value;
    } rows[] = {
        {STR("0"), 0, 0},
        {STR("-0"), 0, 0},
        {STR("1001"), 0, 1001},
        {STR("-5"), 0, -5},
        {STR("9223372036854775807"), 0, INT64_MAX},
        {STR("-9223372036854775808"), 0, INT64_MIN},
        {STR("9223372036854775808"), ERR_INVALID, 0},
        {STR("18446744073709552617"), ERR_INVALID, 0}, /* 1001 in 64 bits */
        {STR("1.0"), ERR_INVALID, 0},
        {STR("1e3"), ERR_INVALID, 0},
        {STR("\"1001\""), ERR_INVALID, 0},
        {STR("true"), ERR_INVALID, 0},
        {STR("null"), ERR_INVALID, 0},
        {STR("[]"), ERR_INVALID, 0},
        {STR("01"), ERR_INVALID, 0},
    };
    for (size_t i = 0; i < N(rows); i++) {
        struct json j;
        int64_t v = 0;
        json_init(&j, rows[i].text);
        json_next(&j);
        assert_int_equal(json_i64(&j, INT64_MIN, INT64_MAX, &v), rows[i].rc);
        assert_true(v == rows[i].value);
    }
    struct json j;
    int64_t v;
    json_init(&j, STR("10"));
    json_next(&j);
    assert_int_equal(json_i64(&j, 1, 9, &v), ERR_INVALID);
    assert_int_equal(json_i64(&j, 11, 99, &v), ERR_INVALID);
    assert_int_equal(json_i64(&j, 10, 10, &v), 0);
}

static void test_unescape(void **state)
{
    (void)state;
    static const struct {
        struct str text, plain;
    } rows[] = {
        {STR("\"\""), STR("")},
        {STR("\"abc\""), STR("abc")},
        {STR("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\""), STR("\"\\/\b\f\n\r\t")},
        {STR("\"a\\u0000b\""), STR("a\0b")},
        {STR("\"\\u007f\\u0080\\u07ff\\u0800\\uffff\""),
         STR("\x7f\xc2\x80\xdf\xbf\xe0\xa0\x80\xef\xbf\xbf")},
        {STR("\"\\ud800\\udc00\\uDBFF\\uDFFF\""), STR("\xf0\x90\x80\x80\xf4\x8f\xbf\xbf")},
        {STR("\"\xe7\xa7\x92\\u6740\""), STR("\xe7\xa7\x92\xe6\x9d\x80")},
        {STR("\"\\\\u0041\""), STR("\\u0041")},
    };
    for (size_t i = 0; i < N(rows); i++) {
        struct json j;
        char dst[64];
        json_init(&j, rows[i].text);
        assert_int_equal(json_next(&j), JSON_STRING);
        assert_true(rows[i].plain.len <= j.raw.len);
        assert_int_equal(json_unescape(&j, dst, j.raw.len), rows[i].plain.len);
        assert_memory_equal(dst, rows[i].plain.ptr, rows[i].plain.len);
        assert_true(json_is(&j, rows[i].plain));
        assert_false(json_is(&j, STR("something else")));
        if (rows[i].plain.len) {
            struct str shorter = {rows[i].plain.ptr, rows[i].plain.len - 1};
            assert_false(json_is(&j, shorter));
            assert_int_equal(json_unescape(&j, dst, shorter.len), ERR_INVALID);
        }
    }
    struct json j;
    char dst[8];
    json_init(&j, STR("[1]"));
    json_next(&j);
    json_next(&j);
    assert_int_equal(json_unescape(&j, dst, sizeof dst), ERR_INVALID);
    assert_false(json_is(&j, STR("1")));
}

static void test_write(void **state)
{
    (void)state;
    static const struct {
        struct str text, quoted;
    } rows[] = {
        {STR(""), STR("\"\"")},
        {{NULL, 0}, STR("\"\"")},
        {STR("plain"), STR("\"plain\"")},
        {STR("\"\\/\b\f\n\r\t"), STR("\"\\\"\\\\/\\b\\f\\n\\r\\t\"")},
        {STR("\0\x01\x1f\x7f"), STR("\"\\u0000\\u0001\\u001f\x7f\"")},
        {STR("\xe7\xa7\x92\xf0\x9f\x98\x80"), STR("\"\xe7\xa7\x92\xf0\x9f\x98\x80\"")},
        {STR("a\xff\xc3"), STR("\"a\xef\xbf\xbd\xef\xbf\xbd\"")},
        {STR("\xed\xa0\x80"), STR("\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"")},
    };
    for (size_t i = 0; i < N(rows); i++) {
        char mem[64];
        struct strbuf b;
        strbuf_init_fixed(&b, mem, sizeof mem);
        json_add_string(&b, rows[i].text);
        assert_false(b.failed);
        if (!str_eq(strbuf_str(&b), rows[i].quoted))
            fail_msg("row %zu: " STR_FMT, i, STR_ARG(strbuf_str(&b)));
        assert_true(accepts(strbuf_str(&b)));
    }
    /* Every byte, at every place of a word: what is written is always JSON. */
    for (int c = 0; c < 256; c++) {
        for (size_t place = 0; place < 9; place++) {
            char text[] = "abcdefghi", mem[80];
            struct strbuf b;
            text[place] = (char)c;
            strbuf_init_fixed(&b, mem, sizeof mem);
            json_add_string(&b, (struct str){text, 9});
            assert_true(accepts(strbuf_str(&b)));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_accepted), cmocka_unit_test(test_refused),
        cmocka_unit_test(test_tokens),   cmocka_unit_test(test_place_of_error),
        cmocka_unit_test(test_skip),     cmocka_unit_test(test_integers),
        cmocka_unit_test(test_unescape), cmocka_unit_test(test_write),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
