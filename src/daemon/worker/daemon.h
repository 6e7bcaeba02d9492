/* order-worker. One loop (the main thread): signals, admin port, queue, stock and every flow; and a
 * crew of pg.connections threads with a connection each, and one more thread with its own
 * (worker.upkeep). Internal to daemon/worker. */
#pragma once

#include "app/worker.h"
#include "daemon/admin.h"
#include "daemon/common/event_queue.h"
#include "daemon/common/result_topic.h"
#include "daemon/settings.h"
#include "loop/loop.h"
#include "port/stock.h"

#define DAEMON_CREW_MAX 4

enum daemon_phase {
    DAEMON_STARTING,  /* until Redis, PostgreSQL and the queue have answered */
    DAEMON_RUNNING,   /* */
    DAEMON_ENDPOINTS, /* SIGTERM: not ready any more, still working (drain.endpoints) */
    DAEMON_FINISHING, /* nothing is received; what is in hand is finished (drain.worker) */
    DAEMON_CANCELED,  /* what is left goes unacked (drain.after_cancel) */
    DAEMON_CLOSING,   /* the consumer is removed where nothing is pending */
};

struct daemon {
    struct settings settings;
    struct conf conf;
    const char *ports_file; /* NULL: none is written */
    struct loop *loop;
    struct admin *admin;
    struct orders *orders[DAEMON_CREW_MAX];
    int n_orders;
    struct orders *upkeep; /* one more connection, for results and retention */
    struct event_queue queue;
    struct result_topic results;
    struct worker worker;
    enum daemon_phase phase;
    struct timer timer; /* the next phase */
    struct loop_signal term, interrupt;
    int64_t drain_started_us;
    bool started; /* the flows */
    int status;   /* of the process */

    struct admin_check redis_check, pg_check, catalog_check, queue_check, results_check;
    struct admin_check *checks[5];
    struct stock_probe redis_probe;
    struct share_job pg_probe;
    struct ctx pg_ctx;
    bool pg_probing, pg_answered;
    struct loop_task pg_refused, catalog_told, queue_told, results_told;
    struct event_queue_wait queue_wait;
    struct op close_queue, close_results;
    int closing; /* of them under way */
};

/* control.c: the phases and the readiness checks. */
int control_init(struct daemon *d, char *err, size_t err_cap); /* signals and the admin port */
void control_run(struct daemon *d);                            /* until drained */
void control_deinit(struct daemon *d);                         /* the admin port, last */
