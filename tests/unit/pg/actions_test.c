#include "pg_fixture.h"

#include "adapter/pg/pg_actions.h"
#include <string.h>

static char err[256];

static void test_an_action_is_begun_and_ended_once(void **state)
{
    (void)state;
    const char *conninfo = fixture_pg.conninfo;
    int64_t id = 0, other = 0;
    assert_int_equal(pg_action_begin(conninfo, STR("alice@desk"), STR("order cancel"),
                                     (struct item){7, 8}, STR("{\"order_id\":\"12\"}"), &id, err,
                                     sizeof err),
                     0);
    assert_true(id > 0);
    struct pg_action list[4];
    int n = 4;
    assert_int_equal(pg_actions_list(conninfo, 0, list, &n, err, sizeof err), 0);
    assert_int_equal(n, 1);
    assert_int_equal(list[0].id, id);
    assert_string_equal(list[0].outcome, "STARTED");
    assert_int_equal(list[0].finished_ms, 0);
    assert_string_equal(list[0].login, "alice@desk");
    assert_string_equal(list[0].operator_name, "seckill");
    assert_int_equal(list[0].item.sku_id, 8);

    assert_int_equal(
        pg_action_end(conninfo, id, STR("DONE"), STR("{\"freed\":1}"), err, sizeof err), 0);
    assert_int_equal(pg_action_end(conninfo, id, STR("FAILED"), STR(""), err, sizeof err), 1);
    assert_int_equal(pg_action_end(conninfo, id + 1, STR("DONE"), STR(""), err, sizeof err), 1);
    assert_int_equal(pg_action_begin(conninfo, STR("bob@desk"), STR("queue check"),
                                     (struct item){0, 0}, STR(""), &other, err, sizeof err),
                     0);
    n = 4;
    assert_int_equal(pg_actions_list(conninfo, other, list, &n, err, sizeof err), 0);
    assert_int_equal(n, 1);
    assert_string_equal(list[0].outcome, "DONE");
    assert_true(list[0].finished_ms >= list[0].at_ms);
    assert_non_null(strstr(list[0].detail, "\"freed\": 1"));
    assert_non_null(strstr(list[0].detail, "\"order_id\": \"12\""));
    assert_int_equal(
        fixture_number("SELECT count(*) FROM operator_actions WHERE activity_id IS NULL "
                       "AND sku_id IS NULL AND outcome = 'STARTED'"),
        1);
}

static void test_what_notes_itself_is_done(void **state)
{
    (void)state;
    fixture_execute("INSERT INTO operator_actions (action) VALUES ('activity open')");
    struct pg_action one;
    int n = 1;
    assert_int_equal(pg_actions_list(fixture_pg.conninfo, 0, &one, &n, err, sizeof err), 0);
    assert_string_equal(one.outcome, "DONE");
    assert_string_equal(one.login, "");
}

static void test_what_cannot_be_recorded_says_so(void **state)
{
    (void)state;
    int64_t id;
    assert_int_equal(pg_action_begin("host=/nowhere", STR("a"), STR("b"), (struct item){1, 1},
                                     STR(""), &id, err, sizeof err),
                     ERR_UNAVAIL);
    assert_true(strlen(err) > 0);
    assert_int_equal(pg_action_begin(fixture_pg.conninfo, STR("a"), STR("b"), (struct item){1, 1},
                                     STR("no JSON"), &id, err, sizeof err),
                     ERR_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_action_is_begun_and_ended_once),
        cmocka_unit_test(test_what_notes_itself_is_done),
        cmocka_unit_test(test_what_cannot_be_recorded_says_so),
    };
    return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
