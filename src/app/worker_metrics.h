/* The metrics of the worker's flows, with the seed's names (000 §12.2). What an adapter knows
 * better it counts itself: receives and backlog in the queue's, connections and transactions in
 * pg's. Loop thread. */
#pragma once

#include "app/reconcile_findings.h"
#include "base/metric.h"
#include "core/verdict.h"
#include "port/orders.h"

/* What became of a message, as a label. */
enum work_outcome {
    OUTCOME_CREATED,
    OUTCOME_DUPLICATE,
    OUTCOME_REJECTED,
    OUTCOME_RETRY,       /* back to the queue, uncounted: an outage */
    OUTCOME_FAILED,      /* back to the queue, one own failure counted */
    OUTCOME_COMMAND,     /* a cancel or a payment, decided or parked now */
    OUTCOME_QUARANTINED, /* stored among the dead letters */
    OUTCOME_DROPPED,     /* its lease was over before its turn */
    OUTCOMES
};

/* How a round of reconciliation ended. */
enum reconcile_round {
    RECONCILE_CLEAN,
    RECONCILE_DISCREPANCY,
    RECONCILE_SKIPPED, /* nothing to compare: the item is lost, or being rebuilt */
    RECONCILE_FAILED,
    RECONCILE_ROUNDS
};

struct worker_metrics {
    struct metric *inflight, *jobs_queue, *ack_failures;
    struct metric *delivery_attempt[4]; /* 1, 2–3, 4–7, 8 and more */
    struct metric *dead_letters;
    struct metric *process[OUTCOMES];
    struct metric *pg_empty_acquire, *pg_wait;
    struct metric *batch_limit, *tx_split;
    struct metric *tx_size, *tx_retries[3]; /* conflict, uncertain, unavailable */
    struct metric *breaker_open;
    struct metric *order_created, *order_delay, *order_rejected[REASONS];
    struct metric *commands[EVENT_COMMANDS][ORDERS_COMMAND_OUTCOMES]; /* NULL: cannot be */
    struct metric *expired, *sweep_failures;
    struct metric *settle_failures, *marks_dropped, *relayed, *relay_later;
    struct metric *pending, *republished, *voided, *resettled, *age_unknown, *commands_recovered;
    struct metric *results_published, *results_failures, *results_unmarked;
    struct metric *results_waiting, *results_age;
    struct metric *retained[ORDERS_TABLES], *retain_failures;
    struct metric *suspects, *returned, *extended;
    struct metric *recover_failures, *unreadable, *orphans, *unreadable_settles;
    struct metric *rebuilds[4], *rebuild_duration; /* enum rebuild_outcome */
    struct metric *epoch_looks, *items_lost, *items_ahead, *epoch_highest;
    struct metric *items, *items_surplus, *items_unlisted, *items_retired, *catalog_failures;
    struct metric *discrepancy[FINDING_KINDS], *mended[FINDING_KINDS];
    struct metric *reconcile_rounds[RECONCILE_ROUNDS], *reconcile_rows;
    struct metric *findings_dropped, *walk_republished;
};

void worker_metrics_init(struct worker_metrics *m);
