#include "base/err.h"
#include "base/str.h"
#include "base/utf8.h"
#include "unit.h"

static void test_split(void **state)
{
    (void)state;
    struct str head, rest = str_split(STR("a.b.c"), '.', &head);
    assert_true(str_eq(head, STR("a")) && str_eq(rest, STR("b.c")));
    rest = str_split(rest, '.', &head);
    rest = str_split(rest, '.', &head);
    assert_true(str_eq(head, STR("c")) && rest.ptr == NULL);
    /* A separator at the end leaves an empty rest, which is not an absent one. */
    rest = str_split(STR("a."), '.', &head);
    assert_true(str_eq(head, STR("a")) && rest.ptr && rest.len == 0);
    rest = str_split((struct str){NULL, 0}, '.', &head);
    assert_true(!head.ptr && !rest.ptr);
}

static void test_compare(void **state)
{
    (void)state;
    assert_true(str_eq((struct str){NULL, 0}, STR("")));
    assert_false(str_eq(STR("a"), STR("b")));
    assert_true(str_eq_nocase(STR("Content-LENGTH"), STR("content-length")));
    assert_false(str_eq_nocase(STR("a"), STR("ab")));
    /* Letters only: '@' and '`' differ by the same bit as letters do. */
    assert_false(str_eq_nocase(STR("@"), STR("`")));
    assert_false(str_eq_nocase(STR("\xc4"), STR("\xe4")));
    assert_true(str_starts(STR("Bearer x"), STR("Bearer ")));
    assert_false(str_starts(STR("Bear"), STR("Bearer ")));
    assert_true(str_starts((struct str){NULL, 0}, STR("")));
}

static void test_copy(void **state)
{
    (void)state;
    char dst[4];
    assert_true(str_copy(dst, sizeof dst, STR("abc")));
    assert_string_equal(dst, "abc");
    assert_false(str_copy(dst, sizeof dst, STR("abcd")));
    assert_string_equal(dst, "abc");
    assert_true(str_copy(dst, sizeof dst, (struct str){NULL, 0}));
    assert_string_equal(dst, "");
    assert_false(str_copy(dst, 0, STR("")));
}

static void test_decimal(void **state)
{
    (void)state;
    char dst[20];
    assert_int_equal(str_from_u64(dst, UINT64_MAX), 20);
    assert_memory_equal(dst, "18446744073709551615", 20);
    assert_int_equal(str_from_i64(dst, INT64_MIN), 20);
    assert_memory_equal(dst, "-9223372036854775808", 20);
    assert_int_equal(str_from_u64(dst, 0), 1);
    assert_memory_equal(dst, "0", 1);
}

static void test_fixed(void **state)
{
    (void)state;
    char mem[8];
    struct strbuf b;
    strbuf_init_fixed(&b, mem, sizeof mem);
    strbuf_printf(&b, "%s-%d", "abcde", 42); /* fills it to the last byte */
    assert_false(b.failed);
    assert_true(str_eq(strbuf_str(&b), STR("abcde-42")));
    strbuf_add(&b, "", 0);
    assert_false(b.failed);
    strbuf_add_char(&b, 'x');
    assert_true(b.failed);
    assert_int_equal(b.len, 8);
    strbuf_clear(&b);
    strbuf_add_str(&b, STR("123456789")); /* all or nothing */
    assert_true(b.failed && b.len == 0);
    strbuf_add_char(&b, 'x'); /* it would fit, but there is a hole before it */
    assert_true(b.failed && b.len == 0);
    assert_null(strbuf_reserve(&b, 1));
    strbuf_deinit(&b);
}

static void test_growing(void **state)
{
    (void)state;
    struct strbuf b;
    strbuf_init(&b, 1000);
    for (int i = 0; i < 1000; i++)
        strbuf_add_char(&b, (char)('a' + i % 26));
    assert_false(b.failed);
    assert_int_equal(b.len, 1000);
    assert_true(b.cap <= 1000);
    strbuf_add_char(&b, 'x');
    assert_true(b.failed);
    strbuf_clear(&b);
    strbuf_printf(&b, "%0900d", 7); /* longer than what printf has on the stack */
    assert_false(b.failed);
    assert_int_equal(b.len, 900);
    assert_int_equal(b.ptr[899], '7');
    strbuf_printf(&b, "%0900d", 7);
    assert_true(b.failed && b.len == 900);
    strbuf_deinit(&b);

    /* From the caller's memory to the heap. */
    char mem[4] = "";
    strbuf_init_fixed(&b, mem, sizeof mem);
    b.max = 100;
    strbuf_add_str(&b, STR("abc"));
    assert_ptr_equal(b.ptr, mem);
    strbuf_add_i64(&b, -12345);
    strbuf_add_u64(&b, 6);
    assert_true(b.heap);
    assert_true(str_eq(strbuf_str(&b), STR("abc-123456")));
    char *at = strbuf_reserve(&b, 90);
    assert_non_null(at);
    memset(at, '.', 90);
    strbuf_commit(&b, 90);
    assert_null(strbuf_reserve(&b, SIZE_MAX));
    strbuf_deinit(&b);

    strbuf_init(&b, 0);
    strbuf_add_char(&b, 'x');
    assert_true(b.failed);
    strbuf_deinit(&b);
}

static void test_utf8(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t len; /* 0: ill-formed */
    } rows[] = {
        {"a", 1},
        {"\x7f", 1},
        {"\xc2\x80", 2},
        {"\xdf\xbf", 2},
        {"\xe0\xa0\x80", 3},
        {"\xed\x9f\xbf", 3},
        {"\xee\x80\x80", 3},
        {"\xef\xbf\xbf", 3},
        {"\xf0\x90\x80\x80", 4},
        {"\xf4\x8f\xbf\xbf", 4},
        {"\x80", 0},             /* continuation alone */
        {"\xc1\xbf", 0},         /* overlong */
        {"\xe0\x9f\xbf", 0},     /* overlong */
        {"\xf0\x8f\xbf\xbf", 0}, /* overlong */
        {"\xed\xa0\x80", 0},     /* surrogate */
        {"\xf4\x90\x80\x80", 0}, /* above U+10FFFF */
        {"\xf5\x80\x80\x80", 0},
        {"\xff", 0},
        {"\xc3", 0}, /* cut */
        {"\xe2\x82", 0},
        {"\xf0\x9f\x98", 0},
        {"\xe2\x28\xa1", 0},
        {"\xe2\x82\x28", 0},
        {"\xf0\x9f\x98\x28", 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_int_equal(utf8_len(rows[i].bytes, strlen(rows[i].bytes)), rows[i].len);
    assert_true(utf8_valid("", 0));
    assert_true(utf8_valid("\xe7\xa7\x92\xe6\x9d\x80", 6));
    assert_false(utf8_valid("ab\xe7\xa7", 4));
    /* Encoding every code point gives a sequence that decoding takes. */
    for (unsigned c = 0; c <= 0x10ffff; c++) {
        char dst[4];
        if (c >= 0xd800 && c <= 0xdfff)
            continue;
        size_t n = utf8_put(dst, c);
        if (utf8_len(dst, n) != n)
            fail_msg("U+%04X", c);
    }
}

static void test_errors(void **state)
{
    (void)state;
    assert_string_equal(err_name(0), "OK");
    assert_string_equal(err_name(3), "OUTCOME");
    assert_string_equal(err_name(-99), "ERR_?");
    static const struct {
        int rc;
        const char *name;
        bool unknown;
    } rows[] = {
        {ERR_CANCELED, "ERR_CANCELED", false},  {ERR_DEADLINE, "ERR_DEADLINE", false},
        {ERR_OVERLOAD, "ERR_OVERLOAD", false},  {ERR_UNAVAIL, "ERR_UNAVAIL", false},
        {ERR_UNCERTAIN, "ERR_UNCERTAIN", true}, {ERR_INTERNAL, "ERR_INTERNAL", true},
        {ERR_CONFLICT, "ERR_CONFLICT", false},  {ERR_INVALID, "ERR_INVALID", false},
        {ERR_NOTFOUND, "ERR_NOTFOUND", false},  {ERR_DENIED, "ERR_DENIED", false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_string_equal(err_name(rows[i].rc), rows[i].name);
        assert_int_equal(err_is_unknown(rows[i].rc), rows[i].unknown);
    }
    assert_false(err_is_unknown(0) || err_is_unknown(1));
    /* What is no error of ours says nothing: unknown. */
    assert_true(err_is_unknown(-99));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_split), cmocka_unit_test(test_compare),
        cmocka_unit_test(test_copy),  cmocka_unit_test(test_decimal),
        cmocka_unit_test(test_fixed), cmocka_unit_test(test_growing),
        cmocka_unit_test(test_utf8),  cmocka_unit_test(test_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
