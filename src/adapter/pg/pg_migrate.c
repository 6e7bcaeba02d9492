/* Schema migrations: sql/NNNN_*.sql, embedded at build time. Blocking and straight-line, for
 * seckillctl, on a direct connection of its own: it needs session locks and settings, which
 * PgBouncer in transaction mode does not give. */
#include "adapter/pg/pg.h"
#include "adapter/pg/pg_migrations.h"
#include "base/log.h"
#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>

/* Any number, the same in every build: "seckill" on a telephone. */
#define MIGRATION_LOCK "73254550"

struct migrator {
    PGconn *pg;
    char *err;
    size_t err_cap;
};

static void finish(struct migrator *m)
{
    PQfinish(m->pg);
}
static void clear(PGresult **r)
{
    PQclear(*r);
}
#define RESULT __attribute__((cleanup(clear))) PGresult *

static int fail(struct migrator *m, int rc, const char *what, const char *detail)
{
    snprintf(m->err, m->err_cap, "%s: %.*s", what, (int)strcspn(detail, "\n"), detail);
    return rc;
}

static void on_notice(void *arg, const PGresult *r)
{
    (void)arg;
    const char *severity = PQresultErrorField(r, PG_DIAG_SEVERITY_NONLOCALIZED);
    const char *text = PQresultErrorField(r, PG_DIAG_MESSAGE_PRIMARY);
    if (severity && strcmp(severity, "WARNING") == 0)
        log_warn("migration", LOG_Z("detail", text ? text : ""));
}

static int open_connection(struct migrator *m, const char *conninfo)
{
    const char *keys[] = {"connect_timeout", "dbname", "application_name", "client_encoding", NULL};
    const char *values[] = {"10", conninfo, "seckill-migrate", "UTF8", NULL};
    m->pg = PQconnectdbParams(keys, values, 1);
    if (PQstatus(m->pg) != CONNECTION_OK)
        return fail(m, ERR_UNAVAIL, "cannot connect", PQerrorMessage(m->pg));
    PQsetNoticeReceiver(m->pg, on_notice, NULL);
    return 0;
}

/* Statements without a result that matters. */
static int execute(struct migrator *m, const char *what, const char *sql)
{
    RESULT r = PQexec(m->pg, sql);
    ExecStatusType s = PQresultStatus(r);
    if (s == PGRES_COMMAND_OK || s == PGRES_TUPLES_OK)
        return 0;
    return fail(m, PQstatus(m->pg) == CONNECTION_OK ? ERR_INVALID : ERR_UNAVAIL, what,
                PQerrorMessage(m->pg));
}

/* One statement with text parameters that returns rows; NULL on a failure. */
static PGresult *ask(struct migrator *m, const char *sql, int n, const char *const *values)
{
    PGresult *r = PQexecParams(m->pg, sql, n, NULL, values, NULL, NULL, 0);
    if (PQresultStatus(r) == PGRES_TUPLES_OK)
        return r;
    fail(m, ERR_UNAVAIL, "cannot read the schema's version", PQerrorMessage(m->pg));
    PQclear(r);
    return NULL;
}

/* A pooler answers with a key of its own, not with the process that runs our statements: its
 * session lock could stay behind on a connection that others get, and settings would not hold. */
static int refuse_pooler(struct migrator *m)
{
    RESULT r = ask(m, "SELECT pg_backend_pid()", 0, NULL);
    if (!r)
        return ERR_UNAVAIL;
    if (atoi(PQgetvalue(r, 0, 0)) == PQbackendPID(m->pg))
        return 0;
    return fail(m, ERR_DENIED, "this connection goes through a pooler",
                "migrations need one to PostgreSQL itself");
}

/* Compares what is applied with this build: *applied is how many there are, each with the same text
 * as here. */
static int compare(struct migrator *m, int *applied)
{
    *applied = 0;
    RESULT there = ask(m, "SELECT to_regclass('schema_version') IS NOT NULL", 0, NULL);
    if (!there)
        return ERR_UNAVAIL;
    if (PQgetvalue(there, 0, 0)[0] != 't')
        return 0;
    RESULT rows =
        ask(m, "SELECT version, name, checksum FROM schema_version ORDER BY version", 0, NULL);
    if (!rows)
        return ERR_UNAVAIL;
    for (int i = 0; i < PQntuples(rows); i++) {
        int version = atoi(PQgetvalue(rows, i, 0));
        if (version > pg_migrations_n || version != i + 1) {
            snprintf(
                m->err, m->err_cap,
                version > pg_migrations_n
                    ? "the database is newer than this build: it has version %d, known here are %d"
                    : "schema_version holds %d after %d versions",
                version, version > pg_migrations_n ? pg_migrations_n : i);
            return ERR_CONFLICT;
        }
        const struct pg_migration *known = &pg_migrations[i];
        RESULT sum =
            ask(m, "SELECT encode(sha256(convert_to($1, 'UTF8')), 'hex')", 1, &known->text);
        if (!sum)
            return ERR_UNAVAIL;
        if (strcmp(PQgetvalue(sum, 0, 0), PQgetvalue(rows, i, 2)) != 0) {
            snprintf(m->err, m->err_cap,
                     "migration %s was applied with another text than this build has", known->name);
            return ERR_CONFLICT;
        }
    }
    *applied = PQntuples(rows);
    return 0;
}

static int apply(struct migrator *m, int index)
{
    const struct pg_migration *x = &pg_migrations[index];
    int rc = execute(m, x->name, "BEGIN");
    if (!rc)
        rc = execute(m, x->name, x->text);
    if (!rc) {
        char version[16];
        snprintf(version, sizeof version, "%d", index + 1);
        const char *values[] = {version, x->name, x->text};
        RESULT r = ask(m,
                       "INSERT INTO schema_version (version, name, checksum) "
                       "VALUES ($1::integer, $2, encode(sha256(convert_to($3, 'UTF8')), 'hex')) "
                       "RETURNING version",
                       3, values);
        rc = r ? execute(m, x->name, "COMMIT") : ERR_UNAVAIL;
    }
    if (!rc)
        log_info("migration applied", LOG_Z("name", x->name));
    return rc; /* a failure: the connection is closed, which rolls back */
}

/* Limits of the role in this database, for connections to come: a statement whose client is gone or
 * stuck must not hold the hot row. Whatever the role may not set is told and left. */
static const char settings[] =
    "DO $$ DECLARE s record; BEGIN FOR s IN SELECT * FROM (VALUES ('deadlock_timeout', '100ms'), "
    "('lock_timeout', '2s'), "
    "('statement_timeout', '10s'), ('idle_in_transaction_session_timeout', '5s'), "
    "('client_connection_check_interval', '500ms')) AS v (name, value) LOOP BEGIN "
    "EXECUTE format('ALTER ROLE %I IN DATABASE %I SET %I = %L', current_user, current_database(), "
    "s.name, s.value); "
    "EXCEPTION WHEN insufficient_privilege THEN "
    "RAISE WARNING 'role % may not set % to %: ask a superuser to', current_user, s.name, s.value; "
    "END; END LOOP; END $$";

int pg_migrate(const char *conninfo, char *err, size_t err_cap)
{
    __attribute__((cleanup(finish))) struct migrator m = {.err = err, .err_cap = err_cap};
    err[0] = 0;
    int rc = open_connection(&m, conninfo);
    if (!rc)
        rc = refuse_pooler(&m);
    if (!rc)
        rc = execute(&m, "settings",
                     "SET statement_timeout = 0; SET idle_in_transaction_session_timeout = 0; SET "
                     "lock_timeout = '60s'");
    if (!rc) /* whoever else migrates is waited for; released with the connection */
        rc = execute(&m, "another migration does not end",
                     "SELECT pg_advisory_lock(" MIGRATION_LOCK ")");
    int applied = 0;
    if (!rc)
        rc = compare(&m, &applied);
    if (!rc)
        rc = execute(
            &m, "schema_version",
            "CREATE TABLE IF NOT EXISTS schema_version (version INTEGER PRIMARY KEY, name TEXT NOT "
            "NULL, "
            "checksum TEXT NOT NULL, applied_at TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(), "
            "applied_by TEXT NOT NULL DEFAULT session_user)");
    int n = 0;
    for (int i = applied; !rc && i < pg_migrations_n; i++, n++)
        rc = apply(&m, i);
    if (!rc)
        rc = execute(&m, "settings of the role", settings);
    return rc ? rc : n;
}

int pg_check_schema(const char *conninfo, char *err, size_t err_cap)
{
    __attribute__((cleanup(finish))) struct migrator m = {.err = err, .err_cap = err_cap};
    err[0] = 0;
    int rc = open_connection(&m, conninfo);
    int applied = 0;
    if (!rc)
        rc = compare(&m, &applied);
    if (!rc && applied < pg_migrations_n) {
        snprintf(err, err_cap, "the database has %d of %d migrations: run seckillctl migrate",
                 applied, pg_migrations_n);
        rc = ERR_CONFLICT;
    }
    return rc;
}
