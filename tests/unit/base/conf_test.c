#include "base/conf.h"
#include "base/err.h"
#include "unit.h"

struct settings {
    bool strict;
    int64_t workers, timeout, body;
    char addr[CONF_STRING_MAX], password[CONF_STRING_MAX];
    int queue;
};

#define AT(field) offsetof(struct settings, field)
static const struct conf_option options[] = {
    {"http.max_body", CONF_SIZE, AT(body), "4KiB", 1024, 1 << 20, .help = "Largest body"},
    {"redis.addr", CONF_STRING, AT(addr), "127.0.0.1:6379", 3, 64, .help = "Where Redis listens"},
    {"redis.reply_timeout", CONF_DURATION, AT(timeout), "60ms", 1000, 10000000,
     .help = "Longest wait for a reply"},
    {"worker.lanes", CONF_INT, AT(workers), "32", 1, 0, .help = "Lanes"},
    {"redis.password", CONF_STRING, AT(password), "", .secret = true, .help = "Password"},
    {"queue.kind", CONF_ENUM, AT(queue), "streams", .choices = "streams|rocketmq|off",
     .help = "streams | rocketmq"},
    {"hold.strict", CONF_BOOL, AT(strict), "no", .help = "Release at once"},
};

static struct settings s;
static struct conf c;
static char err[300];

static int setup(void **state)
{
    (void)state;
    memset(&s, 0x5a, sizeof s);
    conf_init(&c, options, sizeof options / sizeof *options, &s);
    err[0] = 0;
    return 0;
}
static int teardown(void **state)
{
    (void)state;
    conf_deinit(&c);
    return 0;
}

static int set_from(enum conf_source from, const char *name, const char *value)
{
    err[0] = 0;
    return conf_set(&c, from, str_of(name), str_of(value), err, sizeof err);
}

static void test_defaults(void **state)
{
    (void)state;
    assert_int_equal(s.body, 4096);
    assert_int_equal(s.timeout, 60000);
    assert_int_equal(s.workers, 32);
    assert_string_equal(s.addr, "127.0.0.1:6379");
    assert_string_equal(s.password, "");
    assert_int_equal(s.queue, 0);
    assert_false(s.strict);
}

static void test_set(void **state)
{
    (void)state;
    assert_int_equal(set_from(CONF_FILE, "http.max_body", "64KiB"), 0);
    assert_int_equal(set_from(CONF_FILE, "redis.reply_timeout", "2s"), 0);
    assert_int_equal(set_from(CONF_FILE, "worker.lanes", "1000000000000"), 0);
    assert_int_equal(set_from(CONF_FILE, "queue.kind", "off"), 0);
    assert_int_equal(set_from(CONF_FILE, "hold.strict", "true"), 0);
    assert_int_equal(set_from(CONF_FILE, "redis.addr", "r:1"), 0);
    assert_int_equal(s.body, 65536);
    assert_int_equal(s.timeout, 2000000);
    assert_int_equal(s.workers, INT64_C(1000000000000));
    assert_int_equal(s.queue, 2);
    assert_true(s.strict);
    assert_string_equal(s.addr, "r:1");
}

static void test_refused(void **state)
{
    (void)state;
    static const struct {
        const char *name, *value, *message;
    } rows[] = {
        {"http.max_body", "4k",
         "http.max_body must be a size such as 4096, 64KiB, 16MiB, 1KiB to 1MiB, not \"4k\""},
        {"http.max_body", "1023",
         "http.max_body must be a size such as 4096, 64KiB, 16MiB, 1KiB to 1MiB, not \"1023\""},
        {"redis.reply_timeout", "60",
         "redis.reply_timeout must be a duration such as 250ms, 2s, 15m, 1ms to 10s, not \"60\""},
        {"redis.reply_timeout", "11s",
         "redis.reply_timeout must be a duration such as 250ms, 2s, 15m, 1ms to 10s, not \"11s\""},
        {"worker.lanes", "0", "worker.lanes must be a whole number, at least 1, not \"0\""},
        {"worker.lanes", "", "worker.lanes must be a whole number, at least 1, not \"\""},
        {"worker.lanes", "99999999999999999999",
         "worker.lanes must be a whole number, at least 1, not \"99999999999999999999\""},
        {"hold.strict", "1", "hold.strict must be true or false, not \"1\""},
        {"queue.kind", "kafka", "queue.kind must be one of streams, rocketmq, off, not \"kafka\""},
        {"queue.kind", "streams|rocketmq",
         "queue.kind must be one of streams, rocketmq, off, not \"streams|rocketmq\""},
        {"redis.addr", "x",
         "redis.addr must be text of less than 512 bytes and a length of 3 to 64, not \"x\""},
    };
    const struct settings before = s;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(set_from(CONF_FILE, rows[i].name, rows[i].value), ERR_INVALID);
        assert_string_equal(err, rows[i].message);
    }
    assert_memory_equal(&s, &before, sizeof s);

    assert_int_equal(set_from(CONF_FILE, "redis.adr", "x"), ERR_NOTFOUND);
    assert_string_equal(err, "unknown option redis.adr; redis has: addr, reply_timeout, password");
    assert_int_equal(set_from(CONF_FILE, "rdis.addr", "x"), ERR_NOTFOUND);
    assert_string_equal(
        err, "unknown option rdis.addr; the sections are: http, redis, worker, queue, hold");
    assert_int_equal(set_from(CONF_FILE, "redis.reply-timeout", "2s"),
                     ERR_NOTFOUND); /* flags only */
    assert_int_equal(set_from(CONF_FILE, "", "x"), ERR_NOTFOUND);

    char zero[] = {'a', 'b', 'c', 0, 'd'};
    assert_int_equal(
        conf_set(&c, CONF_FILE, STR("redis.addr"), (struct str){zero, 5}, err, sizeof err),
        ERR_INVALID);
    char small[10];
    assert_int_equal(conf_set(&c, CONF_FILE, STR("worker.lanes"), STR("x"), small, sizeof small),
                     ERR_INVALID);
    assert_string_equal(small, "worker.la");
}

static void test_secret_is_not_told(void **state)
{
    (void)state;
    char longer[600];
    memset(longer, 's', sizeof longer - 1);
    longer[sizeof longer - 1] = 0;
    assert_int_equal(set_from(CONF_FILE, "redis.password", longer), ERR_INVALID);
    assert_string_equal(err, "redis.password must be text of less than 512 bytes");
    assert_int_equal(set_from(CONF_FILE, "redis.password", "hunter2"), 0);
    assert_string_equal(s.password, "hunter2");
    struct strbuf b;
    strbuf_init(&b, 10000);
    conf_dump(&c, &b);
    conf_help(&c, &b);
    conf_markdown(&c, &b);
    strbuf_add_char(&b, 0);
    assert_null(strstr(b.ptr, "hunter2"));
    strbuf_deinit(&b);
}

static void test_sources(void **state)
{
    (void)state;
    assert_int_equal(set_from(CONF_FILE, "worker.lanes", "4"), 0);
    assert_int_equal(set_from(CONF_FILE, "worker.lanes", "5"), ERR_INVALID);
    assert_string_equal(err, "worker.lanes is set twice");
    assert_int_equal(s.workers, 4);
    assert_int_equal(set_from(CONF_ENV, "worker.lanes", "6"), 0);
    assert_int_equal(set_from(CONF_FLAG, "worker.lanes", "7"), 0);
    assert_int_equal(set_from(CONF_FLAG, "worker.lanes", "8"), 0); /* the last flag counts */
    assert_int_equal(s.workers, 8);
    assert_int_equal(c.source[3], CONF_FLAG);
    /* In whatever order they come, the stronger source wins; the weaker one is still checked. */
    assert_int_equal(set_from(CONF_ENV, "worker.lanes", "9"), 0);
    assert_int_equal(s.workers, 8);
    assert_int_equal(set_from(CONF_ENV, "worker.lanes", "x"), ERR_INVALID);
    assert_int_equal(set_from(CONF_FLAG, "http.max_body", "8KiB"), 0);
    assert_int_equal(set_from(CONF_FILE, "http.max_body", "16KiB"), 0);
    assert_int_equal(set_from(CONF_FILE, "http.max_body", "32KiB"), ERR_INVALID);
    assert_int_equal(s.body, 8192);
}

static void test_env(void **state)
{
    (void)state;
    char *good[] = {(char[]){"PATH=/bin"},
                    (char[]){"SECKILL_REDIS_REPLY_TIMEOUT=5ms"},
                    (char[]){"SECKILL_REDIS_ADDR=a=b"},
                    (char[]){"SECKILL_SOMETHING_ELSE=1"},
                    (char[]){"seckill_worker_lanes=1"},
                    (char[]){"SECKILL_"},
                    NULL};
    assert_int_equal(conf_set_env(&c, good, err, sizeof err), 0);
    assert_int_equal(s.timeout, 5000);
    assert_string_equal(s.addr, "a=b");
    assert_int_equal(s.workers, 32);
    assert_int_equal(c.source[2], CONF_ENV);
    char *bad[] = {(char[]){"SECKILL_WORKER_LANES="}, NULL};
    assert_int_equal(conf_set_env(&c, bad, err, sizeof err), ERR_INVALID);
    assert_string_equal(err, "worker.lanes must be a whole number, at least 1, not \"\"");
}

struct args {
    char words[10][40];
    char *argv[11];
    int argc;
};

static int take(struct args *a, const char *line)
{
    struct str rest = str_of(line), word;
    a->argc = 0;
    while (rest.ptr) {
        rest = str_split(rest, ' ', &word);
        assert_true(str_copy(a->words[a->argc], sizeof a->words[0], word));
        a->argv[a->argc] = a->words[a->argc];
        a->argc++;
    }
    a->argv[a->argc] = NULL;
    err[0] = 0;
    return conf_take_flags(&c, &a->argc, a->argv, err, sizeof err);
}

static void left(const struct args *a, const char *expected)
{
    char text[400] = "";
    for (int i = 0; i < a->argc; i++) {
        strcat(text, i ? " " : "");
        strcat(text, a->argv[i]);
    }
    assert_string_equal(text, expected);
    assert_null(a->argv[a->argc]);
}

static void test_flags(void **state)
{
    (void)state;
    struct args a;
    assert_int_equal(take(&a, "api --config f.yaml --redis.reply-timeout=1s --worker.lanes 9 -v "
                              "--hold.strict on x.y"),
                     0);
    left(&a, "api --config f.yaml -v x.y");
    assert_int_equal(s.timeout, 1000000);
    assert_int_equal(s.workers, 9);
    assert_true(s.strict);
    assert_int_equal(take(&a, "api --config=./f.yaml --redis.addr=a=b.c"), 0);
    left(&a, "api --config=./f.yaml");
    assert_string_equal(s.addr, "a=b.c");
    assert_int_equal(take(&a, "api -- --worker.lanes=10"), 0);
    left(&a, "api -- --worker.lanes=10");
    assert_int_equal(s.workers, 9);
    assert_int_equal(take(&a, "--a.b"), 0); /* the program's own name */
    left(&a, "--a.b");

    assert_int_equal(take(&a, "api --redis.nothing=1 tail"), ERR_NOTFOUND);
    assert_string_equal(err,
                        "unknown option redis.nothing; redis has: addr, reply_timeout, password");
    left(&a, "api tail");
    assert_int_equal(take(&a, "api --redis.nothing"), ERR_NOTFOUND);
    assert_int_equal(take(&a, "api --worker.lanes"), ERR_INVALID);
    assert_string_equal(err, "--worker.lanes needs a value");
    assert_int_equal(take(&a, "api --worker.lanes --hold.strict=on"), ERR_INVALID);
    assert_string_equal(err, "--worker.lanes needs a value");
    assert_int_equal(take(&a, "api --worker.lanes=-1"), ERR_INVALID);
    assert_int_equal(take(&a, "api --worker.lanes="), ERR_INVALID);
}

static void renders(void (*f)(const struct conf *, struct strbuf *), const char *expected)
{
    struct strbuf b;
    strbuf_init(&b, 10000);
    f(&c, &b);
    strbuf_add_char(&b, 0);
    assert_false(b.failed);
    assert_string_equal(b.ptr, expected);
    strbuf_deinit(&b);
}

static void test_texts(void **state)
{
    (void)state;
    set_from(CONF_ENV, "redis.password", "x");
    set_from(CONF_FILE, "redis.reply_timeout", "1500us");
    set_from(CONF_FLAG, "redis.addr", "a\"b");
    renders(conf_dump, "http:\n"
                       "  max_body: 4KiB # default\n"
                       "redis:\n"
                       "  addr: \"a\\\"b\" # flag\n"
                       "  reply_timeout: 1500us # file\n"
                       "  password: \"***\" # environment\n"
                       "worker:\n"
                       "  lanes: 32 # default\n"
                       "queue:\n"
                       "  kind: \"streams\" # default\n"
                       "hold:\n"
                       "  strict: false # default\n");
    renders(conf_help, "# http.max_body (size, default 4KiB, 1KiB to 1MiB)\n"
                       "    Largest body\n"
                       "# redis.addr (string, default 127.0.0.1:6379, length 3 to 64)\n"
                       "    Where Redis listens\n"
                       "# redis.reply_timeout (duration, default 60ms, 1ms to 10s)\n"
                       "    Longest wait for a reply\n"
                       "# worker.lanes (int, default 32, at least 1)\n"
                       "    Lanes\n"
                       "# redis.password (string, default empty)\n"
                       "    Password\n"
                       "# queue.kind (enum, default streams, one of streams, rocketmq, off)\n"
                       "    streams | rocketmq\n"
                       "# hold.strict (bool, default no)\n"
                       "    Release at once\n");
    renders(
        conf_markdown,
        "| option | type | default | allowed | meaning |\n"
        "|---|---|---|---|---|\n"
        "| `http.max_body` | size | `4KiB` | 1KiB to 1MiB | Largest body |\n"
        "| `redis.addr` | string | `127.0.0.1:6379` | length 3 to 64 | Where Redis listens |\n"
        "| `redis.reply_timeout` | duration | `60ms` | 1ms to 10s | Longest wait for a reply |\n"
        "| `worker.lanes` | int | `32` | at least 1 | Lanes |\n"
        "| `redis.password` | string |  |  | Password (secret: not shown) |\n"
        "| `queue.kind` | enum | `streams` | streams, rocketmq, off | streams \\| rocketmq |\n"
        "| `hold.strict` | bool | `no` | true, false | Release at once |\n");
}

static void init_with(const struct conf_option *o, size_t n)
{
    struct conf bad;
    conf_init(&bad, o, n, &s);
    conf_deinit(&bad);
}
#define BAD_TABLE(name, ...)                                                                       \
    static void name(void)                                                                         \
    {                                                                                              \
        static const struct conf_option o[] = {__VA_ARGS__};                                       \
        init_with(o, sizeof o / sizeof *o);                                                        \
    }
BAD_TABLE(bad_default, {"a.b", CONF_INT, AT(workers), "x", .help = ""})
BAD_TABLE(default_out_of_bounds, {"a.b", CONF_INT, AT(workers), "5", 6, 7, .help = ""})
BAD_TABLE(no_default, {"a.b", CONF_STRING, AT(addr), NULL, .help = ""})
BAD_TABLE(no_section, {"a", CONF_BOOL, AT(strict), "no", .help = ""})
BAD_TABLE(upper_case, {"a.B", CONF_BOOL, AT(strict), "no", .help = ""})
BAD_TABLE(empty_part, {"a..b", CONF_BOOL, AT(strict), "no", .help = ""})
BAD_TABLE(twice, {"a.b", CONF_BOOL, AT(strict), "no", .help = ""},
          {"a.b", CONF_BOOL, AT(strict), "no", .help = ""})
BAD_TABLE(same_variable, {"a.b_c", CONF_BOOL, AT(strict), "no", .help = ""},
          {"a_b.c", CONF_BOOL, AT(strict), "no", .help = ""})
BAD_TABLE(option_and_section, {"a.b.c", CONF_BOOL, AT(strict), "no", .help = ""},
          {"a.b", CONF_BOOL, AT(strict), "no", .help = ""})
BAD_TABLE(good_table, {"a.b.c", CONF_BOOL, AT(strict), "no", .help = ""},
          {"a.bc", CONF_BOOL, AT(strict), "no", .help = ""})

static void test_bugs_abort(void **state)
{
    (void)state;
    assert_true(unit_aborts(bad_default));
    assert_true(unit_aborts(default_out_of_bounds));
    assert_true(unit_aborts(no_default));
    assert_true(unit_aborts(no_section));
    assert_true(unit_aborts(upper_case));
    assert_true(unit_aborts(empty_part));
    assert_true(unit_aborts(twice));
    assert_true(unit_aborts(same_variable));
    assert_true(unit_aborts(option_and_section));
    assert_false(unit_aborts(good_table));
}

int main(void)
{
#define CONF_TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        CONF_TEST(test_defaults),   CONF_TEST(test_set),
        CONF_TEST(test_refused),    CONF_TEST(test_secret_is_not_told),
        CONF_TEST(test_sources),    CONF_TEST(test_env),
        CONF_TEST(test_flags),      CONF_TEST(test_texts),
        CONF_TEST(test_bugs_abort),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
