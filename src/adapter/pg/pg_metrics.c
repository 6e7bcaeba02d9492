#include "adapter/pg/pg_metrics.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/metric.h"
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static const char *const outcomes[] = {"ok", "conflict", "invalid", "uncertain", "unavailable"};
static const char *const states[] = {"40001", "40P01", "connection", "other"};
/* The row counts that sql/0002_place.sql checks. */
static const char *const operations[] = {"inbox",     "orders",  "conflicts", "outbox",
                                         "inventory", "surplus", "result"};

#define N(a) (sizeof(a) / sizeof((a)[0]))

static struct metric *tx[N(outcomes)], *retries[N(states)], *anomalies[N(operations)];
static const char *const steps[] = {"inbox", "orders", "inventory", "finish"};
static struct metric *step[N(steps)];
static struct metric *acquired, *idle, *unknown, *unreadable;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void init(void)
{
    char labels[64];
    for (size_t i = 0; i < N(outcomes); i++) {
        snprintf(labels, sizeof labels, "outcome=\"%s\"", outcomes[i]);
        tx[i] = metric_histogram("seckill_pg_tx_duration_seconds", "Order and void transactions.",
                                 labels, NULL, 0);
    }
    for (size_t i = 0; i < N(states); i++) {
        snprintf(labels, sizeof labels, "sqlstate=\"%s\"", states[i]);
        retries[i] = metric_counter("seckill_pg_tx_retries_total",
                                    "Calls that ended so that they are to be redone.", labels);
    }
    for (size_t i = 0; i < N(operations); i++) {
        snprintf(labels, sizeof labels, "operation=\"%s\"", operations[i]);
        anomalies[i] = metric_counter("seckill_pg_rows_affected_anomaly_total",
                                      "Row counts that cannot be.", labels);
    }
    acquired = metric_gauge("seckill_pg_acquired_connections", "Connections in a call.", NULL);
    idle =
        metric_gauge("seckill_pg_idle_connections", "Open connections that are in no call.", NULL);
    for (size_t i = 0; i < N(steps); i++) {
        snprintf(labels, sizeof labels, "step=\"%s\"", steps[i]);
        step[i] =
            metric_histogram("seckill_pg_step_duration_seconds",
                             "Steps of the order function, inside PostgreSQL.", labels, NULL, 0);
    }
    unreadable = metric_counter("seckill_pg_unreadable_rows_total",
                                "Rows passed over: their state or reason is not known.", NULL);
    unknown =
        metric_counter("seckill_pg_commit_unknown_total", "Writes whose answer was lost.", NULL);
}

void pg_metrics_init(void)
{
    pthread_once(&once, init);
}

void pg_metrics_connections(int change)
{
    metric_gauge_add(idle, change);
}

void pg_metrics_busy(int change)
{
    metric_gauge_add(acquired, change);
    metric_gauge_add(idle, -change);
}

static size_t index_of(const char *const *names, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++) {
        if (strcmp(names[i], name) == 0)
            return i;
    }
    return n;
}

void pg_metrics_result(int rc, const char *sqlstate, const char *operation)
{
    if (rc == ERR_UNCERTAIN) {
        metric_add(unknown, 1);
        metric_add(retries[2], 1);
    } else if (rc == ERR_CONFLICT) {
        size_t i = index_of(states, N(states), sqlstate);
        metric_add(retries[i < N(states) ? i : N(states) - 1], 1);
    } else if (rc == ERR_INVALID && operation[0]) {
        size_t i = index_of(operations, N(operations), operation);
        if (i < N(operations))
            metric_add(anomalies[i], 1);
    }
}

void pg_metrics_unreadable(const char *what, struct str state, struct str reason)
{
    static struct log_limit limit;
    uint64_t more;
    metric_add(unreadable, 1);
    if (log_allowed(&limit, clock_mono_us(), &more))
        log_error("row of PostgreSQL with a state or reason that is not known; it is passed over",
                  LOG_Z("table", what), LOG_S("state", state), LOG_S("reason", reason),
                  LOG_I("suppressed", (int64_t)more));
}

void pg_metrics_steps(const struct orders_timing *t)
{
    const int64_t us[N(steps)] = {t->inbox_us, t->orders_us, t->inventory_us, t->finish_us};
    for (size_t i = 0; i < N(steps); i++)
        metric_observe_us(step[i], us[i]);
}

void pg_metrics_tx(int rc, int64_t us)
{
    int i = rc >= 0                                   ? 0
            : rc == ERR_CONFLICT                      ? 1
            : rc == ERR_INVALID || rc == ERR_NOTFOUND ? 2
            : err_is_unknown(rc)                      ? 3
                                                      : 4;
    metric_observe_us(tx[i], us);
}
