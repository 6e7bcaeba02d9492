/* What the adapter says of the world when PostgreSQL does not answer, refuses, dies or comes back;
 * and what the same ids find out afterwards. */
#include "pg_fixture.h"

#include "base/metric.h"
#include <libpq-fe.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static int place(struct item item, struct orders_row *rows, int n, int64_t us)
{
    struct ctx ctx = fixture_ctx(us);
    struct orders_timing timing;
    return fixture_orders->ops->place(fixture_orders, &ctx, item, rows, n, &timing);
}

/* Somebody who holds an item's inventory row. */
static PGconn *hold(struct item item)
{
    PGconn *c = PQconnectdb(fixture_pg.conninfo);
    char sql[200];
    snprintf(sql, sizeof sql,
             "BEGIN; SELECT 1 FROM seckill_inventory WHERE activity_id = %ld FOR UPDATE",
             (long)item.activity_id);
    PQclear(PQexec(c, sql));
    return c;
}

static uint64_t unknown(void)
{
    return metric_value(
        metric_counter("seckill_pg_commit_unknown_total", "Writes whose answer was lost.", NULL));
}

static void test_no_time_left_is_not_sent(void **state)
{
    (void)state;
    struct item item = fixture_item(3);
    struct orders_row row;
    fixture_rows(&row, 1);
    assert_int_equal(place(item, &row, 1, -1), ERR_DEADLINE);
    struct ctx ctx = fixture_ctx(60000000);
    ctx_cancel(&ctx);
    struct orders_timing timing;
    assert_int_equal(fixture_orders->ops->place(fixture_orders, &ctx, item, &row, 1, &timing),
                     ERR_CANCELED);
}

static void test_deadline_while_it_runs_is_uncertain(void **state)
{
    (void)state;
    struct item item = fixture_item(3);
    struct orders_row row;
    fixture_rows(&row, 1);
    assert_int_equal(
        fixture_orders->ops->probe(fixture_orders, &(struct ctx){.deadline_us = CTX_NO_DEADLINE}),
        0);
    PGconn *holder = hold(item);
    uint64_t before = unknown();
    int64_t begin = clock_mono_us();
    assert_int_equal(place(item, &row, 1, 100000), ERR_UNCERTAIN);
    assert_true(clock_mono_us() - begin < 400000);
    assert_int_equal(unknown() - before, 1);
    PQfinish(holder);
    assert_int_equal(place(item, &row, 1, 60000000), 0); /* the same ids again: the inbox decides */
    assert_true(row.outcome == ORDERS_CREATED || row.outcome == ORDERS_KNOWN);
    assert_int_equal(row.verdict.state, VERDICT_SUCCEEDED);
}

static void test_the_server_is_asked_to_cancel(void **state)
{
    (void)state;
    struct item item = fixture_item(3);
    struct orders_row row;
    fixture_rows(&row, 1);
    PGconn *holder = hold(item);
    assert_int_equal(place(item, &row, 1, 50000), ERR_UNCERTAIN);
    int64_t until = clock_mono_us() + 5000000;
    while (fixture_number("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'test' "
                          "AND state = 'active'") > 0)
        assert_true(clock_mono_us() < until);
    PQfinish(holder);
}

static void test_a_read_that_times_out_changed_nothing(void **state)
{
    (void)state;
    PGconn *holder = PQconnectdb(fixture_pg.conninfo);
    PQclear(PQexec(holder, "BEGIN; LOCK TABLE orders IN ACCESS EXCLUSIVE MODE"));
    struct ctx ctx = fixture_ctx(50000);
    struct orders_order order;
    assert_int_equal(fixture_orders->ops->find_order(fixture_orders, &ctx, 1, &order),
                     ERR_DEADLINE);
    PQfinish(holder);
    ctx = fixture_ctx(60000000);
    assert_int_equal(fixture_orders->ops->find_order(fixture_orders, &ctx, 1, &order), 1);
}

static void *cancel_soon(void *arg)
{
    while (fixture_number("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'test' "
                          "AND wait_event_type = 'Lock'") == 0)
        ;
    ctx_cancel(arg);
    return NULL;
}

static void test_cancel_from_another_thread_ends_the_wait(void **state)
{
    (void)state;
    struct item item = fixture_item(3);
    struct orders_row row;
    fixture_rows(&row, 1);
    PGconn *holder = hold(item);
    struct ctx ctx = fixture_ctx(30000000);
    pthread_t thread;
    pthread_create(&thread, NULL, cancel_soon, &ctx);
    struct orders_timing timing;
    assert_int_equal(fixture_orders->ops->place(fixture_orders, &ctx, item, &row, 1, &timing),
                     ERR_UNCERTAIN);
    pthread_join(thread, NULL);
    PQfinish(holder);
}

static void test_statement_timeout_is_not_done(void **state)
{
    (void)state;
    char conninfo[256];
    snprintf(conninfo, sizeof conninfo,
             "%s options='-c statement_timeout=50ms -c deadlock_timeout=10s'", fixture_pg.conninfo);
    struct orders *limited = fixture_port(conninfo);
    struct item item = fixture_item(3);
    struct orders_row row;
    fixture_rows(&row, 1);
    PGconn *holder = hold(item);
    struct ctx ctx = fixture_ctx(60000000);
    struct orders_timing timing;
    assert_int_equal(limited->ops->place(limited, &ctx, item, &row, 1, &timing), ERR_UNAVAIL);
    PQfinish(holder);
    assert_int_equal(limited->ops->place(limited, &ctx, item, &row, 1, &timing), 0);
    assert_int_equal(row.outcome, ORDERS_CREATED);
    pg_orders_free(limited);
}

static void test_read_only_server_is_infrastructure(void **state)
{
    (void)state;
    char conninfo[256];
    snprintf(conninfo, sizeof conninfo, "%s options='-c default_transaction_read_only=on'",
             fixture_pg.conninfo);
    struct orders *reader = fixture_port(conninfo);
    struct item item = fixture_item(3);
    struct orders_row row;
    fixture_rows(&row, 1);
    struct ctx ctx = fixture_ctx(60000000);
    struct orders_timing timing;
    assert_int_equal(reader->ops->place(reader, &ctx, item, &row, 1, &timing), ERR_UNAVAIL);
    assert_int_equal(reader->ops->probe(reader, &ctx), ERR_UNAVAIL); /* rule 21 */
    pg_orders_free(reader);
}

struct killer {
    pthread_t thread;
    int64_t delay_us;
};
static void *kill_backend(void *arg)
{
    struct killer *k = arg;
    PGconn *c = PQconnectdb(fixture_pg.conninfo);
    usleep((useconds_t)k->delay_us); /* any moment of the call: that is the test */
    PQclear(PQexec(c, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE "
                      "application_name = 'test' AND pid <> pg_backend_pid()"));
    PQfinish(c);
    return NULL;
}

static void test_killed_backend_and_the_same_ids_again(void **state)
{
    (void)state;
    enum { ROUNDS = 60, N = 8 };
    struct item item = fixture_item(ROUNDS * N / 2);
    int uncertain = 0, created = 0;
    for (int i = 0; i < ROUNDS; i++) {
        struct orders_row rows[N];
        fixture_rows(rows, N);
        struct killer k = {.delay_us = (i * 97) % 4000};
        pthread_create(&k.thread, NULL, kill_backend, &k);
        int rc = place(item, rows, N, 60000000);
        pthread_join(k.thread, NULL);
        assert_true(rc == 0 || rc == ERR_UNCERTAIN || rc == ERR_UNAVAIL);
        uncertain += rc == ERR_UNCERTAIN;
        while ((rc = place(item, rows, N, 60000000)) != 0)
            assert_true(rc == ERR_UNCERTAIN || rc == ERR_UNAVAIL);
        for (int j = 0; j < N; j++)
            created += rows[j].verdict.state == VERDICT_SUCCEEDED;
    }
    assert_true(uncertain > 0);
    assert_int_equal(created, ROUNDS * N / 2);
    char sql[256];
    snprintf(sql, sizeof sql, "SELECT count(*) FROM orders WHERE activity_id = %ld",
             (long)item.activity_id);
    assert_int_equal(fixture_number(sql), ROUNDS * N / 2);
    snprintf(sql, sizeof sql, "SELECT sold_stock FROM seckill_inventory WHERE activity_id = %ld",
             (long)item.activity_id);
    assert_int_equal(fixture_number(sql), ROUNDS * N / 2);
    snprintf(sql, sizeof sql, "SELECT count(*) FROM outbox WHERE activity_id = %ld",
             (long)item.activity_id);
    assert_int_equal(fixture_number(sql), ROUNDS * N);
}

static void test_idle_connection_that_died_is_noticed_before_use(void **state)
{
    (void)state;
    struct item item = fixture_item(3);
    struct orders_row row;
    fixture_rows(&row, 1);
    assert_int_equal(place(item, &row, 1, 60000000), 0);
    fixture_execute("SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE "
                    "application_name = 'test' AND pid <> pg_backend_pid()");
    uint64_t before = unknown();
    assert_int_equal(place(item, &row, 1, 60000000), 0);
    assert_int_equal(row.outcome, ORDERS_KNOWN);
    assert_int_equal(unknown(), before);
}

static void test_server_away_and_back(void **state)
{
    (void)state;
    struct item item = fixture_item(3);
    struct orders_row row;
    fixture_rows(&row, 1);
    assert_int_equal(
        fixture_orders->ops->probe(fixture_orders, &(struct ctx){.deadline_us = CTX_NO_DEADLINE}),
        0);
    private_pg_down(&fixture_pg);
    int rc = place(item, &row, 1, 300000);
    assert_true(rc == ERR_UNAVAIL || rc == ERR_UNCERTAIN);
    int64_t begin = clock_mono_us();
    assert_int_equal(place(item, &row, 1, 200000), ERR_UNAVAIL); /* not there: certainly not done */
    assert_true(clock_mono_us() - begin < 600000);
    private_pg_up(&fixture_pg);
    assert_int_equal(place(item, &row, 1, 60000000), 0);
    assert_int_equal(row.outcome, ORDERS_CREATED);
}

static void test_a_server_that_never_answers_the_connection(void **state)
{
    (void)state;
    /* Connects (the backlog takes it), then silence. */
    char dir[] = "/tmp/skmute-XXXXXX", conninfo[128];
    assert_non_null(mkdtemp(dir));
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    snprintf(a.sun_path, sizeof a.sun_path, "%s/.s.PGSQL.5432", dir);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(listen(fd, 8), 0);
    snprintf(conninfo, sizeof conninfo, "host=%s user=seckill dbname=postgres", dir);
    struct orders *mute = fixture_port(conninfo);
    struct ctx ctx = fixture_ctx(150000);
    int64_t begin = clock_mono_us();
    assert_int_equal(mute->ops->probe(mute, &ctx), ERR_DEADLINE);
    assert_true(clock_mono_us() - begin < 500000);
    pg_orders_free(mute);
    close(fd);
    unlink(a.sun_path);
    rmdir(dir);
}

static void test_connections_are_retired(void **state)
{
    (void)state;
    struct orders *brief = pg_orders_new(&(struct pg_config){.conninfo = fixture_pg.conninfo,
                                                             .connect_us = 2000000,
                                                             .lifetime_us = 0,
                                                             .application = "brief"});
    struct ctx ctx = fixture_ctx(60000000);
    assert_int_equal(brief->ops->probe(brief, &ctx), 0);
    int64_t first =
        fixture_number("SELECT pid FROM pg_stat_activity WHERE application_name = 'brief'");
    assert_int_equal(brief->ops->probe(brief, &ctx), 0);
    fixture_execute("SELECT pg_sleep(0)");
    assert_int_not_equal(first, -1);
    char sql[200];
    snprintf(sql, sizeof sql,
             "SELECT pid FROM pg_stat_activity WHERE application_name = 'brief' AND pid <> %ld",
             (long)first);
    assert_int_not_equal(fixture_number(sql), -1);
    pg_orders_free(brief);
}

static void test_deadlock_is_a_conflict(void **state)
{
    (void)state;
    /* Another session takes the inventory row and then wants a row that the call holds: PostgreSQL
     * ends one of them. */
    struct item item = fixture_item(3);
    struct orders_row row;
    fixture_rows(&row, 1);
    PGconn *holder = hold(item);
    PQclear(PQexec(holder,
                   "SET deadlock_timeout = '10s'")); /* so that it is the call that looks first */
    char id[UUID_TEXT + 1] = {0}, sql[512];
    uuid_format(&row.message_id, id);
    snprintf(sql, sizeof sql,
             "DO $$ BEGIN WHILE NOT EXISTS (SELECT FROM pg_stat_activity WHERE application_name = "
             "'test' AND wait_event_type = 'Lock') "
             "LOOP PERFORM pg_stat_clear_snapshot(); END LOOP; END $$; "
             "INSERT INTO consumer_inbox (consumer_group, message_id, request_id, reservation_id, "
             "user_id, activity_id, sku_id, status) "
             "VALUES ('seckill-order-create-v1', '%s', gen_random_uuid(), gen_random_uuid(), 1, 1, "
             "1, 'REJECTED')",
             id);
    assert_int_equal(PQsendQuery(holder, sql), 1);
    assert_int_equal(place(item, &row, 1, 20000000), ERR_CONFLICT);
    /* The other one has its row now; else it would meet the second call in the same way. */
    for (PGresult *r; (r = PQgetResult(holder));)
        PQclear(r);
    PQfinish(holder);
    assert_int_equal(place(item, &row, 1, 60000000), 0); /* redo the whole call */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_time_left_is_not_sent),
        cmocka_unit_test(test_deadline_while_it_runs_is_uncertain),
        cmocka_unit_test(test_the_server_is_asked_to_cancel),
        cmocka_unit_test(test_a_read_that_times_out_changed_nothing),
        cmocka_unit_test(test_cancel_from_another_thread_ends_the_wait),
        cmocka_unit_test(test_statement_timeout_is_not_done),
        cmocka_unit_test(test_read_only_server_is_infrastructure),
        cmocka_unit_test(test_killed_backend_and_the_same_ids_again),
        cmocka_unit_test(test_idle_connection_that_died_is_noticed_before_use),
        cmocka_unit_test(test_server_away_and_back),
        cmocka_unit_test(test_a_server_that_never_answers_the_connection),
        cmocka_unit_test(test_connections_are_retired),
        cmocka_unit_test(test_deadlock_is_a_conflict),
    };
    return cmocka_run_group_tests(tests, fixture_port_setup, fixture_port_teardown);
}
