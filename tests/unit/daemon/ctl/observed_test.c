/* What is kept of a file about the programs, and what is refused. */
#include "daemon/ctl/observed.h"

#include "base/err.h"
#include "unit.h"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static struct observed o;
static char err[256];

static int read_text(const char *text)
{
    char path[] = "/tmp/ctl-observed-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    close(fd);
    observed_deinit(&o);
    int rc = observed_read(&o, path, err, sizeof(err));
    unlink(path);
    return rc;
}

#define METRICS(program, life, more)                                                               \
    "{\"t\":5,\"type\":\"metrics\",\"program\":\"" program                                         \
    "\",\"instance\":\"i\",\"life\":\"" life "\"" more "}\n"
#define VALUES(text) ",\"values\":{" text "}"

static void keeps_the_last_and_the_most(void **state)
{
    (void)state;
    assert_int_equal(read_text(METRICS("a", "1", VALUES("\"m\":3,\"m{x=\\\"1\\\"}\":2,\"mm\":9"))
                                   METRICS("a", "1", VALUES("\"m\":1") ",\"final\":true")
                                       METRICS("a", "2", VALUES("\"m\":4.5e1"))
                                           METRICS("b", "1", VALUES("\"m\":100"))),
                     0);
    assert_int_equal(o.n_lives, 3);
    assert_int_equal(o.snapshots, 4);
    assert_true(o.lives[0].final && !o.lives[1].final);
    assert_true(observed_sum_of(&o, 0, "m") == 3);
    assert_true(o.series[0].most == 3 && o.series[0].last == 1);
    assert_true(observed_sum(&o, "a", "m") == 48);
    assert_true(observed_sum(&o, "a", "m{x=\"1\"}") == 2);
    assert_true(observed_sum(&o, "", "m") == 148);
    assert_true(observed_sum(&o, "c", "m") == 0);
}

static void counts_faults_and_injections(void **state)
{
    (void)state;
    assert_int_equal(
        read_text("{\"t\":7,\"type\":\"fault\",\"what\":\"x\"}\n{\"t\":6,\"type\":\"fault\"}\n"
                  "{\"t\":1,\"type\":\"injected\",\"metric\":\"m\",\"count\":3}\n"
                  "{\"t\":1,\"type\":\"injected\",\"metric\":\"m\",\"count\":4,\"is\":\"at_most\","
                  "\"program\":\"a\",\"other\":[{}]}\n"),
        0);
    assert_int_equal(o.faults, 2);
    assert_int_equal(o.last_fault_us, 7);
    assert_int_equal(o.n_injections, 2);
    assert_true(o.injections[0].is == OBSERVED_EQUAL && o.injections[0].count == 3);
    assert_true(o.injections[1].is == OBSERVED_AT_MOST);
    assert_string_equal(o.injections[1].program, "a");
}

static void refuses_what_it_does_not_understand(void **state)
{
    static const char *const lines[] = {
        "nonsense\n",
        "{}\n",
        "{\"t\":1,\"type\":\"other\"}\n",
        "{\"t\":\"1\",\"type\":\"fault\"}\n",
        "{\"t\":1,\"type\":\"injected\",\"metric\":\"m\"}\n",
        "{\"t\":1,\"type\":\"injected\",\"metric\":\"m\",\"count\":1,\"is\":\"about\"}\n",
        "{\"t\":1,\"type\":\"injected\",\"count\":1}\n",
        METRICS("a", "1", ""),
        METRICS("a", "1", ",\"values\":3"),
        METRICS("a", "1", VALUES("\"m\":\"3\"")),
        METRICS("", "1", VALUES("\"m\":3")),
        METRICS("a", "1", ",\"final\":1" VALUES("\"m\":3")),
    };
    (void)state;
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        if (read_text(lines[i]) != ERR_INVALID)
            fail_msg("taken: %s", lines[i]);
        assert_non_null(strstr(err, ":1: not understood"));
    }
    assert_int_equal(observed_read(&o, "/nowhere", err, sizeof(err)), ERR_UNAVAIL);
    assert_int_equal(read_text("{\"t\":1,\"type\":\"fault\"}\n{\"t\":1,\"ty"),
                     0); /* its writer died */
    assert_int_equal(o.faults, 1);
}

/* More than the first table has room for. */
static void keeps_many(void **state)
{
    enum { N = 5000 };
    static char text[N * 64];
    size_t n = 0;
    (void)state;
    n += (size_t)snprintf(text, sizeof(text),
                          "{\"t\":5,\"type\":\"metrics\",\"program\":\"a\",\"values\":{\"m\":0");
    for (int i = 0; i < N; i++)
        n += (size_t)snprintf(text + n, sizeof(text) - n, ",\"m{i=\\\"%d\\\"}\":1", i);
    snprintf(text + n, sizeof(text) - n, "}}\n");
    assert_int_equal(read_text(text), 0);
    assert_int_equal(o.n_series, N + 1);
    assert_true(observed_sum(&o, "a", "m") == N);
    assert_true(observed_sum(&o, "a", "m{i=\"4999\"}") == 1);
    observed_deinit(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keeps_the_last_and_the_most),
        cmocka_unit_test(counts_faults_and_injections),
        cmocka_unit_test(refuses_what_it_does_not_understand),
        cmocka_unit_test(keeps_many),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
