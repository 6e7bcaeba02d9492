/* What the history says about a request, whatever the order of concurrent answers. */
#include "daemon/ctl/audit.h"
#include "unit.h"
#include <stdlib.h>

#define KEY "01a22d53-af66-7094-8fe0-bc69e4780bbc"
#define LINE(type, more)                                                                           \
    "{\"t\":1,\"type\":\"" type "\",\"user\":7,\"key\":\"" KEY "\",\"activity\":1,\"sku\":2" more  \
    "}\n"
#define INVOKE LINE("invoke", "")
#define OK_(n)                                                                                     \
    LINE("ok", ",\"status\":202,\"code\":\"ACCEPTED\",\"order_id\":\"4" n                          \
               "\",\"reservation_id\":\"01a22d53-af66-7094-8fe0-bc69e4780bb" n "\"")
#define FAIL(code) LINE("fail", ",\"status\":409,\"code\":\"" code "\"")
#define UNKNOWN LINE("unknown", "")

static struct audit a;

static int read_text(const char *text)
{
    char path[] = "/tmp/ctl-audit-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    close(fd);
    audit_model_deinit(&a.model);
    memset(&a, 0, sizeof(a));
    a.item = (struct item){1, 2};
    int rc = audit_read_history(&a, path);
    unlink(path);
    return rc;
}

static const struct audit_request *only(void)
{
    assert_int_equal(a.model.n_requests, 1);
    return &a.model.requests[0];
}

static void takes_acceptances(void **state)
{
    (void)state;
    assert_int_equal(read_text(INVOKE INVOKE OK_("1") OK_("1") INVOKE UNKNOWN), 0);
    const struct audit_request *r = only();
    assert_true(r->accepted && !r->contradicts && !r->refused_after);
    assert_int_equal(r->asked, 3);
    assert_int_equal(r->order_id, 41);
    assert_int_equal(a.counts.accepted, 1);
    assert_true(a.has_history);
}

static void finds_two_acceptances(void **state)
{
    (void)state;
    assert_int_equal(read_text(INVOKE INVOKE OK_("1") OK_("2")), 0);
    assert_true(only()->contradicts);
}

static void finds_refusals_after_acceptance(void **state)
{
    (void)state;
    assert_int_equal(read_text(INVOKE OK_("1") INVOKE FAIL("SOLD_OUT")), 0);
    assert_true(only()->refused_after);
    /* Sent before the acceptance was heard: the refusal may have been first. */
    assert_int_equal(read_text(INVOKE INVOKE OK_("1") FAIL("SOLD_OUT")), 0);
    assert_false(only()->refused_after);
    assert_int_equal(read_text(INVOKE INVOKE OK_("1") FAIL("SOLD_OUT") INVOKE FAIL("SOLD_OUT")), 0);
    assert_true(only()->refused_after);
    /* Later says nothing about the unit. */
    assert_int_equal(read_text(INVOKE OK_("1") INVOKE FAIL("OVERLOADED") INVOKE UNKNOWN), 0);
    assert_false(only()->refused_after);
    /* A refusal leaves no trace: the same key may win later. */
    assert_int_equal(read_text(INVOKE FAIL("SOLD_OUT") INVOKE OK_("1")), 0);
    assert_false(only()->refused_after);
}

/* Each invocation has one end at most. */
static void finds_answers_to_nothing(void **state)
{
    (void)state;
    assert_int_equal(read_text(INVOKE INVOKE OK_("1") FAIL("SOLD_OUT")), 0);
    assert_false(only()->unasked);
    assert_int_equal(only()->refused, 1);
    assert_int_equal(only()->open, 0);
    assert_int_equal(read_text(INVOKE OK_("1") OK_("1")), 0);
    assert_true(only()->unasked && !only()->contradicts);
    assert_int_equal(read_text(OK_("1") INVOKE), 0);
    assert_true(only()->unasked);
    assert_int_equal(only()->open, 1);
    assert_int_equal(read_text(INVOKE UNKNOWN UNKNOWN), 0);
    assert_true(only()->unasked);
}

static void skips_other_items_and_a_cut_line(void **state)
{
    (void)state;
    a.item = (struct item){1, 2};
    assert_int_equal(read_text("{\"t\":1,\"type\":\"invoke\",\"user\":7,\"key\":\"" KEY
                               "\",\"activity\":1,\"sku\":3}\n" INVOKE "{\"t\":1,\"ty"),
                     0);
    assert_int_equal(a.counts.other_items, 1);
    assert_int_equal(a.counts.invoked, 1);
}

static void refuses_what_is_no_history(void **state)
{
    (void)state;
    assert_int_equal(read_text(INVOKE "hello\n" INVOKE), CTL_UNKNOWN);
    assert_int_equal(audit_read_history(&a, "/nowhere/at/all"), CTL_UNKNOWN);
    audit_model_deinit(&a.model);
}

#define STATE(t, since, more)                                                                      \
    "{\"t\":" #t ",\"type\":\"state\",\"user\":7,\"key\":\"" KEY                                   \
    "\",\"activity\":1,\"sku\":2,\"since\":" #since more "}\n"
#define TOLD(state) ",\"status\":200,\"state\":\"" state "\",\"reason\":\"\""

/* Files may be joined in any order: the first that was heard, the last that was asked for. */
static void keeps_what_was_told(void **state)
{
    (void)state;
    assert_int_equal(read_text(INVOKE OK_("1") STATE(90, 80, TOLD("SUCCEEDED")) STATE(
                         40, 30, TOLD("QUEUED")) STATE(70, 60, TOLD("SUCCEEDED"))
                                   STATE(50, 45, TOLD("QUEUED")) STATE(99, 98, ",\"status\":404")),
                     0);
    assert_int_equal(a.model.n_told, 1);
    assert_int_equal(only()->told, 0);
    const struct audit_told *t = &a.model.told[0];
    assert_int_equal(t->first_us[1], 40);
    assert_int_equal(t->last_asked[1], 45);
    assert_int_equal(t->first_us[3], 70);
    assert_int_equal(t->last_asked[3], 80);
    assert_int_equal(t->first_us[4], 0);
    assert_int_equal(t->missing_asked, 98);
    assert_int_equal(t->states, 1u << VERDICT_QUEUED | 1u << VERDICT_SUCCEEDED);
    assert_int_equal(a.counts.told, 4);
    assert_int_equal(a.statuses[202], 1);
    assert_int_equal(a.counts.unheard, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keeps_what_was_told),
        cmocka_unit_test(takes_acceptances),
        cmocka_unit_test(finds_two_acceptances),
        cmocka_unit_test(finds_refusals_after_acceptance),
        cmocka_unit_test(finds_answers_to_nothing),
        cmocka_unit_test(skips_other_items_and_a_cut_line),
        cmocka_unit_test(refuses_what_is_no_history),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
