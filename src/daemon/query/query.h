/* query-api: the buyers' read path. Internal to daemon/query.
 *
 * One control loop (main thread): signals, admin port, readiness. n data loops (threads), which
 * share nothing but the crew: each has its own HTTP server on the common port (SO_REUSEPORT), Redis
 * connection, token verifier and pool of look-ups. The crew (threads with a PostgreSQL connection
 * each, query.pg_connections) serves them all; query.pg_queue bounds what waits for it. */
#pragma once

#include "adapter/http/server.h"
#include "adapter/redis_stock/redis_stock.h"
#include "app/lookup.h"
#include "core/location_token.h"
#include "daemon/common/lifecycle.h"
#include "daemon/common/serve.h"
#include "daemon/settings.h"
#include "loop/crew.h"
#include "port/auth.h"

#define QUERY_PG_MAX 16

struct query;
struct jwt_keys;

/* --- a data loop --- */
struct query_loop {
    struct query *query;
    struct loop *loop;
    struct serve_thread thread;
    struct http_service service;
    struct http_server *server;
    struct stock *stock;
    struct jobs *jobs;
    struct auth *auth;
    struct reporter reporter;
    struct lookup_pool pool;
    bool pool_ready;
    struct loop_post drain, drained;
};

/* Everything but starting the thread. listen: the address with its port. 0, or an error with a
 * message. */
int query_loop_init(struct query_loop *d, struct query *q, int number, const char *listen,
                    char *err, size_t err_cap);
/* From control: no new connections, finish what is in hand; then control_on_drained. */
void query_loop_drain(struct query_loop *d);
/* The end in two steps, with the crew's end in between: it still hands reads back to the loops.
 * Harmless on what was never initialised. */
void query_loop_stop(struct query_loop *d);
void query_loop_deinit(struct query_loop *d);

/* --- requests.c --- */
extern const struct http_route requests_routes[];
extern const int requests_n_routes;
void requests_on_answer(struct lookup_pool *p, void *viewer, const struct lookup_answer *a);

/* --- render.c: bodies, into a buffer of RENDER_MAX --- */
#define RENDER_MAX 640
void render_request(struct strbuf *b, const struct lookup_answer *a);
void render_order(struct strbuf *b, const struct orders_order *o);
void render_item(struct strbuf *b, const struct lookup_answer *a);

/* --- the control loop --- */
struct control {
    struct query *query;
    struct loop *loop;
    struct lifecycle life;
    struct stock *stock;
    struct jobs *jobs;
    struct admin *admin;
    /* Readiness: each store is asked on the real path. Either is enough to be of use: with Redis
     * alone most requests are answered, with PostgreSQL alone those that have an outcome; the check
     * fails when both do, and says what is missing when one does. */
    struct admin_check check;
    struct admin_check *checks[1];
    struct stock_probe redis_probe;
    struct job pg_probe;
    struct ctx pg_ctx;
    struct loop_task pg_refused;
    int probing; /* of the two */
    int redis_rc, pg_rc;
    bool answered; /* a store has answered once */
    struct metric *redis_up, *pg_up;
};
int control_init(struct control *c, struct query *q, char *err, size_t err_cap);
void control_run(struct control *c);          /* until drained */
void control_stop(struct control *c);         /* before the crew ends */
void control_deinit(struct control *c);       /* after it; the admin port goes last */
void control_on_drained(struct loop_post *p); /* on the control loop: a data loop is done */

/* --- the process --- */
struct query {
    struct settings settings;
    struct conf conf;
    const char *ports_file; /* NULL: none is written */
    struct jwt_keys *keys;
    struct location_keys location_keys;
    struct orders *orders[QUERY_PG_MAX];
    int n_orders;
    struct crew *crew;
    struct control control;
    struct query_loop *loops;
    int n_loops;
};
