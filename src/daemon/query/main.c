#include "adapter/jwt/jwt.h"
#include "adapter/pg/pg.h"
#include "base/log.h"
#include "base/streams.h"
#include "daemon/common/crew_jobs.h"
#include "daemon/common/location_secret.h"
#include "daemon/common/program.h"
#include "daemon/query/query.h"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#define PROGRAM "query-api"

static const char usage[] =
    "usage: query-api [--config FILE] [--ports-file FILE] [--SETTING VALUE…]\n"
    "The buyers' read path: GET the state of requests, orders and items.\n"
    "  --ports-file FILE  writes \"query=PORT admin=PORT\" there when it listens\n";

/* Connections of its own, so that readers never take the worker's. */
static int start_crew(struct query *q)
{
    const struct settings *s = &q->settings;
    struct pg_config pg = {.conninfo =
                               s->query.pg_conninfo[0] ? s->query.pg_conninfo : s->pg.conninfo,
                           .connect_us = s->pg.connect_us,
                           .lifetime_us = s->pg.lifetime_us,
                           .lifetime_jitter_us = s->pg.lifetime_jitter_us,
                           .application = PROGRAM};
    while (q->n_orders < (int)s->query.pg_connections && q->n_orders < QUERY_PG_MAX) {
        q->orders[q->n_orders] = pg_orders_new(&pg);
        if (!q->orders[q->n_orders])
            return program_fail("the orders cannot be opened", "no memory");
        q->n_orders++;
    }
    q->crew = crew_jobs_crew(q->orders, q->n_orders, (int)s->query.pg_queue);
    return q->crew ? 0 : program_fail("the crew cannot start", "no threads");
}

static int start(struct query *q)
{
    char err[1024] = "", listen[CONF_STRING_MAX + 16];
    const struct settings *s = &q->settings;
    q->keys = jwt_keys_load(s->auth.keys, err, sizeof(err));
    if (!q->keys)
        return program_fail("no usable token keys (auth.keys)", err);
    if (location_secret_load(&q->location_keys, s->location.secret_file, err, sizeof(err)) < 0)
        return program_fail("no usable secret for location tokens", err);
    int rc = start_crew(q);
    if (rc)
        return rc;
    q->n_loops = program_loops((int)s->query.loops);
    if (control_init(&q->control, q, err, sizeof(err)) < 0)
        return program_fail("the control loop cannot start", err);
    q->loops = calloc((size_t)q->n_loops, sizeof(q->loops[0]));
    if (!q->loops)
        return program_fail("cannot start", "no memory");
    str_copy(listen, sizeof(listen), str_of(s->query.listen));
    for (int i = 0; i < q->n_loops; i++) {
        if (query_loop_init(&q->loops[i], q, i, listen, err, sizeof(err)) < 0)
            return program_fail("a data loop cannot start", err);
        if (program_with_port(listen, sizeof(listen), s->query.listen,
                              http_server_port(q->loops[0].server)) < 0)
            return program_fail("query.listen is too long", s->query.listen);
    }
    for (int i = 0; i < q->n_loops; i++) {
        if (serve_thread_start(&q->loops[i].thread) < 0)
            return program_fail("a data loop cannot start", "no thread");
    }
    return 0;
}

static int tell_ports(const struct query *q)
{
    char err[1024];
    int port = http_server_port(q->loops[0].server), admin = admin_port(q->control.admin);
    log_info("listening", LOG_I("port", port), LOG_I("admin_port", admin),
             LOG_I("loops", q->n_loops), LOG_I("connections", q->n_orders));
    struct program_port ports[] = {{"query", port}, {"admin", admin}};
    if (q->ports_file && program_write_ports(q->ports_file, ports, 2, err, sizeof(err)) < 0)
        return program_fail("the ports file cannot be written", err);
    return 0;
}

/* Whoever asks, then whom they asked, then what waits for those; the admin port last. */
static void end(struct query *q)
{
    for (int i = 0; q->loops && i < q->n_loops; i++)
        query_loop_stop(&q->loops[i]);
    control_stop(&q->control);
    crew_free(q->crew);
    for (int i = 0; q->loops && i < q->n_loops; i++)
        query_loop_deinit(&q->loops[i]);
    control_deinit(&q->control);
    for (int i = 0; i < q->n_orders; i++)
        pg_orders_free(q->orders[i]);
    free(q->loops);
    explicit_bzero(&q->location_keys, sizeof(q->location_keys));
    if (q->keys)
        jwt_keys_free(q->keys);
    conf_deinit(&q->conf);
}

int main(int argc, char **argv)
{
    static struct query query;
    streams_hold();
    signal(SIGPIPE, SIG_IGN);
    query.ports_file = program_take_option(&argc, argv, "--ports-file");
    int rc = settings_load(&query.settings, &query.conf, &argc, argv, PROGRAM, usage);
    if (rc >= 0) {
        conf_deinit(&query.conf);
        return rc;
    }
    rc = program_no_more(argc, argv, PROGRAM);
    if (rc == 0)
        rc = start(&query);
    if (rc == 0)
        rc = tell_ports(&query);
    if (rc == 0)
        control_run(&query.control);
    end(&query);
    if (rc == 0)
        log_info("stopped");
    return rc;
}
