#include "adapter/yaml/yaml_conf.h"

#include "base/err.h"
#include "unit.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct settings {
    struct {
        char url[CONF_STRING_MAX];
        int64_t timeout_us;
        struct {
            bool on;
        } tls;
    } redis;
    int64_t workers;
    int64_t memory;
    int mode;
};

#define AT(f) offsetof(struct settings, f)
static const struct conf_option options[] = {
    {"redis.url", CONF_STRING, AT(redis.url), "redis://127.0.0.1", 1, 200, .help = "where"},
    {"redis.timeout", CONF_DURATION, AT(redis.timeout_us), "60ms", 1000, 10000000,
     .help = "how long"},
    {"redis.tls.on", CONF_BOOL, AT(redis.tls.on), "false", .help = "encrypted"},
    {"worker.count", CONF_INT, AT(workers), "32", 1, 256, .help = "how many"},
    {"worker.memory", CONF_SIZE, AT(memory), "1MiB", 0, 0, .help = "how much"},
    {"worker.mode", CONF_ENUM, AT(mode), "recover", .choices = "recover|strict", .help = "which"},
};

struct run {
    struct settings settings;
    struct conf conf;
    char path[64], err[512];
};

/* Loads text from a file of its own. */
static int load(struct run *r, const char *text, size_t n)
{
    snprintf(r->path, sizeof r->path, "/tmp/yaml_conf.XXXXXX");
    int fd = mkstemp(r->path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, n), n);
    close(fd);
    conf_init(&r->conf, options, sizeof options / sizeof *options, &r->settings);
    r->err[0] = 0;
    int rc = yaml_conf_load(&r->conf, r->path, r->err, sizeof r->err);
    unlink(r->path);
    return rc;
}

static void test_everything_set(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "# a comment\n"
        "redis:\n"
        "  url: redis://10.0.0.1:6379   # and here\n"
        "  timeout: 90ms\n"
        "  tls:\n"
        "    on: yes\n"
        "worker:\n"
        "  count: 8\n"
        "  memory: 16MiB\n"
        "  mode: strict\n",
        "{redis: {url: 'redis://10.0.0.1:6379', timeout: \"90ms\", tls: {on: true}},"
        " worker: {count: 8, memory: 16777216, mode: strict}}",
        "---\nworker: {mode: \"strict\", count: '8', memory: 16384KiB}\n"
        "\"redis\":\n  'url': redis://10.0.0.1:6379\n  timeout: 90000us\n  tls: {on: on}\n...\n",
        "\xef\xbb\xbfredis:\r\n  url: redis://10.0.0.1:6379\r\n  timeout: 90ms\r\n  tls: {on: "
        "yes}\r\n"
        "worker: {count: 8, memory: 16MiB, mode: strict}\r\n",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct run r;
        int rc = load(&r, texts[i], strlen(texts[i]));
        assert_string_equal(r.err, "");
        assert_int_equal(rc, 0);
        assert_string_equal(r.settings.redis.url, "redis://10.0.0.1:6379");
        assert_int_equal(r.settings.redis.timeout_us, 90000);
        assert_true(r.settings.redis.tls.on);
        assert_int_equal(r.settings.workers, 8);
        assert_int_equal(r.settings.memory, 16 << 20);
        assert_int_equal(r.settings.mode, 1);
        for (size_t o = 0; o < r.conf.n; o++)
            assert_int_equal(r.conf.source[o], CONF_FILE);
        conf_deinit(&r.conf);
    }
}

static void test_what_is_not_there_stays(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",
        "\n",
        "# nothing\n",
        "---\n",
        "{}",
        "redis:\n",
        "redis:\n  # url: x\nworker:\n",
        "redis: {tls: }\n",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct run r;
        int rc = load(&r, texts[i], strlen(texts[i]));
        assert_string_equal(r.err, "");
        assert_int_equal(rc, 0);
        assert_string_equal(r.settings.redis.url, "redis://127.0.0.1");
        assert_int_equal(r.settings.workers, 32);
        for (size_t o = 0; o < r.conf.n; o++)
            assert_int_equal(r.conf.source[o], CONF_DEFAULT);
        conf_deinit(&r.conf);
    }
}

static void test_what_conf_dumps_can_be_read(void **state)
{
    (void)state;
    struct run r, again;
    assert_int_equal(load(&r, "worker: {count: 5}", 18), 0);
    struct strbuf text;
    strbuf_init(&text, 1 << 16);
    conf_dump(&r.conf, &text);
    int rc = load(&again, text.ptr, text.len);
    assert_string_equal(again.err, "");
    assert_int_equal(rc, 0);
    assert_string_equal(r.settings.redis.url, again.settings.redis.url);
    assert_int_equal(again.settings.workers, 5);
    assert_int_equal(again.settings.memory, 1 << 20);
    strbuf_deinit(&text);
    conf_deinit(&r.conf);
    conf_deinit(&again.conf);
}

/* at: "line:column", and a part of the message. */
static void test_errors_with_line_and_column(void **state)
{
    (void)state;
    static const struct {
        const char *text, *at, *what;
    } rows[] = {
        /* names */
        {"redis:\n  urll: x\n", ":2:3:", "urll"},
        {"rediss:\n  url: x\n", ":1:1:", "rediss"},
        {"worker: {count: 1}\nother: 1\n", ":2:1:", "other"},
        {"redis:\n  url:\n    deeper: 1\n", ":2:3:", "redis.url"},
        {"redis: 5\n", ":1:8:", "redis is a section"},
        {"redis.url: x\n", ":1:1:", "nested"},
        {"REDIS:\n  url: x\n", ":1:1:", "REDIS"},
        {"\"\": 1\n", ":1:1:", "plain word"},
        {"? {a: b}\n: 1\n", ":1:3:", "plain word"},
        {"? [a]\n: 1\n", ":1:3:", "lists"},
        {"<<: {a: 1}\n", ":1:1:", "<<"},
        /* values */
        {"worker:\n  count: many\n", ":2:10:", "worker.count"},
        {"worker:\n  count: 0\n", ":2:10:", "worker.count"},
        {"worker:\n  count: 257\n", ":2:10:", "worker.count"},
        {"worker:\n  count: 1.5\n", ":2:10:", "worker.count"},
        {"worker:\n  count:\n", ":2:9:", "worker.count"},
        {"worker:\n  mode: stric\n", ":2:9:", "worker.mode"},
        {"redis:\n  timeout: 90\n", ":2:12:", "redis.timeout"},
        {"redis:\n  timeout: 1us\n", ":2:12:", "redis.timeout"},
        {"redis:\n  tls:\n    on: maybe\n", ":3:9:", "redis.tls.on"},
        {"redis:\n  url: \"a\\0b\"\n", ":2:8:", "zero byte"},
        {"redis:\n  url: \"\"\n", ":2:8:", "redis.url"},
        /* twice */
        {"worker:\n  count: 1\n  count: 1\n", ":3:3:", "worker.count comes twice"},
        {"worker:\n  count: 1\nredis:\n  url: x\nworker:\n  mode: strict\n",
         ":5:1:", "worker comes twice"},
        /* what a table of settings has no use for */
        {"worker:\n  count: [1, 2]\n", ":2:10:", "lists"},
        {"worker:\n  - count: 1\n", ":2:3:", "lists"},
        {"- worker\n", ":1:1:", "lists"},
        {"worker: &a\n  count: 1\n", ":1:9:", "anchors"},
        {"worker:\n  count: &a 1\n", ":2:10:", "anchors"},
        {"worker:\n  &a count: 1\n", ":2:3:", "anchors"},
        {"worker: *a\n", ":1:9:", "alias"},
        {"worker:\n  count: !!int 1\n", ":2:10:", "tags"},
        {"worker: !x\n  count: 1\n", ":1:9:", "tags"},
        {"worker: {count: 1}\n---\nworker: {count: 2}\n", ":2:1:", "second document"},
        {"just text\n", ":1:1:", "section"},
        {"~\n", ":1:1:", "section"},
        /* no YAML */
        {"worker:\n\tcount: 1\n", ":2:1:", "character"},
        {"worker:\n  count: 1\n mode: strict\n", ":3:2:", "expected"},
        {"worker: {count: 1\n", ":2:1:", "expected"},
        {"worker: \"open\n", ":2:1:", "unexpected end"},
        {"redis:\n  url: 'a' b\n", ":2:12:", "expected"},
        {"redis:\n  url: b: c\n", ":2:9:", "not allowed"},
        {"worker:\n  count: \x01\n", ":2:10:", "control characters"},
        {"worker:\n  count: \xff\n", ":2:10:", "UTF-8"},
        {"%YAML 9.9\n---\nworker: {}\n", ":1:1:", "incompatible"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct run r;
        int rc = load(&r, rows[i].text, strlen(rows[i].text));
        size_t n = strlen(r.path);
        bool right = rc == ERR_INVALID && strncmp(r.err, r.path, n) == 0 &&
                     strncmp(r.err + n, rows[i].at, strlen(rows[i].at)) == 0 &&
                     strstr(r.err + n, rows[i].what);
        if (!right)
            print_error("row %zu: rc %d: %s\n%s", i, rc, r.err, rows[i].text);
        assert_true(right);
        conf_deinit(&r.conf);
    }
}

static void test_every_cut_is_harmless(void **state)
{
    (void)state;
    static const char text[] = "redis: {url: \"a\\u00e9\", tls: {on: yes}}\nworker:\n  count: 8\n";
    for (size_t n = 0; n < sizeof text; n++) {
        struct run r;
        int rc = load(&r, text, n);
        assert_true(rc == 0 || (rc == ERR_INVALID && r.err[0]));
        conf_deinit(&r.conf);
    }
}

static void test_bounds(void **state)
{
    (void)state;
    static char text[300 * 1024];
    struct run r;
    /* Deep and wide. */
    memset(text, '{', sizeof text);
    assert_int_equal(load(&r, text, 10000), ERR_INVALID);
    conf_deinit(&r.conf);
    memset(text, '[', sizeof text);
    assert_int_equal(load(&r, text, 10000), ERR_INVALID);
    conf_deinit(&r.conf);
    memset(text, '#', sizeof text);
    assert_int_equal(load(&r, text, 200 * 1024), 0);
    conf_deinit(&r.conf);
    assert_int_equal(load(&r, text, sizeof text), ERR_INVALID);
    assert_non_null(strstr(r.err, "larger than"));
    conf_deinit(&r.conf);
    memset(text, 'k', sizeof text);
    assert_int_equal(load(&r, text, 100000), ERR_INVALID);
    conf_deinit(&r.conf);
}

static void test_no_file(void **state)
{
    (void)state;
    struct run r;
    conf_init(&r.conf, options, sizeof options / sizeof *options, &r.settings);
    assert_int_equal(yaml_conf_load(&r.conf, "/tmp/no-such-file.yaml", r.err, sizeof r.err),
                     ERR_NOTFOUND);
    assert_string_equal(r.err, "/tmp/no-such-file.yaml: No such file or directory");
    assert_int_equal(yaml_conf_load(&r.conf, "/tmp", r.err, sizeof r.err), ERR_INVALID);
    assert_string_equal(r.err, "/tmp: Is a directory");
    char tiny[6];
    assert_int_equal(yaml_conf_load(&r.conf, "/tmp", tiny, sizeof tiny), ERR_INVALID);
    assert_string_equal(tiny, "/tmp:");
    conf_deinit(&r.conf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_everything_set),
        cmocka_unit_test(test_what_is_not_there_stays),
        cmocka_unit_test(test_what_conf_dumps_can_be_read),
        cmocka_unit_test(test_errors_with_line_and_column),
        cmocka_unit_test(test_every_cut_is_harmless),
        cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_no_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
