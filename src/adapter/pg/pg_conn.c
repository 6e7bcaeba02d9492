#include "adapter/pg/pg_conn.h"

#include "adapter/pg/pg_cancel.h"
#include "adapter/pg/pg_metrics.h"
#include "adapter/pg/pg_sqlstate.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/panic.h"
#include "core/retry.h"
#include <errno.h>
#include <poll.h>
#include <stdlib.h>

/* How long a wait lasts at most before the ctx is looked at again: another thread may have
 * cancelled it. */
#define SLICE_MS 20
#define CONNECT_TRIES 3
#define CONNECT_BACKOFF_US 20000
#define CONNECT_BACKOFF_MAX_US 200000

static char *copy(const char *s)
{
    char *d = strdup(s ? s : "");
    if (!d)
        panic("pg: no memory");
    return d;
}

void pg_conn_init(struct pg_conn *c, const struct pg_config *config)
{
    *c = (struct pg_conn){
        .conninfo = copy(config->conninfo),
        .application = copy(config->application),
        .connect_us = config->connect_us,
        .lifetime_us = config->lifetime_us,
        .lifetime_jitter_us = config->lifetime_jitter_us,
    };
    pg_metrics_init();
    strbuf_init(&c->buf, PG_PARAMETERS_MAX);
    rng_init(&c->rng);
}

static void close_connection(struct pg_conn *c)
{
    if (!c->pg)
        return;
    PQfinish(c->pg);
    c->pg = NULL;
    pg_metrics_connections(-1);
}

void pg_conn_deinit(struct pg_conn *c)
{
    close_connection(c);
    strbuf_deinit(&c->buf);
    free(c->conninfo);
    free(c->application);
}

/* Waits for the socket, at most a slice. 0: look again; else the ctx's error. */
static int wait_socket(const struct ctx *ctx, int fd, short events)
{
    int64_t now = clock_mono_us();
    int rc = ctx_check(ctx, now);
    if (rc)
        return rc;
    int64_t left_ms = ctx_left_us(ctx, now) / 1000 + 1;
    struct pollfd p = {.fd = fd, .events = events};
    /* EINTR and the like: the caller looks again. */
    poll(&p, fd >= 0 ? 1 : 0, left_ms < SLICE_MS ? (int)left_ms : SLICE_MS);
    return 0;
}

static int wait_until(const struct ctx *ctx, int64_t until_us)
{
    struct ctx until;
    ctx_init(&until, ctx, until_us);
    while (clock_mono_us() < until_us) {
        if (wait_socket(&until, -1, 0))
            return ctx_check(ctx, clock_mono_us());
    }
    return 0;
}

static void on_notice(void *arg, const PGresult *r)
{
    (void)arg;
    const char *text = PQresultErrorField(r, PG_DIAG_MESSAGE_PRIMARY);
    log_debug("notice of PostgreSQL", LOG_Z("detail", text ? text : ""));
}

static void note_failure(struct pg_conn *c, const char *what, const char *detail)
{
    static struct log_limit limit;
    size_t n = strcspn(detail, "\n");
    str_copy(c->detail, sizeof c->detail, (struct str){detail, n});
    uint64_t suppressed;
    if (log_allowed(&limit, clock_mono_us(), &suppressed))
        log_warn(what, LOG_Z("error_kind", c->sqlstate[0] ? c->sqlstate : "connection"),
                 LOG_Z("detail", c->detail), LOG_I("suppressed", (int64_t)suppressed));
}

/* One try, within connect_us and the ctx. */
static int connect_once(struct pg_conn *c, const struct ctx *parent)
{
    struct ctx ctx;
    int64_t now = clock_mono_us();
    ctx_init(&ctx, parent, now + c->connect_us);
    const char *keys[] = {"dbname", "fallback_application_name", "client_encoding", NULL};
    const char *values[] = {c->conninfo, c->application, "UTF8", NULL};
    c->sqlstate[0] = 0;
    PGconn *pg = PQconnectStartParams(keys, values, 1);
    if (!pg)
        panic("pg: no memory");
    PQsetNoticeReceiver(pg, on_notice, NULL);
    int rc = 0;
    if (PQstatus(pg) == CONNECTION_BAD)
        rc = ERR_UNAVAIL;
    for (PostgresPollingStatusType s = PGRES_POLLING_WRITING; !rc && s != PGRES_POLLING_OK;) {
        /* The wait is repeated until the socket is ready: PQconnectPoll may only be called then. */
        struct pollfd p = {.fd = PQsocket(pg),
                           .events = s == PGRES_POLLING_READING ? POLLIN : POLLOUT};
        rc = wait_socket(&ctx, p.fd, p.events);
        if (rc)
            break;
        if (poll(&p, 1, 0) <= 0)
            continue;
        s = PQconnectPoll(pg);
        if (s == PGRES_POLLING_FAILED)
            rc = ERR_UNAVAIL;
    }
    if (rc) {
        /* The parent's own end is told as such; a connection that took too long is an unreachable
         * server. */
        int own = ctx_check(parent, clock_mono_us());
        note_failure(c, "cannot connect to PostgreSQL", own ? err_name(own) : PQerrorMessage(pg));
        PQfinish(pg);
        return own ? own : ERR_UNAVAIL;
    }
    PQsetnonblocking(pg, 1);
    c->pg = pg;
    c->retire_us = clock_mono_us() + c->lifetime_us - c->lifetime_jitter_us +
                   (int64_t)(c->lifetime_jitter_us > 0
                                 ? rng_below(&c->rng, 2 * (uint64_t)c->lifetime_jitter_us)
                                 : 0);
    pg_metrics_connections(1);
    return 0;
}

/* Whether the idle connection is still there. Whatever there is to read on it means that it is not:
 * last words or the end of file. (A changed setting after a reload is told too; that costs one
 * connection.) */
static bool alive(const struct pg_conn *c)
{
    struct pollfd p = {.fd = PQsocket(c->pg), .events = POLLIN};
    return poll(&p, 1, 0) == 0 && PQtransactionStatus(c->pg) == PQTRANS_IDLE;
}

static int ensure_connection(struct pg_conn *c, const struct ctx *ctx)
{
    int rc = ctx_check(ctx, clock_mono_us());
    if (rc)
        return rc;
    if (c->pg && (clock_mono_us() >= c->retire_us || !alive(c)))
        close_connection(c);
    for (int try = 0; !c->pg; try++) {
        rc = connect_once(c, ctx);
        if (rc != ERR_UNAVAIL || try + 1 == CONNECT_TRIES)
            return rc;
        int64_t pause = retry_delay_us(&c->rng, CONNECT_BACKOFF_US, CONNECT_BACKOFF_MAX_US, try);
        if (wait_until(ctx, clock_mono_us() + pause))
            return ERR_UNAVAIL;
    }
    return 0;
}

/* Everything out. An incomplete statement lacks its Sync: the server never commits it. */
static int send_all(struct pg_conn *c, const struct ctx *ctx)
{
    for (;;) {
        int more = PQflush(c->pg);
        if (more < 0)
            return ERR_UNAVAIL;
        if (more == 0)
            return 0;
        int rc = wait_socket(ctx, PQsocket(c->pg), POLLIN | POLLOUT);
        if (rc)
            return rc;
        if (!PQconsumeInput(c->pg)) /* so that both ends cannot wait for one another to read */
            return ERR_UNAVAIL;
    }
}

static void take_failure(struct pg_conn *c, const PGresult *r)
{
    const char *state = PQresultErrorField(r, PG_DIAG_SQLSTATE);
    const char *constraint = PQresultErrorField(r, PG_DIAG_CONSTRAINT_NAME);
    str_copy(c->sqlstate, sizeof c->sqlstate, str_of(state ? state : ""));
    if (constraint && strcmp(c->sqlstate, "SK001") == 0)
        str_copy(c->operation, sizeof c->operation, str_of(constraint));
}

/* Reads until the server is ready again. 0: *out; ERR_*: by SQLSTATE; 1: the connection was lost;
 * the ctx's error. */
static int read_all(struct pg_conn *c, const struct ctx *ctx, PGresult **out)
{
    PG_RESULT last = NULL;
    PG_RESULT failure = NULL;
    for (;;) {
        while (PQisBusy(c->pg)) {
            int rc = wait_socket(ctx, PQsocket(c->pg), POLLIN);
            if (rc)
                return rc;
            if (!PQconsumeInput(c->pg)) {
                /* What the server said before it went is in the buffer: PQgetResult gives it below.
                 */
                break;
            }
        }
        PGresult *r = PQgetResult(c->pg);
        if (!r)
            break;
        ExecStatusType s = PQresultStatus(r);
        PGresult **keep = s == PGRES_TUPLES_OK || s == PGRES_COMMAND_OK ? &last : &failure;
        PQclear(*keep);
        *keep = r;
    }
    if (failure)
        take_failure(c, failure);
    if (PQstatus(c->pg) != CONNECTION_OK) {
        note_failure(c, "connection to PostgreSQL lost", PQerrorMessage(c->pg));
        return 1;
    }
    if (failure) {
        note_failure(c, "PostgreSQL refused", PQresultErrorMessage(failure));
        return pg_sqlstate_rc(c->sqlstate);
    }
    if (!last)
        return ERR_INTERNAL;
    *out = last;
    last = NULL;
    return 0;
}

/* *close_after: the connection is of no use any more. */
static int run(struct pg_conn *c, const struct ctx *ctx, enum pg_effect effect, const char *sql,
               const struct pg_args *args, PGresult **out, bool *close_after)
{
    int rc = ERR_UNAVAIL;
    if (PQsendQueryParams(c->pg, sql, args->n, args->types, args->values, args->lengths,
                          args->formats, 1))
        rc = send_all(c, ctx);
    if (rc) {
        *close_after = true;
        return rc;
    }
    rc = read_all(c, ctx, out);
    *close_after = rc == 1 || rc == ERR_DEADLINE || rc == ERR_CANCELED;
    if (!*close_after)
        return rc;
    if (rc != 1)
        pg_cancel_detached(c->pg);
    if (effect == PG_WRITES)
        return ERR_UNCERTAIN;
    return rc == 1 ? ERR_UNAVAIL : rc;
}

static int query(struct pg_conn *c, const struct ctx *ctx, enum pg_effect effect, const char *sql,
                 struct pg_args *args, PGresult **out)
{
    c->sqlstate[0] = c->operation[0] = 0;
    int rc = pg_args_finish(args);
    if (!rc)
        rc = ensure_connection(c, ctx);
    if (rc)
        return rc;
    bool close_after = false;
    pg_metrics_busy(1);
    rc = run(c, ctx, effect, sql, args, out, &close_after);
    pg_metrics_busy(-1);
    if (close_after)
        close_connection(c);
    return rc;
}

int pg_conn_query(struct pg_conn *c, const struct ctx *ctx, enum pg_effect effect, const char *sql,
                  struct pg_args *args, const char *kinds, PGresult **out)
{
    *out = NULL;
    int rc = query(c, ctx, effect, sql, args, out);
    if (rc == 0 && !pg_has_columns(*out, kinds)) {
        log_error("PostgreSQL answered in another shape", LOG_Z("detail", sql),
                  LOG_Z("expected", kinds));
        PQclear(*out);
        *out = NULL;
        rc = ERR_INTERNAL;
    }
    pg_metrics_result(rc, c->sqlstate, c->operation);
    return rc;
}
