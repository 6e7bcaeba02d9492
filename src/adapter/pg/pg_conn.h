/* One libpq connection: made when it is needed, every wait bounded by a ctx (poll on a non-blocking
 * socket), given up when an answer does not come in time. Statements are unnamed and autocommitted,
 * so that it works behind PgBouncer in transaction mode. One thread at a time.
 *
 * An answer counts only when the server is ready again after it: in the extended protocol "command
 * complete" is sent before the commit. */
#pragma once

#include "adapter/pg/pg.h"
#include "adapter/pg/pg_args.h"
#include "base/ctx.h"
#include "base/rng.h"

/* Upper bound of one statement's parameters. */
#define PG_PARAMETERS_MAX (16u << 20)

struct pg_conn {
    PGconn *pg; /* NULL: none */
    char *conninfo, *application;
    int64_t connect_us, lifetime_us, lifetime_jitter_us;
    int64_t retire_us; /* monotonic: not used any more from then on */
    struct strbuf buf; /* parameters */
    struct rng rng;
    char sqlstate[6];   /* of the last failure; "" when the server told none */
    char operation[32]; /* of an SK001: which row count was wrong; "" else */
    char detail[256];   /* the last failure, for people */
};

void pg_conn_init(struct pg_conn *c, const struct pg_config *config);
void pg_conn_deinit(struct pg_conn *c);

/* What a lost answer means: nothing (the statement only read), or that it may have been done. */
enum pg_effect { PG_READS, PG_WRITES };

/* Runs one statement. 0: *out is the result (to be cleared). Not done: ERR_CANCELED, ERR_DEADLINE,
 * ERR_UNAVAIL (and ERR_CONFLICT, ERR_INVALID by SQLSTATE). ERR_UNCERTAIN: it writes, was sent, and
 * the answer was lost; the connection is closed, and the server asked to cancel. kinds: the shape
 * of the result, see pg_has_columns; another one is ERR_INTERNAL. */
int pg_conn_query(struct pg_conn *c, const struct ctx *ctx, enum pg_effect effect, const char *sql,
                  struct pg_args *args, const char *kinds, PGresult **out);

static inline void pg_result_clear(PGresult **r)
{
    PQclear(*r);
}
#define PG_RESULT __attribute__((cleanup(pg_result_clear))) PGresult *
