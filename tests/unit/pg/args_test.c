/* Parameters in binary, and the SQLSTATE table of rule 20. */
#include "adapter/pg/pg_args.h"
#include "adapter/pg/pg_sqlstate.h"
#include "base/err.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void test_columns_are_taken_with_their_stride(void **state)
{
    (void)state;
    struct row {
        int64_t a;
        struct uuid u;
        int64_t b;
    } rows[3] = {{1, {{1}}, -1}, {2, {{2}}, INT64_MIN}, {3, {{3}}, INT64_MAX}};
    struct strbuf buf;
    strbuf_init(&buf, 4096);
    struct pg_args a;
    pg_args_init(&a, &buf);
    pg_add_i64s(&a, &rows[0].b, sizeof rows[0], 3);
    pg_add_uuids(&a, &rows[0].u, sizeof rows[0], 3);
    pg_add_uuid(&a, NULL);
    pg_add_text(&a, STR(""));
    assert_int_equal(pg_args_finish(&a), 0);
    assert_int_equal(a.lengths[0], 20 + 3 * 12);
    static const unsigned char min[] = {0, 0, 0, 8, 0x80, 0, 0, 0, 0, 0, 0, 0};
    assert_memory_equal(a.values[0] + 20 + 12, min, sizeof min);
    assert_int_equal(a.lengths[1], 20 + 3 * 20);
    assert_int_equal(a.values[1][20 + 2 * 20 + 4], 3);
    assert_null(a.values[2]);
    assert_non_null(a.values[3]);
    assert_int_equal(a.lengths[3], 0);
    strbuf_deinit(&buf);
}

static void test_texts_are_made_printable(void **state)
{
    (void)state;
    static char longer[PG_TEXT_MAX + 1];
    memset(longer, 'x', sizeof longer);
    struct str s[3] = {STR("a\xff\x01"
                           "b"),
                       {NULL, 0},
                       {longer, sizeof longer}};
    struct strbuf buf;
    strbuf_init(&buf, 8192);
    struct pg_args a;
    pg_args_init(&a, &buf);
    pg_add_texts(&a, s, sizeof s[0], 3);
    pg_add_byteas(&a, s, sizeof s[0], 3);
    assert_int_equal(pg_args_finish(&a), 0);
    assert_int_equal(a.lengths[0], 20 + 3 * 4 + 4 + PG_TEXT_MAX);
    static const char first[] = {0, 0, 0, 4, 'a', '?', '?', 'b', 0, 0, 0, 0};
    assert_memory_equal(a.values[0] + 20, first, sizeof first);
    assert_int_equal(a.lengths[1], 20 + 3 * 4 + 4 + (int)sizeof longer);
    assert_memory_equal(a.values[1] + 24, s[0].ptr, 4);
    strbuf_deinit(&buf);
}

static void test_empty_arrays_have_no_dimension(void **state)
{
    (void)state;
    struct strbuf buf;
    strbuf_init(&buf, 4096);
    struct pg_args a;
    pg_args_init(&a, &buf);
    int64_t none = 0;
    pg_add_i64s(&a, &none, sizeof none, 0);
    assert_int_equal(pg_args_finish(&a), 0);
    assert_int_equal(a.lengths[0], 12);
    assert_int_equal(a.values[0][3], 0);
    strbuf_deinit(&buf);
}

static void test_too_much_is_refused(void **state)
{
    (void)state;
    char mem[64];
    struct strbuf buf;
    strbuf_init_fixed(&buf, mem, sizeof mem);
    struct pg_args a;
    pg_args_init(&a, &buf);
    int64_t many[100] = {0};
    pg_add_i64s(&a, many, sizeof many[0], 100);
    assert_int_equal(pg_args_finish(&a), ERR_OVERLOAD);
}

static void test_rule20_sqlstates(void **state)
{
    (void)state;
    static const struct {
        const char *sqlstate;
        int rc;
    } t[] = {
        {"22P02", ERR_INVALID},  {"22021", ERR_INVALID},  {"23505", ERR_INVALID},
        {"23514", ERR_INVALID},  {"SK001", ERR_INVALID},  {"SK002", ERR_NOTFOUND},
        {"40001", ERR_CONFLICT}, {"40P01", ERR_CONFLICT}, {"25006", ERR_UNAVAIL},
        {"42883", ERR_UNAVAIL},  {"42P01", ERR_UNAVAIL},  {"53300", ERR_UNAVAIL},
        {"53100", ERR_UNAVAIL},  {"57014", ERR_UNAVAIL},  {"57P01", ERR_UNAVAIL},
        {"57P03", ERR_UNAVAIL},  {"08006", ERR_UNAVAIL},  {"08P01", ERR_UNAVAIL},
        {"55P03", ERR_UNAVAIL},  {"XX000", ERR_UNAVAIL},  {"40003", ERR_UNAVAIL},
        {"", ERR_UNAVAIL},       {"2", ERR_UNAVAIL},      {NULL, ERR_UNAVAIL},
    };
    for (size_t i = 0; i < sizeof t / sizeof t[0]; i++)
        assert_int_equal(pg_sqlstate_rc(t[i].sqlstate), t[i].rc);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_columns_are_taken_with_their_stride),
        cmocka_unit_test(test_texts_are_made_printable),
        cmocka_unit_test(test_empty_arrays_have_no_dimension),
        cmocka_unit_test(test_too_much_is_refused),
        cmocka_unit_test(test_rule20_sqlstates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
