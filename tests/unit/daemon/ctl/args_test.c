#include "daemon/ctl/args.h"

#include "base/err.h"
#include "unit.h"

struct values {
    struct item item;
    int64_t n, wait_us, at_ms;
    struct str text;
    bool json;
};
static const struct args_option options[] = {
    ARGS_ITEM(struct values, item),
    {"n", ARGS_I64, offsetof(struct values, n), false, 1, 10, "a number"},
    {"wait", ARGS_DURATION, offsetof(struct values, wait_us), false, 0, 60000000, "a while"},
    {"at", ARGS_TIME, offsetof(struct values, at_ms), .help = "when"},
    {"text", ARGS_TEXT, offsetof(struct values, text), .help = "what"},
    ARGS_JSON(struct values, json),
};
#define N (sizeof(options) / sizeof(options[0]))
#define NOW_MS INT64_C(1000000000000)

static char err[256];
static struct values v;
static struct str words[2];
static int n_words;

/* The values are views into the line. */
static char copy[512];

static int read_line(const char *line)
{
    char *argv[32];
    int argc = 0;
    snprintf(copy, sizeof(copy), "%s", line);
    for (char *word = strtok(copy, " "); word; word = strtok(NULL, " "))
        argv[argc++] = word;
    memset(&v, 0, sizeof(v));
    n_words = 2;
    err[0] = 0;
    return args_read(options, N, &v, argc, argv, words, &n_words, NOW_MS, err, sizeof(err));
}

static void reads_every_kind(void **state)
{
    (void)state;
    assert_int_equal(
        read_line("--activity 7 --sku=8 --n 10 --wait 60s --at +1h --text=a=b --json x y"), 0);
    assert_int_equal(v.item.activity_id, 7);
    assert_int_equal(v.item.sku_id, 8);
    assert_int_equal(v.n, 10);
    assert_int_equal(v.wait_us, 60000000);
    assert_int_equal(v.at_ms, NOW_MS + 3600000);
    assert_true(str_eq(v.text, STR("a=b")));
    assert_true(v.json);
    assert_int_equal(n_words, 2);
    assert_true(str_eq(words[1], STR("y")));
}

static void reads_times(void **state)
{
    (void)state;
    assert_int_equal(read_line("--activity 1 --sku 1 --at -1s"), 0);
    assert_int_equal(v.at_ms, NOW_MS - 1000);
    assert_int_equal(read_line("--activity 1 --sku 1 --at=-90s"), 0);
    assert_int_equal(v.at_ms, NOW_MS - 90000);
    assert_int_equal(read_line("--activity 1 --sku 1 --at 1970-01-01T00:00:01.5Z"), 0);
    assert_int_equal(v.at_ms, 1500);
}

static void refuses(void **state)
{
    static const struct {
        const char *line, *says;
    } cases[] = {
        {"--activity 1", "--sku is missing"},
        {"--sku 1 --activity 0", "--activity wants a whole number"},
        {"--sku 1 --activity 1 --n 11", "--n wants a whole number from 1 to 10"},
        {"--sku 1 --activity 1 --n 1.0", "--n wants"},
        {"--sku 1 --activity 1 --n", "a value is missing after --n"},
        {"--sku 1 --activity --json", "a value is missing after --activity"},
        {"--sku 1 --activity 1 --wait 61s", "--wait wants a duration"},
        {"--sku 1 --activity 1 --wait 5", "--wait wants a duration"},
        {"--sku 1 --activity 1 --at soon", "--at wants a time"},
        {"--sku 1 --activity 1 --at +soon", "--at wants a time"},
        {"--sku 1 --activity 1 --text=", "an empty value for text"},
        {"--sku 1 --activity 1 --sku 1", "given twice: --sku"},
        {"--sku 1 --activity 1 --json=1", "takes no value"},
        {"--sku 1 --activity 1 --nosuch 1", "unknown option --nosuch"},
        {"--sku 1 --activity 1 -- x", "unknown option --"},
        {"--sku 1 --activity 1 a b c", "unexpected word c"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(read_line(cases[i].line), ERR_INVALID);
        if (!strstr(err, cases[i].says))
            fail_msg("'%s' says '%s'", cases[i].line, err);
    }
}

static void helps_with_each_option(void **state)
{
    struct strbuf b;
    (void)state;
    strbuf_init(&b, 1 << 16);
    args_help(options, N, &b);
    strbuf_add_char(&b, '\0');
    for (size_t i = 0; i < N; i++) {
        assert_non_null(strstr(b.ptr, options[i].name));
        assert_non_null(strstr(b.ptr, options[i].help));
    }
    assert_non_null(strstr(b.ptr, "(required)"));
    strbuf_deinit(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_every_kind),
        cmocka_unit_test(reads_times),
        cmocka_unit_test(refuses),
        cmocka_unit_test(helps_with_each_option),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
