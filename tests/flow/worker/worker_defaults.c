#include "worker_defaults.h"

#define MS INT64_C(1000)
#define S (1000 * MS)

struct worker_config worker_defaults(void)
{
    return (struct worker_config){
        .workers = 32,
        .queue = 64,
        .receive_max = 16,
        .batch_max = 256,
        .batch_target_us = 200 * MS,
        .max_attempts = 8,
        .poll_us =
            4700 * MS, /* not a part of the lease: the fake loses what comes as a poll ends */
        .backoff_min_us = 20 * MS,
        .backoff_max_us = 1 * S,
        .tx_budget_us = 800 * MS,
        .retry_base_us = 20 * MS,
        .retry_max_us = 200 * MS,
        .tx_attempts = 3,
        .retry_percent = 5,
        .retry_floor = 10,
        .ack_attempts = 2,
        .ack_base_us = 10 * MS,
        .ack_max_us = 50 * MS,
        .store_us = 500 * MS,
        .redeliver_base_us = 200 * MS,
        .redeliver_max_us = 5 * S,
        .lease_margin_us = 2 * S,
        .breaker_threshold = 5,
        .breaker_cooldown_us = 500 * MS,
        .probe_us = 1 * S,
        .relay_after_us = 200 * MS,
        .relay_interval_us = 200 * MS,
        .relay_batch = 256,
        .recover_after_us = 5 * S,
        .recover_interval_us = 1 * S,
        .recover_unknown_age_us = 60 * S,
        .recover_rate = 200,
        .max_republish = 5,
        .max_hold_us = 600 * S,
        .unpaid_us = 900 * S,
        .parked_give_up_us = 1800 * S,
        .reconcile_interval_us = 3600 * S, /* the tests of reconciliation say otherwise */
        .reconcile_rate = 2000,
        .reconcile_mend = true,
        .results_interval_us = 200 * MS,
        .items_refresh_us = 500 * MS,
        .rebuild_drain_us = 5 * S,
        .max_items = 64,
    };
}
