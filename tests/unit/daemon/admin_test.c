/* The admin port on a loop of its own thread, asked over a socket. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/metric.h"
#include "daemon/admin.h"
#include <arpa/inet.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

static const struct conf_option options[] = {
    {"a.word", CONF_STRING, 0, "hello", 0, 100, .help = "a word"},
    {"a.secret", CONF_STRING, CONF_STRING_MAX, "hunter2", 0, 100, .secret = true, .help = "x"},
};

static struct {
    char words[2][CONF_STRING_MAX];
    struct conf conf;
    struct loop *loop;
    struct admin *admin;
    struct admin_check check[2], *checks[2];
    struct loop_task task;
    struct loop_post call;
    sem_t done;
    void (*fn)(void);
    pthread_t thread;
    atomic_int runs;
    int rc;
    bool hold; /* the first check's answer is held back */
} f;

static void on_task(struct loop_task *t)
{
    (void)t;
    admin_check_done(&f.check[0], f.rc, f.rc ? "it is \"down\"" : NULL);
}

static void start_first(struct admin_check *c)
{
    (void)c;
    atomic_fetch_add(&f.runs, 1);
    if (!f.hold)
        loop_defer(f.loop, &f.task);
}

static struct loop_task second;
static void on_second(struct loop_task *t)
{
    (void)t;
    admin_check_done(&f.check[1], 0, NULL);
}

static void start_second(struct admin_check *c)
{
    (void)c;
    loop_defer(f.loop, &second);
}

static void on_call(struct loop_post *p)
{
    (void)p;
    f.fn();
    sem_post(&f.done);
}

/* On the loop's thread. */
static void call(void (*fn)(void))
{
    f.fn = fn;
    loop_post(f.loop, &f.call);
    sem_wait(&f.done);
}

static void *run(void *arg)
{
    loop_run(arg);
    return NULL;
}

static void start(const char *token_file)
{
    char err[256] = "";
    memset(&f, 0, sizeof(f));
    conf_init(&f.conf, options, 2, f.words);
    f.loop = loop_new();
    f.check[0] = (struct admin_check){.name = "first", .start = start_first};
    f.check[1] = (struct admin_check){.name = "second", .start = start_second};
    f.checks[0] = &f.check[0];
    f.checks[1] = &f.check[1];
    list_init(&f.task.link);
    f.task.on_run = on_task;
    list_init(&second.link);
    second.on_run = on_second;
    f.call.on_run = on_call;
    sem_init(&f.done, 0, 0);
    struct admin_config c = {"127.0.0.1:0", token_file, &f.conf, f.checks, 2};
    f.admin = admin_new(f.loop, &c, err, sizeof(err));
    if (!f.admin)
        fail_msg("%s", err);
    assert_int_equal(pthread_create(&f.thread, NULL, run, f.loop), 0);
}

static void stop(void)
{
    loop_stop(f.loop);
    pthread_join(f.thread, NULL);
    admin_free(f.admin);
    loop_free(f.loop);
    conf_deinit(&f.conf);
    sem_destroy(&f.done);
}

static int ask(const char *path, const char *header)
{
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_port = htons((uint16_t)admin_port(f.admin)),
                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    char request[512];
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof(a)), 0);
    int n = snprintf(request, sizeof(request),
                     "GET %s HTTP/1.1\r\nHost: x\r\n%sConnection: close\r\n\r\n", path, header);
    assert_int_equal(write(fd, request, (size_t)n), n);
    return fd;
}

static char answer[1 << 20];
static int hear(int fd)
{
    size_t len = 0;
    ssize_t n;
    while ((n = read(fd, answer + len, sizeof(answer) - 1 - len)) > 0)
        len += (size_t)n;
    answer[len] = 0;
    close(fd);
    return atoi(answer + sizeof("HTTP/1.1"));
}

static int get(const char *path)
{
    return hear(ask(path, ""));
}

static void assert_says(const char *text)
{
    if (!strstr(answer, text))
        fail_msg("not said: %s in: %s", text, answer);
}

static void started(void)
{
    admin_set_started(f.admin);
}
static void draining(void)
{
    admin_set_draining(f.admin);
}
static void finish_first(void)
{
    admin_check_done(&f.check[0], 0, NULL);
}
static void make_stale(void)
{
    f.check[0].at_us -= 300000;
    f.check[1].at_us -= 300000;
}

static void test_probes(void **state)
{
    (void)state;
    start(NULL);
    assert_int_equal(get("/livez"), 200);
    assert_int_equal(get("/startupz"), 503);
    call(started);
    assert_int_equal(get("/startupz"), 200);
    assert_int_equal(get("/readyz"), 200);
    assert_int_equal(get("/nosuch"), 404);
    f.rc = ERR_UNAVAIL;
    call(make_stale);
    assert_int_equal(get("/readyz"), 503);
    assert_says("{\"status\":\"not ready\",\"failed\":[{\"check\":\"first\",\"why\":\"it is "
                "\\\"down\\\"\"}]}");
    f.rc = 0;
    call(make_stale);
    assert_int_equal(get("/readyz"), 200);
    call(draining);
    assert_int_equal(get("/readyz"), 503);
    assert_says("draining");
    assert_int_equal(get("/livez"), 200);
    stop();
}

static void test_result_is_cached_and_shared(void **state)
{
    int fds[8];
    (void)state;
    start(NULL);
    f.hold = true;
    for (int i = 0; i < 8; i++)
        fds[i] = ask("/readyz", "");
    while (atomic_load(&f.runs) == 0)
        usleep(1000);
    close(fds[7]); /* one of those who wait leaves */
    assert_int_equal(get("/livez"), 200);
    call(finish_first);
    for (int i = 0; i < 7; i++)
        assert_int_equal(hear(fds[i]), 200);
    assert_int_equal(atomic_load(&f.runs), 1); /* one check for all of them */
    f.hold = false;
    stop();
}

static void test_metrics_and_config(void **state)
{
    (void)state;
    start(NULL);
    metric_add(metric_counter("seckill_admin_test_total", "x", NULL), 7);
    assert_int_equal(get("/metrics"), 200);
    assert_says("Content-Type: text/plain; version=0.0.4");
    assert_says("\nseckill_admin_test_total 7\n");
    assert_int_equal(get("/config"), 200);
    assert_says("hello");
    assert_null(strstr(answer, "hunter2"));
    stop();
}

static void test_token(void **state)
{
    char path[] = "/tmp/seckill-token-XXXXXX";
    int fd = mkstemp(path);
    (void)state;
    assert_int_equal(write(fd, "0123456789abcdef\n", 17), 17);
    close(fd);
    start(path);
    assert_int_equal(get("/livez"), 200);
    assert_int_equal(get("/readyz"), 200);
    assert_int_equal(get("/metrics"), 401);
    assert_says("WWW-Authenticate: Bearer");
    assert_int_equal(get("/config"), 401);
    static const char *const wrong[] = {"0123456789abcdeX", "0123456789abcde", "",
                                        "0123456789abcdef0123456789abcdef"};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        char header[128];
        snprintf(header, sizeof(header), "Authorization: Bearer %s\r\n", wrong[i]);
        assert_int_equal(hear(ask("/metrics", header)), 401);
    }
    assert_int_equal(hear(ask("/metrics", "Authorization: Basic 0123456789abcdef\r\n")), 401);
    assert_int_equal(hear(ask("/metrics", "Authorization: bearer 0123456789abcdef\r\n")), 200);
    stop();
    unlink(path);
}

static void test_refuses_to_listen_to_everybody_without_a_token(void **state)
{
    static const char *const open[] = {":0", "0.0.0.0:0", "[::]:0", "192.0.2.1:80"};
    (void)state;
    struct loop *l = loop_new();
    for (size_t i = 0; i < sizeof(open) / sizeof(open[0]); i++) {
        char err[256] = "";
        struct admin_config c = {.listen = open[i], .token_file = ""};
        assert_null(admin_new(l, &c, err, sizeof(err)));
        assert_non_null(strstr(err, "not on loopback"));
    }
    struct admin_config c = {.listen = "127.0.0.1:0", .token_file = "/nonexistent"};
    char err[256] = "";
    assert_null(admin_new(l, &c, err, sizeof(err)));
    loop_free(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_probes),
        cmocka_unit_test(test_result_is_cached_and_shared),
        cmocka_unit_test(test_metrics_and_config),
        cmocka_unit_test(test_token),
        cmocka_unit_test(test_refuses_to_listen_to_everybody_without_a_token),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
