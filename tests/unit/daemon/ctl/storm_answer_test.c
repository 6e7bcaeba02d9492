#include "daemon/ctl/storm_answer.h"

#include "unit.h"

#define KEY "01a22d53-af66-7094-8fe0-bc69e4780bbc"
#define OTHER "01a22d53-af66-7094-8fe0-bc69e4780bbd"
#define UNIT "\"reservation_id\":\"" OTHER "\",\"order_id\":\"42\""
#define ACCEPTED "{\"request_id\":\"" KEY "\",\"state\":\"QUEUED\"," UNIT "}"

static int read_answer(int status, const char *body, struct storm_answer *a)
{
    struct uuid key;
    const char *why = NULL;
    assert_int_equal(uuid_parse(STR(KEY), &key), 0);
    int rc = storm_answer_read(status, str_of(body), &key, a, &why);
    assert_true(rc == 0 || why);
    return rc;
}

static void takes_what_the_contract_has(void **state)
{
    struct storm_answer a;
    (void)state;
    assert_int_equal(read_answer(202, ACCEPTED, &a), 0);
    assert_true(a.answer == ANSWER_ACCEPTED && a.order_id == 42 && a.has_reservation);
    assert_int_equal(read_answer(200, ACCEPTED, &a), 0);
    for (int i = 0; i < ANSWERS; i++) {
        const struct answer_info *info = answer_info((enum answer)i);
        char body[256];
        if (info->status < 300)
            continue;
        snprintf(body, sizeof(body), "{\"type\":\"about:blank\",\"code\":\"%s\",\"x\":[{}]%s}",
                 info->code, i == ANSWER_DUPLICATE_ORDER ? "," UNIT : "");
        assert_int_equal(read_answer(info->status, body, &a), 0);
        assert_int_equal(a.answer, i);
    }
}

static void refuses_what_it_has_not(void **state)
{
    static const struct {
        int status;
        const char *body;
    } cases[] = {
        {202, ""},
        {202, "{}"},
        {202, "[" ACCEPTED "]"},
        {202, ACCEPTED "x"},
        {202, "{\"request_id\":\"" KEY "\",\"state\":\"LOST\"," UNIT "}"},
        {202, "{\"request_id\":\"" OTHER "\",\"state\":\"QUEUED\"," UNIT "}"},
        {202, "{\"request_id\":\"" KEY "\",\"state\":\"QUEUED\"}"},
        {202, "{\"request_id\":\"" KEY "\",\"state\":\"QUEUED\",\"order_id\":42}"},
        {202, "{\"request_id\":\"" KEY "\",\"state\":\"QUEUED\",\"state\":\"QUEUED\"," UNIT "}"},
        {201, ACCEPTED},
        {409, "{\"code\":\"SOLD\"}"},
        {409, "{\"code\":\"OVERLOADED\"}"},
        {404, "{\"code\":\"SOLD_OUT\"}"},
        {409, "<html>"},
        {409, "{\"code\":\"DUPLICATE_ORDER\"}"},
        {409, "{\"code\":\"DUPLICATE_ORDER\",\"order_id\":\"x\",\"reservation_id\":\"" OTHER "\"}"},
        {0, "{}"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct storm_answer a;
        if (read_answer(cases[i].status, cases[i].body, &a) == 0)
            fail_msg("taken: %d %s", cases[i].status, cases[i].body);
    }
}

static void says_what_is_certain(void **state)
{
    (void)state;
    assert_int_equal(storm_answer_says(ANSWER_ACCEPTED), STORM_ACCEPTED);
    assert_int_equal(storm_answer_says(ANSWER_SOLD_OUT), STORM_REFUSED);
    assert_int_equal(storm_answer_says(ANSWER_OVERLOADED), STORM_REFUSED);
    assert_int_equal(storm_answer_says(ANSWER_DEPENDENCY_UNAVAILABLE), STORM_REFUSED);
    assert_int_equal(storm_answer_says(ANSWER_TIMEOUT), STORM_UNSAID);
    assert_int_equal(storm_answer_says(ANSWER_INTERNAL_ERROR), STORM_UNSAID);
}

static void reads_states(void **state)
{
    static const char *const wrong[] = {"",
                                        "[]",
                                        "{\"state\":\"QUEUED\"}",
                                        "{\"request_id\":\"" KEY "\"}",
                                        "{\"request_id\":\"" OTHER "\",\"state\":\"QUEUED\"}",
                                        "{\"request_id\":\"" KEY "\",\"state\":\"GONE\"}",
                                        "{\"request_id\":\"" KEY
                                        "\",\"state\":\"FAILED\",\"reason\":\"BORED\"}"};
    struct uuid key;
    struct verdict v;
    const char *why;
    (void)state;
    assert_int_equal(uuid_parse(STR(KEY), &key), 0);
    assert_int_equal(
        storm_state_read(STR("{\"request_id\":\"" KEY "\",\"state\":\"QUEUED\"}"), &key, &v, &why),
        0);
    assert_true(v.state == VERDICT_QUEUED && v.reason == REASON_NONE);
    assert_int_equal(
        storm_state_read(STR("{\"request_id\":\"" KEY "\",\"state\":\"FAILED\",\"version\":3,"
                             "\"reason\":\"LOST_RESERVATION\"}"),
                         &key, &v, &why),
        0);
    assert_true(v.state == VERDICT_FAILED && v.reason == REASON_LOST_RESERVATION);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        why = NULL;
        if (storm_state_read(str_of(wrong[i]), &key, &v, &why) == 0 || !why)
            fail_msg("taken: %s", wrong[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takes_what_the_contract_has),
        cmocka_unit_test(refuses_what_it_has_not),
        cmocka_unit_test(says_what_is_certain),
        cmocka_unit_test(reads_states),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
