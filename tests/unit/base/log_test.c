#include "base/json.h"
#include "base/log.h"
#include "base/utf8.h"
#include "unit.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>

static int pipe_fds[2];

static int setup(void **state)
{
    (void)state;
    log_setup("seckill-api", "api-1", LOG_INFO);
    return pipe(pipe_fds);
}

static int teardown(void **state)
{
    (void)state;
    log_to_fd(STDERR_FILENO);
    return close(pipe_fds[0]) || close(pipe_fds[1]);
}

/* The next line; every line must be JSON of valid UTF-8 and at most 4 KiB. */
static struct str take_line(void)
{
    static char line[8192];
    ssize_t n = read(pipe_fds[0], line, sizeof line);
    assert_in_range(n, 2, 4096);
    assert_int_equal(line[n - 1], '\n');
    struct str text = {line, (size_t)n - 1};
    assert_true(utf8_valid(text.ptr, text.len));
    assert_null(memchr(text.ptr, '\n', text.len));
    struct json j;
    enum json_type t;
    json_init(&j, text);
    while ((t = json_next(&j)) != JSON_END)
        assert_int_not_equal(t, JSON_ERROR);
    return text;
}

/* Moves j to the value of a key of the line. */
static enum json_type find(struct json *j, struct str line, const char *key)
{
    json_init(j, line);
    assert_int_equal(json_next(j), JSON_OBJECT);
    while (json_next(j) == JSON_KEY) {
        bool found = json_is(j, str_of(key));
        enum json_type t = json_next(j);
        if (found)
            return t;
        assert_true(json_skip(j, t));
    }
    return JSON_ERROR;
}

static void has_string(struct str line, const char *key, struct str value)
{
    struct json j;
    if (find(&j, line, key) != JSON_STRING || !json_is(&j, value))
        fail_msg("%s is not " STR_FMT " in " STR_FMT, key, STR_ARG(value), STR_ARG(line));
}

static void test_fields(void **state)
{
    (void)state;
    struct json j;
    int64_t v;
    log_to_fd(pipe_fds[1]);
    errno = EPIPE;
    log_warn("order created", LOG_I("order_id", INT64_MIN), LOG_S("request_id", STR("r\"1\n")),
             LOG_B("retryable", true), LOG_B("replayed", false), LOG_Z("none", NULL),
             LOG_Z("empty", ""));
    assert_int_equal(errno, EPIPE);
    struct str line = take_line();
    has_string(line, "level", STR("warn"));
    has_string(line, "msg", STR("order created"));
    has_string(line, "service", STR("seckill-api"));
    has_string(line, "instance", STR("api-1"));
    has_string(line, "request_id", STR("r\"1\n"));
    has_string(line, "empty", STR(""));
    assert_int_equal(find(&j, line, "order_id"), JSON_NUMBER);
    assert_int_equal(json_i64(&j, INT64_MIN, 0, &v), 0);
    assert_true(v == INT64_MIN);
    assert_int_equal(find(&j, line, "retryable"), JSON_TRUE);
    assert_int_equal(find(&j, line, "replayed"), JSON_FALSE);
    assert_int_equal(find(&j, line, "none"), JSON_NULL);
    assert_int_equal(find(&j, line, "cut"), JSON_ERROR);
    assert_int_equal(find(&j, line, "ts"), JSON_STRING);
    assert_int_equal(j.raw.len, 24);
    assert_int_equal(j.raw.ptr[10], 'T');
    assert_int_equal(j.raw.ptr[23], 'Z');
}

static void test_no_fields(void **state)
{
    (void)state;
    log_to_fd(pipe_fds[1]);
    log_error("bad \xff bytes \xe7\xa7\x92");
    has_string(take_line(), "msg", STR("bad \xef\xbf\xbd bytes \xe7\xa7\x92"));
}

static void test_level(void **state)
{
    (void)state;
    log_to_fd(pipe_fds[1]);
    assert_false(log_enabled(LOG_DEBUG));
    assert_true(log_enabled(LOG_INFO));
    int evaluated = 0;
    log_debug("not written", LOG_I("n", ++evaluated));
    assert_int_equal(evaluated, 0); /* nor paid for */
    log_info("written", LOG_I("n", ++evaluated));
    assert_int_equal(evaluated, 1);
    has_string(take_line(), "msg", STR("written"));
}

/* Whatever the length and the bytes, a line stays JSON, stays below 4 KiB, and says when it was
 * cut. */
static void test_cut(void **state)
{
    (void)state;
    static const struct {
        struct str bytes;
        size_t grows; /* times, when escaped */
    } kinds[] = {{STR("x"), 1},
                 {STR("\n"), 2},
                 {STR("\x01"), 6},
                 {STR("\xf0\x9f\x98\x80"), 1},
                 {STR("\xff"), 3}};
    static char text[6000];
    struct json j;
    log_to_fd(pipe_fds[1]);
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        for (size_t i = 0; i < sizeof text; i++)
            text[i] = kinds[k].bytes.ptr[i % kinds[k].bytes.len];
        for (size_t n = 3600 / kinds[k].grows; n < 4200 / kinds[k].grows + 1; n++) {
            struct str value = {text, n};
            log_info("long", LOG_S("value", value), LOG_I("number", 1234567890),
                     LOG_Z("last", "z"));
            struct str line = take_line();
            bool cut = find(&j, line, "cut") == JSON_TRUE;
            bool last = find(&j, line, "last") == JSON_STRING && json_is(&j, STR("z"));
            assert_int_equal(cut, !last);
            assert_int_equal(find(&j, line, "value"), JSON_STRING);
            if (find(&j, line, "number") == JSON_NUMBER)
                assert_true(str_eq(j.raw, STR("1234567890")));
        }
    }
    memset(text, 'm', sizeof text);
    text[sizeof text - 1] = 0;
    log_info(text, LOG_I("n", 1)); /* the message itself */
    struct str line = take_line();
    assert_true(line.len > 4000);
    assert_int_equal(find(&j, line, "cut"), JSON_TRUE);
    assert_int_equal(find(&j, line, "n"), JSON_ERROR);
    for (int fields = 0; fields < 20; fields++) { /* many fields: names do not fit either */
        struct str part = {text, 190 + (size_t)fields};
        struct log_field list[31];
        for (int i = 0; i < 30; i++)
            list[i] = LOG_S("name", part);
        list[30] = (struct log_field){.name = NULL};
        log_write(LOG_INFO, "many", list);
        assert_int_equal(find(&j, take_line(), "cut"), JSON_TRUE);
    }
}

static void *write_lines(void *arg)
{
    for (int i = 0; i < 200; i++)
        log_info("threads", LOG_S("text", *(struct str *)arg));
    return NULL;
}

static void test_threads_do_not_mix(void **state)
{
    (void)state;
    FILE *file = tmpfile();
    assert_non_null(file);
    log_to_fd(fileno(file));
    int flags = fcntl(fileno(file), F_GETFL);
    assert_int_equal(fcntl(fileno(file), F_SETFL, flags | O_APPEND), 0);
    static char text[1000];
    memset(text, 't', sizeof text);
    struct str value = {text, sizeof text};
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, write_lines, &value), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    rewind(file);
    char *line = NULL;
    size_t cap = 0;
    ssize_t n;
    int lines = 0;
    for (; (n = getline(&line, &cap, file)) > 0; lines++)
        has_string((struct str){line, (size_t)n}, "text", value);
    assert_int_equal(lines, 800);
    free(line);
    fclose(file);
}

static void test_closed_output(void **state)
{
    (void)state;
    log_to_fd(-1);
    log_info("nobody hears it"); /* and nobody is harmed */
}

static void test_limit(void **state)
{
    (void)state;
    static struct log_limit limit;
    uint64_t suppressed = 99;
    assert_true(log_allowed(&limit, 5000000, &suppressed));
    assert_int_equal(suppressed, 0);
    for (int i = 0; i < 10; i++)
        assert_false(log_allowed(&limit, 5000000 + i, &suppressed));
    assert_false(log_allowed(&limit, 5999999, &suppressed));
    assert_true(log_allowed(&limit, 6000000, &suppressed));
    assert_int_equal(suppressed, 11);
    assert_true(log_allowed(&limit, 9000000, &suppressed));
    assert_int_equal(suppressed, 0);
}

int main(void)
{
#define LOG_TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        LOG_TEST(test_fields), LOG_TEST(test_no_fields),          LOG_TEST(test_level),
        LOG_TEST(test_cut),    LOG_TEST(test_threads_do_not_mix), LOG_TEST(test_closed_output),
        LOG_TEST(test_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
