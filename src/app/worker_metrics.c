#include "app/worker_metrics.h"

#include <stdio.h>

static struct metric *counter(const char *name, const char *help)
{
    return metric_counter(name, help, NULL);
}

static struct metric *gauge(const char *name, const char *help)
{
    return metric_gauge(name, help, NULL);
}

static void init_labelled(struct worker_metrics *m)
{
    static const char *const outcomes[OUTCOMES] = {
        [OUTCOME_CREATED] = "outcome=\"created\"",
        [OUTCOME_DUPLICATE] = "outcome=\"duplicate\"",
        [OUTCOME_REJECTED] = "outcome=\"rejected\"",
        [OUTCOME_RETRY] = "outcome=\"retry\"",
        [OUTCOME_FAILED] = "outcome=\"failed\"",
        [OUTCOME_COMMAND] = "outcome=\"command\"",
        [OUTCOME_QUARANTINED] = "outcome=\"quarantined\"",
        [OUTCOME_DROPPED] = "outcome=\"dropped\"",
    };
    for (int i = 0; i < OUTCOMES; i++)
        m->process[i] =
            metric_histogram("seckill_mq_process_duration_seconds",
                             "From receiving a message to its outcome.", outcomes[i], NULL, 0);
    static const char *const attempts[4] = {"bucket=\"1\"", "bucket=\"2-3\"", "bucket=\"4-7\"",
                                            "bucket=\"8+\""};
    for (int i = 0; i < 4; i++)
        m->delivery_attempt[i] =
            metric_counter("seckill_mq_delivery_attempt",
                           "Messages received, by the broker's count of deliveries.", attempts[i]);
    static const char *const errors[3] = {"error=\"conflict\"", "error=\"uncertain\"",
                                          "error=\"unavailable\""};
    for (int i = 0; i < 3; i++)
        m->tx_retries[i] = metric_counter("seckill_worker_tx_retries_total",
                                          "Order transactions run again, by cause.", errors[i]);
    for (int r = 0; r < REASONS; r++) {
        char label[64];
        struct str name = verdict_reason_name((enum verdict_reason)r);
        if (r == REASON_NONE)
            continue;
        snprintf(label, sizeof label, "reason=\"" STR_FMT "\"", STR_ARG(name));
        m->order_rejected[r] = metric_counter("seckill_order_rejected_total",
                                              "Requests that ended without an order.", label);
    }
}

static void init_commands(struct worker_metrics *m)
{
    static const struct {
        enum event_command command;
        enum orders_command_outcome outcome;
        const char *labels;
    } rows[] = {
        {EVENT_CANCEL, ORDERS_CANCELLED, "command=\"cancel\",result=\"cancelled\""},
        {EVENT_CANCEL, ORDERS_ALREADY, "command=\"cancel\",result=\"already\""},
        {EVENT_CANCEL, ORDERS_REFUSED, "command=\"cancel\",result=\"refused\""},
        {EVENT_CANCEL, ORDERS_NOTHING, "command=\"cancel\",result=\"nothing\""},
        {EVENT_CANCEL, ORDERS_PARKED, "command=\"cancel\",result=\"parked\""},
        {EVENT_PAY, ORDERS_PAID, "command=\"pay\",result=\"paid\""},
        {EVENT_PAY, ORDERS_REFUNDED, "command=\"pay\",result=\"refunded\""},
        {EVENT_PAY, ORDERS_REFUSED, "command=\"pay\",result=\"refused\""},
        {EVENT_PAY, ORDERS_PARKED, "command=\"pay\",result=\"parked\""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        m->commands[rows[i].command][rows[i].outcome] =
            metric_counter("seckill_order_commands_total",
                           "Cancels and payments, by what became of them.", rows[i].labels);
    m->expired = counter("seckill_order_expired_total", "Unpaid orders closed by this process.");
    m->sweep_failures = counter("seckill_sweep_failures_total",
                                "Sweeps of parked commands and unpaid orders that failed.");
}

static void init_reconcile(struct worker_metrics *m)
{
    static const char *const rounds[RECONCILE_ROUNDS] = {
        [RECONCILE_CLEAN] = "outcome=\"clean\"",
        [RECONCILE_DISCREPANCY] = "outcome=\"discrepancy\"",
        [RECONCILE_SKIPPED] = "outcome=\"skipped\"",
        [RECONCILE_FAILED] = "outcome=\"failed\"",
    };
    for (int k = 0; k < FINDING_KINDS; k++) {
        char label[48];
        snprintf(label, sizeof label, "kind=\"%s\"", finding_kind_name((enum finding_kind)k));
        m->discrepancy[k] =
            metric_gauge("seckill_inventory_discrepancy",
                         "Units or reservations that two rounds found not to agree.", label);
        m->mended[k] = metric_counter("seckill_reconcile_mended_total",
                                      "Findings that something was done about.", label);
    }
    for (int i = 0; i < RECONCILE_ROUNDS; i++)
        m->reconcile_rounds[i] = metric_counter("seckill_reconcile_rounds_total",
                                                "Rounds over one item, by outcome.", rounds[i]);
    m->reconcile_rows = counter("seckill_reconcile_rows_total", "Reservations compared.");
    m->findings_dropped = counter("seckill_reconcile_dropped_total",
                                  "Findings that there was no room for; they are found again.");
    m->walk_republished = counter("seckill_reconcile_republished_total",
                                  "Orders of Redis that PostgreSQL did not have, published again.");
}

static void init_results(struct worker_metrics *m)
{
    m->results_published =
        counter("seckill_results_published_total", "Results that arrived on the result topic.");
    m->results_failures =
        counter("seckill_results_failures_total",
                "Results that did not, or of which nobody knows; they come again.");
    m->results_unmarked = counter("seckill_results_unmarked_total",
                                  "Results published and not marked so; they come again.");
    m->results_waiting =
        gauge("seckill_results_unpublished", "Settled outcomes that the result topic has not got.");
    m->results_age = gauge("seckill_results_oldest_age_seconds", "Age of the oldest of them.");
    metric_set_unknown(m->results_waiting);
    metric_set_unknown(m->results_age);
}

static void init_retention(struct worker_metrics *m)
{
    for (int t = 0; t < ORDERS_TABLES; t++) {
        char label[64];
        snprintf(label, sizeof label, "table=\"%s\"", orders_table_name((enum orders_table)t));
        m->retained[t] = t == ORDERS_T_ITEMS ? counter("seckill_retention_items_total",
                                                       "Items of which nothing is left to take.")
                                             : metric_counter("seckill_retention_rows_total",
                                                              "Rows that retention took.", label);
    }
    m->retain_failures =
        counter("seckill_retention_failures_total", "Batches of retention that failed.");
}

static void init_rebuild(struct worker_metrics *m)
{
    static const double seconds[] = {0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100};
    static const char *const outcomes[] = {"outcome=\"done\"", "outcome=\"moved\"",
                                           "outcome=\"busy\"", "outcome=\"failed\""};
    for (int i = 0; i < 4; i++)
        m->rebuilds[i] = metric_counter("seckill_rebuild_total",
                                        "Attempts to rebuild an item in Redis.", outcomes[i]);
    m->rebuild_duration =
        metric_histogram("seckill_rebuild_duration_seconds",
                         "From the beginning of a rebuild to its end.", NULL, seconds, 10);
    m->epoch_looks =
        counter("seckill_epoch_looks_total", "Looks whether Redis still has all items.");
    m->items_lost =
        gauge("seckill_items_lost", "Items that Redis lost or rolled back, in the last look.");
    m->items_ahead = gauge("seckill_items_ahead",
                           "Items at a newer epoch in Redis than in PostgreSQL, in the last look.");
    m->epoch_highest = gauge("seckill_item_epoch_highest",
                             "The highest epoch of an item: one and the number of its rebuilds.");
}

void worker_metrics_init(struct worker_metrics *m)
{
    static const double sizes[] = {1, 2, 4, 8, 16, 32, 64, 128, 256};
    init_labelled(m);
    init_commands(m);
    init_reconcile(m);
    init_results(m);
    init_retention(m);
    init_rebuild(m);
    m->inflight = gauge("seckill_mq_inflight_messages", "Messages in hand, not acknowledged.");
    m->jobs_queue = gauge("seckill_mq_jobs_queue_size", "Of these, waiting for their turn.");
    m->ack_failures =
        counter("seckill_mq_ack_failures_total", "Acknowledgements given up; redelivery follows.");
    m->dead_letters = counter("seckill_mq_dlq_messages_total", "Messages stored as dead letters.");
    m->pg_empty_acquire =
        counter("seckill_pg_empty_acquire_count", "Jobs that found every connection busy.");
    m->pg_wait = metric_histogram("seckill_pg_acquire_wait_seconds", "Jobs' wait for a connection.",
                                  NULL, NULL, 0);
    m->tx_size = metric_histogram("seckill_worker_batch_size", "Messages per order transaction.",
                                  NULL, sizes, 9);
    m->batch_limit = gauge("seckill_worker_batch_limit",
                           "Messages that a transaction may have: as many as are done in time.");
    m->tx_split = counter("seckill_worker_tx_split_total",
                          "Order transactions that took too long; their rows ran in smaller ones.");
    m->breaker_open = gauge("seckill_pg_breaker_open", "1 while PostgreSQL is taken for unusable.");
    m->order_created = counter("seckill_order_created_total", "Orders created.");
    m->order_delay =
        metric_histogram("seckill_order_creation_delay_seconds",
                         "From the accepted request to its committed order.", NULL, NULL, 0);
    m->settle_failures = counter("seckill_settle_failures_total",
                                 "Outcomes not written to Redis at once; the relay follows.");
    m->marks_dropped =
        counter("seckill_marks_dropped_total", "Settled rows not marked; the relay follows.");
    m->relayed = counter("seckill_relay_rows_total", "Outbox rows settled by the relay.");
    m->relay_later =
        counter("seckill_relay_later_total", "Outbox rows put off: their item is being rebuilt.");
    m->pending = gauge("seckill_reservation_pending_total", "Unsettled reservations of all items.");
    metric_set_unknown(m->pending);
    m->republished = counter("seckill_recover_republished_total", "Events published again.");
    m->voided = counter("seckill_recover_voided_total", "Reservations given up and released.");
    m->resettled =
        counter("seckill_recover_resettled_total", "Reservations settled again by recovery.");
    m->commands_recovered =
        counter("seckill_recover_commands_total",
                "Cancels and payments that the queue had lost, run from what Redis remembers.");
    m->age_unknown = gauge("seckill_recover_age_unknown",
                           "Reservations whose place in the queue was unknown in the last look.");
    m->suspects = counter("seckill_suspects_total",
                          "Messages that were held apart: they may end the process.");
    m->returned = counter("seckill_mq_returned_total",
                          "Messages from the broker's dead letter queue, published again.");
    m->extended = counter("seckill_mq_lease_extended_total", "Leases prolonged.");
    m->recover_failures = counter("seckill_recover_failures_total",
                                  "Looks of recovery that failed; its turn comes again.");
    m->unreadable = gauge("seckill_recover_unreadable",
                          "Pending reservations that could not be read in the last look.");
    m->orphans =
        counter("seckill_recover_orphans_total",
                "Pending entries without a record, taken away after a look into the inbox.");
    m->unreadable_settles = counter("seckill_settle_unreadable_total",
                                    "Outcomes not written: the reservation cannot be read.");
    m->items = gauge("seckill_items", "Items that are served.");
    m->items_surplus =
        gauge("seckill_items_surplus", "Items that are listed and not served: worker.max_items.");
    m->items_unlisted = gauge("seckill_items_unlisted",
                              "Items that are warmed and not listed: Redis lost something.");
    m->items_retired = counter("seckill_items_retired_total", "Expired items taken off the list.");
    m->catalog_failures =
        counter("seckill_catalog_failures_total", "Readings of the catalogue that failed.");
}
