/* What the settings say together: a queue that cannot work is told at once, with what is wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "adapter/rocketmq/names.h"
#include "base/err.h"
#include "daemon/settings.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct settings settings;
static char dir[] = "/tmp/seckill-settings-XXXXXX";

static const char *file(const char *name, const char *text)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "we");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
    return path;
}

/* "name=value name=value …" over the defaults. */
static struct conf load(const char *text)
{
    struct conf c;
    char err[512];
    memset(&settings, 0, sizeof settings);
    conf_init(&c, settings_table, settings_table_len, &settings);
    struct str rest = str_of(text), word, name;
    while (rest.len) {
        rest = str_split(rest, ' ', &word);
        struct str value = str_split(word, '=', &name);
        if (conf_set(&c, CONF_FLAG, name, value, err, sizeof err) < 0)
            fail_msg("%s", err);
    }
    return c;
}

static void check(const char *text, bool files, const char *complaint)
{
    char err[1024] = "";
    struct conf c = load(text);
    int rc = settings_check(&settings, files, err, sizeof err);
    conf_deinit(&c);
    if (!complaint && rc == 0)
        return;
    if (!complaint || rc != ERR_INVALID || !strstr(err, complaint))
        fail_msg("%s: \"%s\", expected \"%s\"", text, err, complaint ? complaint : "");
}

#define MQ "queue.kind=rocketmq rocketmq.endpoints=127.0.0.1:8081 "

static void test_what_goes_together(void **state)
{
    (void)state;
    check("", true, NULL);
    check(MQ, true, NULL);
    check(MQ "rocketmq.endpoints=a:1,b:2,[::1]:3 rocketmq.namesrv=a:9876,b:9876", true, NULL);
    check(MQ "rocketmq.endpoint_map=10.0.0.1:8081=127.0.0.1:9000,b:2=c:3", true, NULL);
    check("queue.kind=rocketmq", false, "rocketmq.endpoints: required");
    static const char *const no_addresses[] = {"a",    ":1",  "a:",    "a:0",       "a:70000",
                                               "a:1,", "a:x", "::1:2", "http://a:1"};
    for (size_t i = 0; i < sizeof no_addresses / sizeof no_addresses[0]; i++) {
        char text[256];
        snprintf(text, sizeof text, MQ "rocketmq.endpoints=%s", no_addresses[i]);
        /* a comma at the end leaves nothing to read */
        check(text, false, strcmp(no_addresses[i], "a:1,") == 0 ? NULL : "rocketmq.endpoints: \"");
    }
    check(MQ "rocketmq.endpoint_map=a:1", false, "rocketmq.endpoint_map: \"a:1\"");
    check(MQ "rocketmq.endpoint_map=a=b:1", false, "rocketmq.endpoint_map: \"a=b:1\"");
    check(MQ "rocketmq.namesrv=a", false, "rocketmq.namesrv: \"a\"");
    check(MQ "rocketmq.access_key=a", false, "only the first is set");
    check(MQ "rocketmq.secret_key_file=/x", false, "only the second is set");
    check(MQ "rocketmq.access_key=a/b rocketmq.secret_key_file=/x", false, "no '/'");
    check(MQ "rocketmq.access_key=a,b rocketmq.secret_key_file=/x", false, "no '/'");
    check(MQ "rocketmq.access_key=\x7f rocketmq.secret_key_file=/x", false, "rocketmq.access_key:");
    check(MQ "rocketmq.topic=a.b", false, "rocketmq.topic: \"a.b\"");
    check(MQ "rocketmq.group=a/b", false, "rocketmq.group: \"a/b\"");
    check(MQ "rocketmq.dead_group=a\tb", false, "rocketmq.dead_group: \"a\tb\"");
    check(MQ "rocketmq.topic=%a|B_1-", false, NULL);
    check(MQ "rocketmq.ca_file=/x", false, "rocketmq.tls is false");
    check(MQ "rocketmq.dead_group=seckill-order-create-v1", false, "another group");
    char err[512] = "";
    struct conf c = load(MQ);
    str_copy(settings.rocketmq.topic, sizeof settings.rocketmq.topic, STR("a b"));
    assert_int_equal(settings_check(&settings, false, err, sizeof err), ERR_INVALID);
    assert_non_null(strstr(err, "rocketmq.topic: \"a b\""));
    conf_deinit(&c);
    /* What is not in use may be half written. */
    check("rocketmq.access_key=a rocketmq.ca_file=/x", true, NULL);
}

static void test_files(void **state)
{
    (void)state;
    char text[512];
    const char *path = "/nonexistent/secret";
    snprintf(text, sizeof text, MQ "rocketmq.access_key=a rocketmq.secret_key_file=%s", path);
    check(text, false, NULL); /* a program that does not need it goes on */
    check(text, true, "rocketmq.secret_key_file: /nonexistent/secret: No such file");
    snprintf(text, sizeof text, MQ "rocketmq.access_key=a rocketmq.secret_key_file=%s",
             file("empty", "\nsecond"));
    check(text, true, "its first line is empty");
    snprintf(text, sizeof text, MQ "rocketmq.access_key=a rocketmq.secret_key_file=%s",
             file("good", "s3cret\n"));
    check(text, true, NULL);
    char secret[RMQ_SECRET_KEY_MAX + 2] = "";
    memset(secret, 's', RMQ_SECRET_KEY_MAX);
    snprintf(text, sizeof text, MQ "rocketmq.access_key=a rocketmq.secret_key_file=%s",
             file("longest", secret));
    check(text, true, NULL);
    secret[RMQ_SECRET_KEY_MAX] = 's';
    snprintf(text, sizeof text, MQ "rocketmq.access_key=a rocketmq.secret_key_file=%s",
             file("too-long", secret));
    check(text, true, "too long for a secret");
    check(MQ "rocketmq.tls=true rocketmq.ca_file=/nonexistent.pem", true,
          "rocketmq.ca_file: /nonexistent.pem");
}

static void test_secret(void **state)
{
    (void)state;
    static const struct {
        const char *text, *secret;
    } rows[] = {
        {"s3cret", "s3cret"},
        {"s3cret\n", "s3cret"},
        {"s3cret\r\n", "s3cret"},
        {"s3cret\nnot this\n", "s3cret"},
        {"with space ", "with space "},
        {"", NULL},
        {"1234567890123456", NULL}, /* does not fit: never cut short in silence */
        {"123456789012345\n", "123456789012345"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char secret[17], err[512];
        struct conf c = load("");
        str_copy(settings.rocketmq.secret_key_file, sizeof settings.rocketmq.secret_key_file,
                 str_of(file("secret", rows[i].text)));
        int rc = settings_secret_key(&settings, secret, sizeof secret, err, sizeof err);
        conf_deinit(&c);
        assert_int_equal(rc, rows[i].secret ? 0 : ERR_INVALID);
        assert_string_equal(secret, rows[i].secret ? rows[i].secret : "");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_goes_together),
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_secret),
    };
    if (!mkdtemp(dir))
        return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    static const char *const files[] = {"empty", "good", "secret"};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        char path[128];
        snprintf(path, sizeof path, "%s/%s", dir, files[i]);
        unlink(path);
    }
    rmdir(dir);
    return failed;
}
