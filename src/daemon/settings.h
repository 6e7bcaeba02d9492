/* Every setting of every program, in one struct filled from one table (settings.c). One file serves
 * all programs: each reads what concerns it. Loaded once at start, then read-only: any thread.
 * Durations in µs, sizes in bytes. */
#pragma once

#include "base/conf.h"
#include "base/log.h"

typedef char setting_text[CONF_STRING_MAX];

struct settings {
    setting_text instance; /* name in logs and metrics; "" → host name and pid */
    int log_level;         /* enum log_level */

    struct {
        setting_text listen, admin_listen;
        int64_t loops; /* 0: one per core */
        int64_t max_inflight;
        int64_t submit_us, hold_us, publish_us, hold_target_us;
        int publish_refused; /* enum settings_refused */
        bool hint;
        int64_t hint_max_buyers;
        int64_t instance_id; /* order ids: -1 = lease one in Redis */
        int64_t instance_lease_us;
        int64_t retry_percent, retry_floor;
        int64_t max_commands, command_us, commands_remembered;
    } api;

    struct {
        setting_text listen, admin_listen;
        int64_t loops;
        int64_t max_inflight;
        int64_t timeout_us;
        int64_t
            fallback_after_us; /* a non-terminal state older than this is looked up in PostgreSQL */
        int64_t pg_connections, pg_queue;
        int64_t pg_timeout_us;
        setting_text pg_conninfo; /* "" → pg.conninfo */
    } query;

    struct {
        setting_text admin_listen;
        int64_t workers, queue; /* in flight at most: their sum */
        int64_t receive_max, poll_us, backoff_min_us, backoff_max_us;
        int64_t batch_max, batch_target_us;
        int64_t max_attempts;
        int64_t tx_budget_us, tx_attempts, retry_base_us, retry_max_us, retry_percent, retry_floor;
        int64_t redeliver_base_us, redeliver_max_us, store_us;
        int64_t ack_attempts, ack_base_us, ack_max_us;
        int64_t lease_margin_us;
        int64_t breaker_threshold, breaker_cooldown_us;
        int64_t relay_after_us, relay_interval_us, relay_batch;
        int64_t recover_after_us, recover_interval_us, recover_unknown_age_us, recover_rate;
        int64_t max_hold_us, max_republish, quarantine_hold_us;
        int64_t items_refresh_us, max_items, rebuild_drain_us;
    } worker;

    struct {
        setting_text token_file; /* "" → no token */
    } admin;

    struct {
        int64_t header_us, read_us, write_us, idle_us;
        int64_t max_connections, max_header, max_body;
    } http;

    struct {
        setting_text keys, issuer, audience;
        int64_t leeway_us;
        int64_t token_cache;
    } auth;

    struct {
        setting_text secret_file;
        int64_t window_us;
    } payments;

    struct {
        setting_text secret_file;
    } location;

    struct {
        setting_text url;
        int64_t dial_us, reply_us, slot_us, stall_us, backoff_min_us, backoff_max_us;
        int64_t max_pending;
        bool allow_unsafe; /* start on a Redis that may lose what it confirmed: said loudly */
    } redis;

    struct {
        int kind; /* enum settings_queue */
        int64_t lease_us, trim_interval_us;
    } queue;

    struct {
        setting_text endpoints, endpoint_map, namesrv;
        setting_text topic, group, dead_group, results_topic;
        setting_text access_key, secret_key_file, ca_file;
        bool tls;
        int64_t lease_us, poll_us, request_us, send_us, max_sends, send_batch;
        int64_t refresh_us, heartbeat_us;
    } rocketmq;

    struct {
        setting_text conninfo;
        int64_t connections, connect_us, lifetime_us, lifetime_jitter_us, ping_us;
    } pg;

    struct {
        int64_t endpoints_us, http_us, worker_us, after_cancel_us;
    } drain;

    struct {
        int64_t unpaid_us, parked_give_up_us;
    } order;

    struct {
        int64_t interval_us, rate;
        bool mend;
    } reconcile;

    struct {
        int enabled; /* enum settings_results */
        int64_t interval_us, batch, stream_max, keep_us;
    } results;

    struct {
        bool enabled;
        int64_t after_us, strays_us, interval_us, idle_us, batch;
    } retention;

    struct {
        int64_t delivery_us, reconcile_us; /* keys live until ends + both */
    } item;
};

enum settings_queue { SETTINGS_QUEUE_REDIS_STREAM, SETTINGS_QUEUE_ROCKETMQ };
/* What becomes of a held unit whose event the queue certainly refused. */
enum settings_refused { SETTINGS_REFUSED_RECOVER, SETTINGS_REFUSED_STRICT };

enum settings_results { SETTINGS_RESULTS_AUTO, SETTINGS_RESULTS_ON, SETTINGS_RESULTS_OFF };
/* Whether there is a result topic. On RocketMQ it must have been created: only if asked for. */
static inline bool settings_results(const struct settings *s)
{
    if (s->results.enabled == SETTINGS_RESULTS_AUTO)
        return s->queue.kind == SETTINGS_QUEUE_REDIS_STREAM;
    return s->results.enabled == SETTINGS_RESULTS_ON;
}

extern const struct conf_option settings_table[];
extern const size_t settings_table_len;

/* What every program does first: defaults, then --config FILE (or SECKILL_CONFIG), environment,
 * flags; handles --help,
 * --version, --check-config. Returns -1 to go on, else the exit status. Words that are no setting
 * stay in argv. usage: the program's own lines above the settings. */
int settings_load(struct settings *s, struct conf *c, int *argc, char **argv, const char *program,
                  const char *usage);

/* Whether the settings make sense together (settings_check.c): 0, or ERR_INVALID with a message.
 * files: also whether the files that they name can be read; a program that does not need one is not
 * stopped by it. */
int settings_check(const struct settings *s, bool files, char *err, size_t err_cap);
/* rocketmq.secret_key_file's first line into dst; "" when there is none. As above. */
int settings_secret_key(const struct settings *s, char *dst, size_t cap, char *err, size_t err_cap);
