#include "base/metric.h"
#include "unit.h"
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

static char page[1 << 20];

/* The whole page as a C string. */
static const char *render(void)
{
    struct strbuf b;
    strbuf_init_fixed(&b, page, sizeof page - 1);
    metric_render(&b);
    assert_false(b.failed);
    page[b.len] = 0;
    return page;
}

static void contains(const char *text)
{
    if (!strstr(render(), text))
        fail_msg("not there: %s\nin:\n%s", text, page);
}

static int count(const char *text, const char *part)
{
    int n = 0;
    for (const char *at = text; (at = strstr(at, part)); at += strlen(part))
        n++;
    return n;
}

static void test_counter(void **state)
{
    (void)state;
    struct metric *a = metric_counter("orders_total", "Orders.\nBy \\ outcome.", "outcome=\"ok\"");
    struct metric *other = metric_counter("between_total", "", NULL);
    struct metric *b = metric_counter("orders_total", "ignored", "outcome=\"bad\",why=\"a\\\"b\"");
    assert_ptr_equal(a, metric_counter("orders_total", "again", "outcome=\"ok\""));
    assert_ptr_not_equal(a, b);
    metric_add(a, 3);
    metric_add(a, 4);
    metric_add(b, 1);
    metric_add(other, UINT64_C(1) << 60);
    assert_int_equal(metric_value(a), 7);
    /* A family stands together, in the order of its first registration. */
    contains("# HELP orders_total Orders.\\nBy \\\\ outcome.\n"
             "# TYPE orders_total counter\n"
             "orders_total{outcome=\"ok\"} 7\n"
             "orders_total{outcome=\"bad\",why=\"a\\\"b\"} 1\n"
             "# HELP between_total \n"
             "# TYPE between_total counter\n"
             "between_total 1152921504606846976\n");
    assert_int_equal(count(page, "# TYPE orders_total"), 1);
}

static void test_gauge(void **state)
{
    (void)state;
    struct metric *g = metric_gauge("lag", "Messages waiting.", NULL);
    contains("# TYPE lag gauge\n");
    assert_null(strstr(page, "\nlag ")); /* unknown is never zero */
    metric_set(g, -5);
    contains("\nlag -5\n");
    metric_gauge_add(g, 7);
    contains("\nlag 2\n");
    assert_int_equal(metric_value(g), 2);
    metric_set_unknown(g);
    assert_null(strstr(render(), "\nlag "));
    metric_set(g, 0);
    contains("\nlag 0\n");
    struct metric *in_flight = metric_gauge("in_flight", "", NULL);
    metric_gauge_add(in_flight, 1);
    metric_gauge_add(in_flight, -1);
    contains("\nin_flight 0\n");
}

static void test_histogram(void **state)
{
    (void)state;
    struct metric *h = metric_histogram("wait_seconds", "Time.", "lane=\"1\"", NULL, 0);
    metric_observe_us(h, 100); /* a bound belongs to its bucket */
    metric_observe_us(h, 101);
    metric_observe_us(h, -3); /* a clock that went back is no time */
    metric_observe_us(h, 11000000);
    contains("# TYPE wait_seconds histogram\n"
             "wait_seconds_bucket{lane=\"1\",le=\"0.0001\"} 2\n"
             "wait_seconds_bucket{lane=\"1\",le=\"0.00025\"} 3\n"
             "wait_seconds_bucket{lane=\"1\",le=\"0.0005\"} 3\n"
             "wait_seconds_bucket{lane=\"1\",le=\"0.001\"} 3\n"
             "wait_seconds_bucket{lane=\"1\",le=\"0.0025\"} 3\n"
             "wait_seconds_bucket{lane=\"1\",le=\"0.005\"} 3\n"
             "wait_seconds_bucket{lane=\"1\",le=\"0.01\"} 3\n"
             "wait_seconds_bucket{lane=\"1\",le=\"0.025\"} 3\n"
             "wait_seconds_bucket{lane=\"1\",le=\"0.05\"} 3\n"
             "wait_seconds_bucket{lane=\"1\",le=\"0.1\"} 3\n"
             "wait_seconds_bucket{lane=\"1\",le=\"0.25\"} 3\n"
             "wait_seconds_bucket{lane=\"1\",le=\"0.5\"} 3\n"
             "wait_seconds_bucket{lane=\"1\",le=\"1\"} 3\n"
             "wait_seconds_bucket{lane=\"1\",le=\"2.5\"} 3\n"
             "wait_seconds_bucket{lane=\"1\",le=\"5\"} 3\n"
             "wait_seconds_bucket{lane=\"1\",le=\"10\"} 3\n"
             "wait_seconds_bucket{lane=\"1\",le=\"+Inf\"} 4\n"
             "wait_seconds_sum{lane=\"1\"} 11.000201\n"
             "wait_seconds_count{lane=\"1\"} 4\n");
    assert_int_equal(metric_value(h), 4);

    static const double sizes[] = {1, 2, 4.5};
    struct metric *batch = metric_histogram("batch_size", "", NULL, sizes, 3);
    metric_observe(batch, 2);
    metric_observe(batch, 1e6);
    metric_observe(batch, strtod("nan", NULL));
    contains("batch_size_bucket{le=\"1\"} 0\n"
             "batch_size_bucket{le=\"2\"} 1\n"
             "batch_size_bucket{le=\"4.5\"} 1\n"
             "batch_size_bucket{le=\"+Inf\"} 2\n"
             "batch_size_sum 1000002\n"
             "batch_size_count 2\n");
}

static void *hammer(void *arg)
{
    struct metric **m = arg;
    for (int i = 0; i < 20000; i++) {
        metric_add(m[0], 1);
        metric_observe_us(m[1], 1000);
        metric_gauge_add(m[2], 1);
        if (i % 5000 == 0)
            assert_ptr_equal(metric_counter("hammer_total", "", NULL), m[0]);
    }
    return NULL;
}

/* More threads than shards: nothing is lost, and rendering meanwhile is safe. */
static void test_threads(void **state)
{
    (void)state;
    struct metric *m[] = {
        metric_counter("hammer_total", "", NULL),
        metric_histogram("hammer_seconds", "", NULL, NULL, 0),
        metric_gauge("hammer", "", NULL),
    };
    pthread_t threads[20];
    for (int i = 0; i < 20; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, hammer, m), 0);
    for (int i = 0; i < 20; i++)
        render();
    for (int i = 0; i < 20; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(metric_value(m[0]), 400000);
    assert_int_equal(metric_value(m[1]), 400000);
    assert_int_equal(metric_value(m[2]), 400000);
    const char *sum = strstr(render(), "hammer_seconds_sum ");
    assert_non_null(sum);
    double v = strtod(sum + 19, NULL);
    assert_true(v > 399.9999 && v < 400.0001);
}

static double process_value(const char *name)
{
    char line[100];
    snprintf(line, sizeof line, "\n%s ", name);
    const char *at = strstr(render(), line);
    if (!at)
        fail_msg("no %s", name);
    return strtod(at + strlen(line), NULL);
}

static void test_process(void **state)
{
    (void)state;
    assert_true(process_value("process_cpu_seconds_total") > 0);
    assert_true(process_value("process_resident_memory_bytes") > 100000);
    double started = process_value("process_start_time_seconds"), now = (double)time(NULL);
    assert_true(started > now - 600 && started < now + 2);
    assert_true(process_value("process_start_time_seconds") == started);
    assert_true(process_value("process_threads") >= 1);
    double before = process_value("process_open_fds");
    int fd = dup(0);
    assert_true(fd >= 0);
    assert_true(process_value("process_open_fds") == before + 1);
    close(fd);
    assert_true(process_value("process_open_fds") == before);
}

static void bad_name(void)
{
    metric_counter("1st", "", NULL);
}
static void empty_name(void)
{
    metric_counter("", "", NULL);
}
static void other_type(void)
{
    metric_counter("twice", "", NULL);
    metric_gauge("twice", "", "a=\"b\"");
}
static void other_bounds(void)
{
    static const double a[] = {1, 2}, b[] = {1, 3};
    metric_histogram("hist", "", NULL, a, 2);
    metric_histogram("hist", "", "a=\"b\"", b, 2);
}
static void unsorted_bounds(void)
{
    static const double a[] = {1, 1};
    metric_histogram("hist", "", NULL, a, 2);
}
static void wrong_use(void)
{
    metric_add(metric_gauge("gauge", "", NULL), 1);
}
static void too_many(void)
{
    for (int i = 0; i < 1025; i++) {
        char labels[32];
        snprintf(labels, sizeof labels, "n=\"%d\"", i);
        metric_counter("many_total", "", labels);
    }
}
static const char *ill_labels;
static void bad_labels(void)
{
    metric_histogram("labels", "", ill_labels, NULL, 0);
}

static void test_bugs_abort(void **state)
{
    (void)state;
    assert_true(unit_aborts(bad_name));
    assert_true(unit_aborts(empty_name));
    assert_true(unit_aborts(other_type));
    assert_true(unit_aborts(other_bounds));
    assert_true(unit_aborts(unsorted_bounds));
    assert_true(unit_aborts(wrong_use));
    assert_true(unit_aborts(too_many));
    static const char *const ill[] = {"a",        "a=b",      "a=\"b",          "a=\"b\",",
                                      "a=\"b\"x", "1=\"b\"",  "a=\"b\"c=\"d\"", "a=\"\\x\"",
                                      "a=\"\n\"", "le=\"1\"", ",a=\"b\"",       "a=\"\\"};
    for (size_t i = 0; i < sizeof ill / sizeof *ill; i++) {
        ill_labels = ill[i];
        if (!unit_aborts(bad_labels))
            fail_msg("taken: %s", ill[i]);
    }
    ill_labels = "a=\"b\",c=\"\\\\\\\"\\n\"";
    assert_false(unit_aborts(bad_labels));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counter),   cmocka_unit_test(test_gauge),
        cmocka_unit_test(test_histogram), cmocka_unit_test(test_threads),
        cmocka_unit_test(test_process),   cmocka_unit_test(test_bugs_abort),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
