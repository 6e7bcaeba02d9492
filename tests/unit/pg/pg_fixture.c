#include "pg_fixture.h"

#include "base/log.h"
#include "base/rng.h"
#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>

struct private_pg fixture_pg;
static struct rng rng;
static int64_t counter;

int fixture_setup(void **state)
{
    (void)state;
    char err[256];
    rng_init(&rng);
    log_setup("test", "test", LOG_ERROR);
    private_pg_start(&fixture_pg);
    int rc = pg_migrate(fixture_pg.conninfo, err, sizeof err);
    if (rc <= 0)
        fprintf(stderr, "migrate: %d %s\n", rc, err);
    return rc > 0 ? 0 : -1;
}

int fixture_teardown(void **state)
{
    (void)state;
    private_pg_stop(&fixture_pg);
    return 0;
}

struct orders *fixture_port(const char *conninfo)
{
    return pg_orders_new(&(struct pg_config){.conninfo = conninfo,
                                             .connect_us = 2000000,
                                             .lifetime_us = 1800000000,
                                             .lifetime_jitter_us = 180000000,
                                             .application = "test"});
}

struct item fixture_item(int64_t total)
{
    char err[256];
    int64_t now = clock_wall_us() / 1000;
    struct pg_activity a = {.item = {++counter + 1000, 2001},
                            .total = total,
                            .starts_ms = now,
                            .ends_ms = now + 3600000,
                            .expires_ms = now + 7200000};
    assert_int_equal(pg_activity_create(fixture_pg.conninfo, &a, err, sizeof err), 0);
    return a.item;
}

void fixture_rows(struct orders_row *rows, int n)
{
    for (int i = 0; i < n; i++) {
        int64_t ms = clock_wall_us() / 1000;
        counter++;
        rows[i] = (struct orders_row){
            .message_id = uuid_v7(ms, &rng),
            .request_id = uuid_v7(ms, &rng),
            .reservation_id = uuid_v7(ms, &rng),
            .user_id = 3000000 + counter,
            .order_id = 900000000 + counter,
            .created_at_ms = ms,
            .version = {1, counter},
        };
    }
}

struct ctx fixture_ctx(int64_t us)
{
    struct ctx c;
    ctx_init(&c, NULL, clock_mono_us() + us);
    return c;
}

static PGresult *exec(const char *sql)
{
    PGconn *c = PQconnectdb(fixture_pg.conninfo);
    PGresult *r = PQexec(c, sql);
    if (PQresultStatus(r) != PGRES_TUPLES_OK && PQresultStatus(r) != PGRES_COMMAND_OK)
        fail_msg("%s: %s", sql, PQerrorMessage(c));
    PQfinish(c);
    return r;
}

int64_t fixture_number(const char *sql)
{
    PGresult *r = exec(sql);
    int64_t v = PQntuples(r) ? strtoll(PQgetvalue(r, 0, 0), NULL, 10) : -1;
    PQclear(r);
    return v;
}

void fixture_execute(const char *sql)
{
    PQclear(exec(sql));
}

struct orders *fixture_orders;

int fixture_port_setup(void **state)
{
    if (fixture_setup(state))
        return -1;
    fixture_orders = fixture_port(fixture_pg.conninfo);
    return 0;
}

int fixture_port_teardown(void **state)
{
    pg_orders_free(fixture_orders);
    return fixture_teardown(state);
}

void fixture_place(struct item item, struct orders_row *rows, int n)
{
    struct ctx ctx = fixture_ctx(60000000);
    struct orders_timing timing;
    assert_int_equal(fixture_orders->ops->place(fixture_orders, &ctx, item, rows, n, &timing), 0);
}
