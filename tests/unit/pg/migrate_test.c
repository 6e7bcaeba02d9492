#include "pg_fixture.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

static int setup(void **state)
{
    (void)state;
    private_pg_start(&fixture_pg);
    return 0;
}

static void *migrate(void *arg)
{
    char err[256];
    *(int *)arg = pg_migrate(fixture_pg.conninfo, err, sizeof err);
    return NULL;
}

static void test_empty_database_is_told(void **state)
{
    (void)state;
    char err[256];
    assert_int_equal(pg_check_schema(fixture_pg.conninfo, err, sizeof err), ERR_CONFLICT);
    assert_non_null(strstr(err, "seckillctl migrate"));
}

static void test_four_at_once_apply_each_file_once(void **state)
{
    (void)state;
    pthread_t t[4];
    int n[4], sum = 0;
    for (int i = 0; i < 4; i++)
        pthread_create(&t[i], NULL, migrate, &n[i]);
    for (int i = 0; i < 4; i++) {
        pthread_join(t[i], NULL);
        assert_true(n[i] >= 0);
        sum += n[i];
    }
    assert_int_equal(sum, fixture_number("SELECT count(*) FROM schema_version"));
    assert_true(sum >= 3);
    char err[256];
    assert_int_equal(pg_check_schema(fixture_pg.conninfo, err, sizeof err), 0);
}

static void test_again_does_nothing(void **state)
{
    (void)state;
    char err[256];
    assert_int_equal(pg_migrate(fixture_pg.conninfo, err, sizeof err), 0);
}

static void test_limits_of_the_role(void **state)
{
    (void)state;
    assert_int_equal(
        fixture_number("SELECT count(*) FROM pg_settings WHERE source = 'database user' AND "
                       "((name = 'deadlock_timeout' AND setting = '100') OR (name = 'lock_timeout' "
                       "AND setting = '2000') "
                       "OR (name = 'statement_timeout' AND setting = '10000') "
                       "OR (name = 'idle_in_transaction_session_timeout' AND setting = '5000') "
                       "OR (name = 'client_connection_check_interval' AND setting = '500'))"),
        5);
}

static void test_a_role_without_rights_gets_what_it_may_set(void **state)
{
    (void)state;
    fixture_execute("CREATE ROLE plain LOGIN");
    fixture_execute("CREATE DATABASE plain OWNER plain");
    char conninfo[160], err[256];
    snprintf(conninfo, sizeof conninfo, "host=%s user=plain dbname=plain", fixture_pg.dir);
    assert_true(pg_migrate(conninfo, err, sizeof err) >= 3);
    assert_int_equal(fixture_number("SELECT cardinality(setconfig) FROM pg_db_role_setting s JOIN "
                                    "pg_roles r ON r.oid = s.setrole WHERE rolname = 'plain'"),
                     4);
}

static void test_changed_file_is_refused(void **state)
{
    (void)state;
    char err[256];
    fixture_execute("UPDATE schema_version SET checksum = 'x' WHERE version = 1");
    assert_int_equal(pg_migrate(fixture_pg.conninfo, err, sizeof err), ERR_CONFLICT);
    assert_non_null(strstr(err, "0001_tables"));
    fixture_execute(
        "UPDATE schema_version SET checksum = encode(sha256('y'), 'hex') WHERE version = 1");
    assert_int_equal(pg_check_schema(fixture_pg.conninfo, err, sizeof err), ERR_CONFLICT);
}

static void test_newer_database_is_refused(void **state)
{
    (void)state;
    char err[256];
    fixture_execute("DROP TABLE schema_version; CREATE TABLE schema_version (version INTEGER "
                    "PRIMARY KEY, name TEXT, checksum TEXT)");
    fixture_execute("INSERT INTO schema_version SELECT 9999, 'future', ''");
    assert_int_equal(pg_migrate(fixture_pg.conninfo, err, sizeof err), ERR_CONFLICT);
    assert_non_null(strstr(err, "newer"));
    assert_int_equal(pg_check_schema(fixture_pg.conninfo, err, sizeof err), ERR_CONFLICT);
    assert_int_equal(fixture_number("SELECT count(*) FROM schema_version"), 1);
}

static void test_unreachable(void **state)
{
    (void)state;
    char err[256];
    assert_int_equal(pg_migrate("host=/nonexistent", err, sizeof err), ERR_UNAVAIL);
    assert_true(err[0] != 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_empty_database_is_told),
        cmocka_unit_test(test_four_at_once_apply_each_file_once),
        cmocka_unit_test(test_again_does_nothing),
        cmocka_unit_test(test_limits_of_the_role),
        cmocka_unit_test(test_a_role_without_rights_gets_what_it_may_set),
        cmocka_unit_test(test_changed_file_is_refused),
        cmocka_unit_test(test_newer_database_is_refused),
        cmocka_unit_test(test_unreachable),
    };
    return cmocka_run_group_tests(tests, setup, fixture_teardown);
}
