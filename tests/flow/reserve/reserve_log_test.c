/* The lines that a request leaves, with the fields of seed 000 §12.1. */
#include "reserve_fixture.h"

#include "base/log.h"
#include <sys/mman.h>
#include <unistd.h>

static int log_fd;

static const char *logged(void)
{
    static char text[16384];
    ssize_t n = pread(log_fd, text, sizeof text - 1, 0);
    assert_true(n >= 0);
    text[n] = 0;
    assert_int_equal(ftruncate(log_fd, 0), 0);
    assert_int_equal(lseek(log_fd, 0, SEEK_SET), 0);
    return text;
}

static void expect(const char *line, const char *const *parts, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (!strstr(line, parts[i]))
            fail_msg("no %s in %s", parts[i], line);
    }
}
#define EXPECT(line, ...)                                                                          \
    expect(line, (const char *const[]){__VA_ARGS__},                                               \
           sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *))

#define TRACE "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

static void submit(struct fixture *f, int64_t user)
{
    struct reserve_request q = fixture_request(f, user, 1);
    q.traceparent = STR(TRACE);
    assert_int_equal(reserve_submit(&f->pool, &q, f, NULL), RESERVE_STARTED);
    fixture_run_ms(f, 100);
}

static void test_unknown(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f, 1, 4);
    mem_faults_add(mem_stock_faults(f.stock), MEM_STOCK_RESERVE, 0, MEM_FAULT_REPLY_LOST, 0);
    submit(&f, 7);
    const char *line = logged();
    EXPECT(line, "\"level\":\"warn\"", "\"msg\":\"outcome of a hold is unknown\"",
           "\"request_id\":\"", "\"reservation_id\":\"", "\"message_id\":\"",
           "\"order_id\":", "\"user_id\":7,",
           "\"activity_id\":", "\"sku_id\":", "\"trace_id\":\"4bf92f3577b34da6a3ce929d0e0e4736\"",
           "\"outcome\":\"TIMEOUT\"", "\"error_kind\":\"ERR_UNCERTAIN\"", "\"retryable\":true",
           "\"retry_attempt\":1,", "\"duration_ms\":2,", "\"suppressed\":0}");
    submit(&f, 8); /* the same second: counted, not written */
    assert_string_equal(logged(), "");
    fixture_deinit(&f);
}

static void test_answered(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f, 1, 4);
    submit(&f, 7);
    assert_string_equal(logged(), ""); /* not at the level of every day */
    log_setup("test", "1", LOG_DEBUG);
    submit(&f, 8);
    EXPECT(logged(), "\"msg\":\"order request answered\"", "\"user_id\":8,",
           "\"outcome\":\"SOLD_OUT\"", "\"retryable\":false", "\"retry_attempt\":0,",
           "\"error_kind\":null");
    log_setup("test", "1", LOG_INFO);
    fixture_deinit(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unknown),
        cmocka_unit_test(test_answered),
    };
    log_fd = memfd_create("log", MFD_CLOEXEC);
    log_to_fd(log_fd);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
