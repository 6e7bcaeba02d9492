/* The contract of port/results.h: what is told as published is there, whole, at least once; what is
 * not known to be there is not told as published. */
#include "base/err.h"
#include "base/panic.h"
#include "results_backend.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define PATIENCE_US 60000000
#define OP_US 20000000

static bool over;
static int result;

static void on_done(struct op *op, int rc)
{
    (void)op;
    if (over)
        panic("an operation completed twice");
    over = true;
    result = rc;
    backend_wake();
}

static void begin(struct results_publish *p, int64_t patience_us)
{
    over = false;
    p->op = (struct op){on_done, backend_now_us() + patience_us};
    backend_results()->ops->publish(backend_results(), p);
    assert_false(over);
}

static int end(void)
{
    if (!backend_run(&over, PATIENCE_US))
        panic("an operation never completed");
    return result;
}

static struct uuid id(int kind, int64_t number)
{
    struct uuid u = {{(uint8_t)kind, [6] = 0x70}};
    u.b[14] = (uint8_t)(number >> 8);
    u.b[15] = (uint8_t)number;
    return u;
}

static struct results_row row(struct item item, int64_t n)
{
    struct results_row r = {.result = {.id = 1000 + n,
                                       .event = "ORDER_CREATED",
                                       .message_id = id(1, n),
                                       .request_id = id(2, n),
                                       .reservation_id = id(3, n),
                                       .item = item,
                                       .user_id = 70 + n,
                                       .order_id = INT64_MAX - n,
                                       .verdict = {VERDICT_SUCCEEDED, REASON_NONE},
                                       .decided_at_ms = INT64_C(1780000000123)}};
    return r;
}

static int publish(struct item item, struct results_row *rows, int n)
{
    struct results_publish p = {.item = item, .rows = rows, .n = n};
    begin(&p, OP_US);
    return end();
}

/* How often this row is among the bodies, byte for byte. */
static int times(const struct results_row *r, const char **bodies, int n)
{
    char text[RESULT_MAX_BYTES + 1];
    struct strbuf b;
    int found = 0;
    strbuf_init_fixed(&b, text, RESULT_MAX_BYTES);
    result_encode(&r->result, &b);
    text[b.len] = '\0';
    for (int i = 0; i < n; i++)
        found += strcmp(bodies[i], text) == 0;
    return found;
}

static bool all_among(struct results_row *rows, int n_rows, const char **bodies, int n)
{
    for (int i = 0; i < n_rows; i++) {
        if (!times(&rows[i], bodies, n))
            return false;
    }
    return true;
}

/* Other rows of the item, and second copies, may be there, too, and be read first. */
static void assert_there(struct item item, struct results_row *rows, int n_rows)
{
    const char *bodies[2 * RESULTS_MAX];
    int before, n = n_rows - 1;
    do {
        before = n;
        n = backend_read(item, before + 1, bodies, 2 * RESULTS_MAX);
    } while (!all_among(rows, n_rows, bodies, n) && n > before);
    assert_true(all_among(rows, n_rows, bodies, n));
}

static void test_published_is_there(void **state)
{
    const char *bodies[RESULTS_MAX];
    struct results_row rows[3];
    struct item item = backend_item(), other = backend_item();
    (void)state;
    for (int i = 0; i < 3; i++)
        rows[i] = row(item, i);
    rows[1].result.verdict = (struct verdict){VERDICT_REJECTED, REASON_ONE_USER_ONE_ORDER};
    rows[1].result.order_id = 0;
    assert_int_equal(publish(item, rows, 3), 0);
    for (int i = 0; i < 3; i++)
        assert_true(rows[i].published);
    assert_there(item, rows, 3);
    assert_int_equal(backend_read(other, 0, bodies, RESULTS_MAX), 0);
}

static void test_as_many_as_may_be(void **state)
{
    static struct results_row rows[RESULTS_MAX];
    struct item item = backend_item();
    (void)state;
    for (int i = 0; i < RESULTS_MAX; i++)
        rows[i] = row(item, i);
    assert_int_equal(publish(item, rows, RESULTS_MAX), 0);
    for (int i = 0; i < RESULTS_MAX; i++)
        assert_true(rows[i].published);
    assert_there(item, rows, RESULTS_MAX);
}

/* Once more is allowed: whoever reads knows it by its id. */
static void test_again(void **state)
{
    const char *bodies[RESULTS_MAX];
    struct item item = backend_item();
    struct results_row r = row(item, 1);
    (void)state;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(publish(item, &r, 1), 0);
        assert_true(r.published);
    }
    int n = backend_read(item, 1, bodies, RESULTS_MAX);
    assert_int_equal(times(&r, bodies, n), n);
    assert_true(n >= 1);
}

static void test_a_deadline_that_is_over(void **state)
{
    struct item item = backend_item();
    struct results_row r = row(item, 1);
    struct results_publish p = {.item = item, .rows = &r, .n = 1};
    (void)state;
    r.published = true;
    begin(&p, -1);
    assert_true(end() < 0);
    assert_false(r.published);
}

static void test_cancel(void **state)
{
    struct item item = backend_item();
    struct results_row r = row(item, 1);
    struct results_publish p = {.item = item, .rows = &r, .n = 1};
    (void)state;
    begin(&p, OP_US);
    backend_results()->ops->cancel(backend_results(), &p.op);
    assert_false(over);
    assert_true(end() < 0);
    assert_false(r.published);
    /* Of one that is none of ours: nothing. */
    backend_results()->ops->cancel(backend_results(), &p.op);
}

static void test_away_and_back(void **state)
{
    struct item item = backend_item();
    struct results_row r = row(item, 1);
    struct results_publish p = {.item = item, .rows = &r, .n = 1};
    (void)state;
    assert_int_equal(publish(item, &r, 1), 0);
    backend_down();
    begin(&p, 1000000);
    assert_true(end() < 0);
    assert_false(r.published);
    backend_up();
    int64_t until = backend_now_us() + PATIENCE_US;
    r = row(item, 2);
    while (publish(item, &r, 1) < 0)
        assert_true(backend_now_us() < until);
    assert_true(r.published);
    assert_there(item, &r, 1);
}

static int setup(void **state)
{
    (void)state;
    backend_start();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    backend_stop();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_published_is_there, setup, teardown),
        cmocka_unit_test_setup_teardown(test_as_many_as_may_be, setup, teardown),
        cmocka_unit_test_setup_teardown(test_again, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_deadline_that_is_over, setup, teardown),
        cmocka_unit_test_setup_teardown(test_cancel, setup, teardown),
        cmocka_unit_test_setup_teardown(test_away_and_back, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
