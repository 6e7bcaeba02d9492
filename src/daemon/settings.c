#include "daemon/settings.h"

#include "adapter/rocketmq/names.h"
#include "adapter/yaml/yaml_conf.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

extern char **environ;

#define AT(member) offsetof(struct settings, member)
#define MS 1000
#define S (INT64_C(1000) * 1000)
#define MIN (60 * S)

/* clang-format off */
const struct conf_option settings_table[] = {
    {"log.instance", CONF_STRING, AT(instance), "", 0, 64, .help = "name of this process in logs; empty: host name and pid"},
    {"log.level", CONF_ENUM, AT(log_level), "info", .choices = "debug|info|warn|error", .help = "least level that is written"},

    {"api.listen", CONF_STRING, AT(api.listen), "127.0.0.1:8080", 1, 256, .help = "address of the buyers' write path"},
    {"api.admin_listen", CONF_STRING, AT(api.admin_listen), "127.0.0.1:8081", 1, 256, .help = "address of seckill-api's admin port"},
    {"api.loops", CONF_INT, AT(api.loops), "0", 0, 256, .help = "event loops, each a thread; 0: one per core"},
    {"api.max_inflight", CONF_INT, AT(api.max_inflight), "4096", 1, 1000000, .help = "requests being worked on in this process; above: 429 OVERLOADED"},
    {"api.submit_timeout", CONF_DURATION, AT(api.submit_us), "90ms", 5 * MS, 10 * S, .help = "whole budget of POST /v1/orders"},
    {"api.hold_timeout", CONF_DURATION, AT(api.hold_us), "25ms", 1 * MS, 10 * S, .help = "one try of the hold takes a unit only within so long of Redis time; with Redis Streams the publish is part of it and adds its time"},
    {"api.hold_target", CONF_DURATION, AT(api.hold_target_us), "60ms", 1 * MS, 10 * S, .help = "holds that take longer let fewer requests be worked on at once; the others hear 429 OVERLOADED"},
    {"api.publish_timeout", CONF_DURATION, AT(api.publish_us), "40ms", 1 * MS, 10 * S, .help = "publishing the order event: so long the buyer waits for it at most; with api.publish_refused strict its whole budget"},
    {"api.publish_refused", CONF_ENUM, AT(api.publish_refused), "recover", .choices = "recover|strict", .help = "a held unit whose event the queue certainly refused: recover: 202, recovery publishes it; strict: the unit is taken back, 503. Redis Streams never refuse a held unit's event"},
    {"api.hint", CONF_BOOL, AT(api.hint), "true", .help = "refuse buyers of a sold-out item locally"},
    {"api.hint_max_buyers", CONF_INT, AT(api.hint_max_buyers), "1000000", 0, 10000000, .help = "no hint for an item with more buyers than this"},
    {"api.instance_id", CONF_INT, AT(api.instance_id), "-1", -1, 1023, .help = "instance number in order ids; -1: lease a free one in Redis"},
    {"api.instance_lease", CONF_DURATION, AT(api.instance_lease_us), "15s", 1 * S, 10 * MIN, .help = "lease of the instance number"},
    {"api.retry_percent", CONF_INT, AT(api.retry_percent), "5", 0, 100, .help = "second tries of the hold, as a share of the minute's requests"},
    {"api.retry_floor", CONF_INT, AT(api.retry_floor), "10", 0, 100000, .help = "second tries a minute that are always allowed"},
    {"api.max_commands", CONF_INT, AT(api.max_commands), "1024", 1, 1000000, .help = "cancels being worked on in this process, and as many payments; above: 429 OVERLOADED"},
    {"api.commands_remembered", CONF_INT, AT(api.commands_remembered), "100000", 1, 10000000, .help = "cancels and payments of an item that Redis keeps until PostgreSQL knows them; above: 504"},
    {"api.command_timeout", CONF_DURATION, AT(api.command_us), "500ms", 5 * MS, 10 * S, .help = "whole budget of a cancel or a payment"},

    {"query.listen", CONF_STRING, AT(query.listen), "127.0.0.1:8082", 1, 256, .help = "address of the buyers' read path"},
    {"query.admin_listen", CONF_STRING, AT(query.admin_listen), "127.0.0.1:8083", 1, 256, .help = "address of query-api's admin port"},
    {"query.loops", CONF_INT, AT(query.loops), "0", 0, 256, .help = "event loops, each a thread; 0: one per core"},
    {"query.max_inflight", CONF_INT, AT(query.max_inflight), "4096", 1, 1000000, .help = "requests being worked on; above: 429 OVERLOADED"},
    {"query.timeout", CONF_DURATION, AT(query.timeout_us), "500ms", 5 * MS, 30 * S, .help = "whole budget of a query"},
    {"query.fallback_after", CONF_DURATION, AT(query.fallback_after_us), "2s", 0, 10 * MIN, .help = "a request that is unsettled for longer is looked up in PostgreSQL"},
    {"query.pg_connections", CONF_INT, AT(query.pg_connections), "2", 1, 16, .help = "connections of query-api to PostgreSQL, apart from the worker's"},
    {"query.pg_queue", CONF_INT, AT(query.pg_queue), "256", 1, 65536, .help = "look-ups waiting for one of them; above: 503"},
    {"query.pg_timeout", CONF_DURATION, AT(query.pg_timeout_us), "400ms", 1 * MS, 30 * S, .help = "one look-up"},
    {"query.pg_conninfo", CONF_STRING, AT(query.pg_conninfo), "", 0, 500, .secret = true, .help = "libpq connection string of query-api; empty: pg.conninfo"},

    {"worker.admin_listen", CONF_STRING, AT(worker.admin_listen), "127.0.0.1:8084", 1, 256, .help = "address of order-worker's admin port"},
    {"worker.workers", CONF_INT, AT(worker.workers), "256", 1, 4096, .help = "messages being worked on: one full transaction; with worker.queue the bound of what is in hand"},
    {"worker.queue", CONF_INT, AT(worker.queue), "512", 0, 65536, .help = "messages received and waiting for work: the next transactions, so that PostgreSQL, Redis and this process work at the same time"},
    {"worker.receive_max", CONF_INT, AT(worker.receive_max), "16", 1, 256, .help = "messages asked for at once while the backlog is small; grows with it up to worker.batch_max"},
    {"worker.poll", CONF_DURATION, AT(worker.poll_us), "5s", 100 * MS, 60 * S, .help = "one long poll for messages"},
    {"worker.receive_backoff_min", CONF_DURATION, AT(worker.backoff_min_us), "20ms", 1 * MS, 10 * S, .help = "first wait after a failed receive"},
    {"worker.receive_backoff_max", CONF_DURATION, AT(worker.backoff_max_us), "1s", 1 * MS, 60 * S, .help = "longest wait after failed receives"},
    {"worker.batch_max", CONF_INT, AT(worker.batch_max), "256", 1, 256, .help = "messages in one transaction; 1: one by one"},
    {"worker.batch_target", CONF_DURATION, AT(worker.batch_target_us), "200ms", 1 * MS, 30 * S, .help = "transactions grow while they take less, and shrink when they take longer; at most half of worker.tx_budget"},
    {"worker.max_attempts", CONF_INT, AT(worker.max_attempts), "8", 1, 15, .help = "own failures of a message before it is quarantined"},
    {"worker.tx_budget", CONF_DURATION, AT(worker.tx_budget_us), "800ms", 10 * MS, 60 * S, .help = "tries of one transaction, all together"},
    {"worker.tx_attempts", CONF_INT, AT(worker.tx_attempts), "3", 1, 10, .help = "tries of one transaction"},
    {"worker.retry_base", CONF_DURATION, AT(worker.retry_base_us), "20ms", 1 * MS, 10 * S, .help = "full jitter between tries: first bound"},
    {"worker.retry_max", CONF_DURATION, AT(worker.retry_max_us), "200ms", 1 * MS, 10 * S, .help = "full jitter between tries: last bound"},
    {"worker.retry_percent", CONF_INT, AT(worker.retry_percent), "5", 0, 100, .help = "retries as a share of the minute's transactions"},
    {"worker.retry_floor", CONF_INT, AT(worker.retry_floor), "10", 0, 100000, .help = "retries a minute that are always allowed"},
    {"worker.redelivery_base", CONF_DURATION, AT(worker.redeliver_base_us), "200ms", 10 * MS, 60 * S, .help = "a message that goes back to the queue comes again after this, doubled each time, half of it jitter"},
    {"worker.redelivery_max", CONF_DURATION, AT(worker.redeliver_max_us), "5s", 10 * MS, 60 * S, .help = "but not later than this, nor than its lease"},
    {"worker.store_timeout", CONF_DURATION, AT(worker.store_us), "500ms", 1 * MS, 60 * S, .help = "one call of the worker to Redis or the queue"},
    {"worker.ack_attempts", CONF_INT, AT(worker.ack_attempts), "2", 1, 10, .help = "tries of an acknowledgement"},
    {"worker.ack_retry_base", CONF_DURATION, AT(worker.ack_base_us), "10ms", 1 * MS, 1 * S, .help = "full jitter between them: first bound"},
    {"worker.ack_retry_max", CONF_DURATION, AT(worker.ack_max_us), "50ms", 1 * MS, 1 * S, .help = "full jitter between them: last bound"},
    {"worker.lease_margin", CONF_DURATION, AT(worker.lease_margin_us), "2s", 100 * MS, 60 * S, .help = "a message's deadline is its lease minus this"},
    {"worker.breaker_threshold", CONF_INT, AT(worker.breaker_threshold), "5", 1, 1000, .help = "failures of PostgreSQL in a row that open the breaker"},
    {"worker.breaker_cooldown", CONF_DURATION, AT(worker.breaker_cooldown_us), "500ms", 10 * MS, 60 * S, .help = "open for this long, then one probe"},
    {"worker.relay_after", CONF_DURATION, AT(worker.relay_after_us), "1s", 10 * MS, 60 * S, .help = "what is not marked as settled in Redis by then is swept by the relay"},
    {"worker.relay_interval", CONF_DURATION, AT(worker.relay_interval_us), "200ms", 10 * MS, 60 * S, .help = "time between sweeps"},
    {"worker.relay_batch", CONF_INT, AT(worker.relay_batch), "256", 1, 1000, .help = "outbox rows per sweep"},
    {"worker.recover_after", CONF_DURATION, AT(worker.recover_after_us), "5s", 100 * MS, 60 * MIN, .help = "a reservation unsettled for longer is looked at"},
    {"worker.recover_interval", CONF_DURATION, AT(worker.recover_interval_us), "1s", 100 * MS, 10 * MIN, .help = "time between looks"},
    {"worker.recover_unknown_age", CONF_DURATION, AT(worker.recover_unknown_age_us), "60s", 1 * S, 60 * MIN, .help = "publish again after this when the queue's age is not known (rule 31)"},
    {"worker.recover_rate", CONF_INT, AT(worker.recover_rate), "200", 1, 100000, .help = "messages published again per second at most"},
    {"worker.max_hold", CONF_DURATION, AT(worker.max_hold_us), "10m", 1 * S, 1440 * MIN, .help = "a reservation is voided after this, counted while PostgreSQL and the queue are usable"},
    {"worker.max_republish", CONF_INT, AT(worker.max_republish), "5", 1, 100, .help = "accepted publishes again before that; then it only waits"},
    {"worker.quarantine_hold", CONF_DURATION, AT(worker.quarantine_hold_us), "0", 0, 30 * 1440 * MIN, .help = "a quarantined request is given up so long after it was accepted; 0: at the end of the sale"},
    {"worker.items_refresh", CONF_DURATION, AT(worker.items_refresh_us), "500ms", 50 * MS, 60 * S, .help = "how often the catalogue of items is read"},
    {"worker.rebuild_drain", CONF_DURATION, AT(worker.rebuild_drain_us), "10s", 0, 10 * MIN, .help = "a rebuild waits at most so long for what the queue still holds of the item"},
    {"worker.max_items", CONF_INT, AT(worker.max_items), "4096", 1, 16384, .help = "items served at most; of more, those that are served stay, and readiness is degraded"},

    {"admin.token_file", CONF_STRING, AT(admin.token_file), "", 0, 500, .help = "bearer token for the admin ports of all programs; required when one is not on loopback"},

    {"http.header_timeout", CONF_DURATION, AT(http.header_us), "2s", 10 * MS, 60 * S, .help = "a request's whole header"},
    {"http.read_timeout", CONF_DURATION, AT(http.read_us), "5s", 10 * MS, 120 * S, .help = "a whole request"},
    {"http.write_timeout", CONF_DURATION, AT(http.write_us), "10s", 10 * MS, 120 * S, .help = "a whole response"},
    {"http.idle_timeout", CONF_DURATION, AT(http.idle_us), "60s", 10 * MS, 60 * MIN, .help = "between requests of a connection"},
    {"http.max_connections", CONF_INT, AT(http.max_connections), "10000", 1, 1000000, .help = "connections of a port; above: closed at once"},
    {"http.max_header", CONF_SIZE, AT(http.max_header), "8KiB", 512, 32768, .help = "request line and headers; above: 431"},
    {"http.max_body", CONF_SIZE, AT(http.max_body), "4KiB", 64, 4096, .help = "request body; above: 413"},

    {"auth.keys", CONF_STRING, AT(auth.keys), "", 0, 500, .help = "kid=ALG:/path[,…]; ALG is HS256 (raw secret), RS256 or ES256 (public key, PEM)"},
    {"auth.issuer", CONF_STRING, AT(auth.issuer), "seckill", 1, 256, .help = "required iss of a token"},
    {"auth.audience", CONF_STRING, AT(auth.audience), "seckill", 1, 256, .help = "required aud of a token"},
    {"auth.leeway", CONF_DURATION, AT(auth.leeway_us), "0", 0, 5 * MIN, .help = "tolerated clock difference for exp and nbf"},
    {"auth.token_cache", CONF_INT, AT(auth.token_cache), "262144", 0, 16777216, .help = "verified tokens remembered per loop"},

    {"payments.secret_file", CONF_STRING, AT(payments.secret_file), "", 0, 500, .help = "secrets of the payment provider, one a line, 32 characters at least; empty: POST /v1/payments refuses everybody"},
    {"payments.window", CONF_DURATION, AT(payments.window_us), "5m", 1 * S, 60 * MIN, .help = "how far a signature's time may be from ours"},

    {"location.secret_file", CONF_STRING, AT(location.secret_file), "", 0, 500, .help = "secrets of the tokens in Location, one a line, 32 characters at least, the same for seckill-api and query-api; empty: no tokens, a request that was lost is 404"},

    {"redis.url", CONF_STRING, AT(redis.url), "redis://127.0.0.1:6379", 1, 1000, .secret = true, .help = "redis://[user:password@]host[:port][/db], unix:///path, redis+sentinel://[user:password@]host[:port],host[:port]…/master[/db] or redis+cluster://[user:password@]host[:port],host[:port]…"},
    {"redis.dial_timeout", CONF_DURATION, AT(redis.dial_us), "500ms", 10 * MS, 60 * S, .help = "connecting"},
    {"redis.reply_timeout", CONF_DURATION, AT(redis.reply_us), "60ms", 1 * MS, 60 * S, .help = "one command, where no shorter budget applies"},
    {"redis.slot_timeout", CONF_DURATION, AT(redis.slot_us), "30ms", 1 * MS, 60 * S, .help = "waiting for a connection that is not up"},
    {"redis.stall_timeout", CONF_DURATION, AT(redis.stall_us), "2s", 50 * MS, 60 * S, .help = "no reply at all for so long: the connection is given up"},
    {"redis.backoff_min", CONF_DURATION, AT(redis.backoff_min_us), "20ms", 1 * MS, 60 * S, .help = "first wait before connecting again"},
    {"redis.backoff_max", CONF_DURATION, AT(redis.backoff_max_us), "1s", 1 * MS, 60 * S, .help = "longest wait before connecting again"},
    {"redis.max_pending", CONF_INT, AT(redis.max_pending), "16384", 16, 1048576, .help = "commands in one connection's pipeline at most"},
    {"redis.allow_unsafe", CONF_BOOL, AT(redis.allow_unsafe), "false", .help = "start although Redis may lose or evict what it confirmed"},

    {"queue.kind", CONF_ENUM, AT(queue.kind), "redis_stream", .choices = "redis_stream|rocketmq", .help = "where order events wait; the same in all programs"},
    {"queue.lease", CONF_DURATION, AT(queue.lease_us), "10s", 500 * MS, 10 * MIN, .help = "redis_stream: how long a message belongs to the worker that received it"},
    {"queue.trim_interval", CONF_DURATION, AT(queue.trim_interval_us), "1s", 50 * MS, 10 * MIN, .help = "redis_stream: how often acknowledged events are trimmed"},

    {"rocketmq.endpoints", CONF_STRING, AT(rocketmq.endpoints), "", 0, 500, .help = "proxies: host:port[,host:port…]; required with queue.kind rocketmq"},
    {"rocketmq.endpoint_map", CONF_STRING, AT(rocketmq.endpoint_map), "", 0, 500, .help = "told=reached[,…]: proxies that tell an address under which they cannot be reached from here"},
    {"rocketmq.namesrv", CONF_STRING, AT(rocketmq.namesrv), "", 0, 500, .help = "name servers: host:port[,…], for the backlog; empty: it is unknown"},
    {"rocketmq.topic", CONF_STRING, AT(rocketmq.topic), "seckill-order-events", 1, RMQ_TOPIC_MAX, .help = "topic of the order events, of type NORMAL; it must exist"},
    {"rocketmq.group", CONF_STRING, AT(rocketmq.group), "seckill-order-create-v1", 1, RMQ_GROUP_MAX, .help = "consumer group of order-worker; it must exist"},
    {"rocketmq.dead_group", CONF_STRING, AT(rocketmq.dead_group), "seckill-order-dlq-v1", 1, RMQ_GROUP_MAX, .help = "consumer group that reads what the broker gave up; it must exist"},
    {"rocketmq.results_topic", CONF_STRING, AT(rocketmq.results_topic), "seckill-order-results", 1, RMQ_TOPIC_MAX, .help = "topic of the results, of type NORMAL; it must exist while results.enabled"},
    {"rocketmq.access_key", CONF_STRING, AT(rocketmq.access_key), "", 0, RMQ_ACCESS_KEY_MAX, .help = "name that requests are signed with; empty: they are not signed"},
    {"rocketmq.secret_key_file", CONF_STRING, AT(rocketmq.secret_key_file), "", 0, 500, .help = "file whose first line is the secret of rocketmq.access_key"},
    {"rocketmq.tls", CONF_BOOL, AT(rocketmq.tls), "false", .help = "TLS to the proxies; signatures protect nobody from a listener"},
    {"rocketmq.ca_file", CONF_STRING, AT(rocketmq.ca_file), "", 0, 500, .help = "authorities that the proxies' certificates are checked against, PEM; empty: the system's"},
    {"rocketmq.lease", CONF_DURATION, AT(rocketmq.lease_us), "15s", 1 * S, 10 * MIN, .help = "how long a message belongs to the worker that received it; proxies want 10s at least"},
    {"rocketmq.poll", CONF_DURATION, AT(rocketmq.poll_us), "5s", 1 * S, 20 * S, .help = "one long poll; a proxy may make its own minimum of less: 5s, by default"},
    {"rocketmq.request_timeout", CONF_DURATION, AT(rocketmq.request_us), "3s", 10 * MS, 60 * S, .help = "one request, where no shorter budget applies"},
    {"rocketmq.send_timeout", CONF_DURATION, AT(rocketmq.send_us), "1s", 10 * MS, 60 * S, .help = "whole budget of what a buyer waits for in part only: a hold's answer, and with api.publish_refused recover the publish"},
    {"rocketmq.max_sends", CONF_INT, AT(rocketmq.max_sends), "4", 1, 4096, .help = "publishing requests on the wire to one proxy at most, per loop; what is published meanwhile waits within its budget, and goes together"},
    {"rocketmq.send_batch", CONF_INT, AT(rocketmq.send_batch), "32", 1, 1024, .help = "messages in one of them at most; the broker stores all of them or none. 1: each in a request of its own"},
    {"rocketmq.route_refresh", CONF_DURATION, AT(rocketmq.refresh_us), "30s", 1 * S, 10 * MIN, .help = "how often the brokers are asked for"},
    {"rocketmq.heartbeat", CONF_DURATION, AT(rocketmq.heartbeat_us), "10s", 1 * S, 60 * S, .help = "how often a proxy hears from us; after 120s without, it forgets us"},

    {"pg.conninfo", CONF_STRING, AT(pg.conninfo), "host=127.0.0.1 dbname=seckill user=seckill", 1, 500, .secret = true, .help = "libpq connection string of the primary"},
    {"pg.connections", CONF_INT, AT(pg.connections), "3", 2, 4, .help = "connections of order-worker for orders and what belongs to them; one more is for results and retention"},
    {"pg.connect_timeout", CONF_DURATION, AT(pg.connect_us), "2s", 50 * MS, 60 * S, .help = "connecting"},
    {"pg.lifetime", CONF_DURATION, AT(pg.lifetime_us), "30m", 1 * S, 1440 * MIN, .help = "a connection is replaced after this"},
    {"pg.lifetime_jitter", CONF_DURATION, AT(pg.lifetime_jitter_us), "3m", 0, 60 * MIN, .help = "more or less by up to this"},
    {"pg.ping_timeout", CONF_DURATION, AT(pg.ping_us), "1s", 10 * MS, 60 * S, .help = "the readiness check's round trip"},

    {"drain.endpoints", CONF_DURATION, AT(drain.endpoints_us), "2s", 0, 60 * S, .help = "not ready, but still serving: balancers take the instance out"},
    {"drain.http", CONF_DURATION, AT(drain.http_us), "20s", 0, 10 * MIN, .help = "finishing requests"},
    {"drain.worker", CONF_DURATION, AT(drain.worker_us), "30s", 0, 10 * MIN, .help = "finishing messages in hand"},
    {"drain.after_cancel", CONF_DURATION, AT(drain.after_cancel_us), "2s", 0, 60 * S, .help = "what was cancelled may still end"},

    {"order.unpaid", CONF_DURATION, AT(order.unpaid_us), "15m", 1 * S, 30 * 1440 * MIN, .help = "an order that is not paid is closed after this, as soon as every payment accepted in it has been worked on"},
    {"order.parked_give_up", CONF_DURATION, AT(order.parked_give_up_us), "30m", 1 * S, 30 * 1440 * MIN, .help = "a cancel or payment whose request has no outcome for so long ends without one: the payment is refunded"},

    {"reconcile.interval", CONF_DURATION, AT(reconcile.interval_us), "10s", 100 * MS, 24 * 60 * MIN, .help = "order-worker: at least this between two rounds over all items (rule 40); what is wrong is told after two"},
    {"reconcile.rate", CONF_INT, AT(reconcile.rate), "2000", 10, 1000000, .help = "reservations compared per second at most, by one worker"},
    {"reconcile.mend", CONF_BOOL, AT(reconcile.mend), "true", .help = "puts right what is safe: only ever lowers Redis's free stock; false: tells it only, until seckillctl reconcile run"},

    {"results.enabled", CONF_ENUM, AT(results.enabled), "auto", .choices = "auto|true|false", .help = "publish what became of every reservation, for other systems: rocketmq.results_topic, or a stream per item in Redis; auto: with redis_stream. The same in all workers"},
    {"results.interval", CONF_DURATION, AT(results.interval_us), "200ms", 10 * MS, 60 * S, .help = "how often settled outcomes are looked for"},
    {"results.batch", CONF_INT, AT(results.batch), "512", 1, 1024, .help = "outcomes of one look"},
    {"results.stream_max", CONF_INT, AT(results.stream_max), "10000", 100, 100000000, .help = "redis_stream: entries of an item's stream, about, each of 1 to 16 results; above, the oldest go, read or not"},
    {"results.keep", CONF_DURATION, AT(results.keep_us), "24h", 1 * MIN, 30 * 1440 * MIN, .help = "redis_stream: an item's stream ends with the item's keys, and not before this after its last entry"},

    {"retention.enabled", CONF_BOOL, AT(retention.enabled), "true", .help = "take away the books of items that are long over (orders, payments and refunds stay)"},
    {"retention.after", CONF_DURATION, AT(retention.after_us), "168h", 1 * S, 365 * 1440 * MIN, .help = "an item's books go so long after all of its Redis keys are over"},
    {"retention.strays", CONF_DURATION, AT(retention.strays_us), "720h", 1 * S, 365 * 1440 * MIN, .help = "what belongs to no item goes at this age: undecodable messages, workers' lives"},
    {"retention.batch", CONF_INT, AT(retention.batch), "500", 1, 10000, .help = "rows of one call"},
    {"retention.interval", CONF_DURATION, AT(retention.interval_us), "1s", 10 * MS, 60 * MIN, .help = "between two calls while there is something to take"},
    {"retention.idle", CONF_DURATION, AT(retention.idle_us), "1m", 10 * MS, 1440 * MIN, .help = "between two calls while there is nothing"},

    {"item.delivery_window", CONF_DURATION, AT(item.delivery_us), "24h", 1 * MIN, 30 * 1440 * MIN, .help = "an item's Redis keys live on after its end: for late messages"},
    {"item.reconcile_window", CONF_DURATION, AT(item.reconcile_us), "24h", 1 * MIN, 30 * 1440 * MIN, .help = "and for reconciliation"},
};
/* clang-format on */
const size_t settings_table_len = sizeof(settings_table) / sizeof(settings_table[0]);

static int fail(const char *program, const char *err)
{
    fprintf(stderr, "%s: %s\n", program, err);
    return 2;
}

static void print_help(const struct conf *c, const char *program, const char *usage)
{
    struct strbuf b;
    strbuf_init(&b, 1 << 20);
    conf_help(c, &b);
    printf("%s\n"
           "Settings: --config FILE (YAML; or SECKILL_CONFIG), then SECKILL_* variables, then "
           "flags; the later wins.\n"
           "  --check-config  reads everything, prints what is in force, exits 0 if it is valid\n"
           "  --version, --help\n\n" STR_FMT,
           usage, STR_ARG(strbuf_str(&b)));
    strbuf_deinit(&b);
    (void)program;
}

/* Takes "--name" or, with a value, "--name VALUE" / "--name=VALUE" out of argv; NULL when it is not
 * there. */
static const char *take_word(int *argc, char **argv, const char *name, bool with_value)
{
    size_t len = strlen(name);
    for (int i = 1; i < *argc; i++) {
        int words = 0;
        const char *value = "";
        if (strcmp(argv[i], "--") == 0)
            return NULL;
        if (strcmp(argv[i], name) == 0) {
            words = with_value ? 2 : 1;
            value = with_value ? (i + 1 < *argc ? argv[i + 1] : NULL) : "";
        } else if (with_value && strncmp(argv[i], name, len) == 0 && argv[i][len] == '=') {
            words = 1;
            value = argv[i] + len + 1;
        }
        if (words == 0)
            continue;
        if (value == NULL)
            return "";
        memmove(&argv[i], &argv[i + words], sizeof(argv[0]) * (size_t)(*argc - i - words + 1));
        *argc -= words;
        return value;
    }
    return NULL;
}

int settings_load(struct settings *s, struct conf *c, int *argc, char **argv, const char *program,
                  const char *usage)
{
    char err[1024];
    memset(s, 0, sizeof(*s));
    conf_init(c, settings_table, settings_table_len, s);
    if (take_word(argc, argv, "--help", false) || take_word(argc, argv, "-h", false)) {
        print_help(c, program, usage);
        return 0;
    }
    if (take_word(argc, argv, "--version", false)) {
        printf("%s %s\n", program, SECKILL_VERSION);
        return 0;
    }
    bool check = take_word(argc, argv, "--check-config", false) != NULL;
    const char *file = take_word(argc, argv, "--config", true);
    if (!file)
        file = getenv("SECKILL_CONFIG");
    if (file && yaml_conf_load(c, file, err, sizeof(err)) < 0)
        return fail(program, err);
    if (conf_set_env(c, environ, err, sizeof(err)) < 0 ||
        conf_take_flags(c, argc, argv, err, sizeof(err)) < 0)
        return fail(program, err);
    if (s->instance[0] == 0) {
        char host[64] = "localhost";
        gethostname(host, sizeof(host) - 1);
        snprintf(s->instance, sizeof(s->instance), "%.40s-%d", host, (int)getpid());
    }
    if (settings_check(s, check, err, sizeof(err)) < 0)
        return fail(program, err);
    if (check) {
        struct strbuf b;
        strbuf_init(&b, 1 << 20);
        conf_dump(c, &b);
        printf(STR_FMT, STR_ARG(strbuf_str(&b)));
        strbuf_deinit(&b);
        return 0;
    }
    log_setup(program, s->instance, (enum log_level)s->log_level);
    return -1;
}
