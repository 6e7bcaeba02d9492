/* queue check: proves that events can be published, and says what is wrong if they cannot. */
#include "base/clock.h"
#include "base/err.h"
#include "base/rng.h"
#include "core/event.h"
#include "daemon/common/result_topic.h"
#include "daemon/ctl/ctl_queue.h"
#include <stdio.h>

#define WAIT_US (INT64_C(10) * 1000 * 1000)

struct check_args {
    struct str topic;
    int64_t wait_us;
    bool json;
};
static const struct args_option options[] = {
    {"topic", ARGS_TEXT, offsetof(struct check_args, topic), false, 1, 127,
     "rocketmq: publish one event there; never the orders' own topic"},
    {"wait", ARGS_DURATION, offsetof(struct check_args, wait_us), false, 0, INT64_MAX,
     "for the queue to become usable (10s)"},
    ARGS_JSON(struct check_args, json),
};

/* Nobody's: no such item is for sale. */
static struct event probe_event(void)
{
    struct rng rng;
    rng_init(&rng);
    int64_t now_us = clock_wall_us();
    return (struct event){.message_id = uuid_v7(now_us / 1000, &rng),
                          .request_id = uuid_v7(now_us / 1000, &rng),
                          .reservation_id = uuid_v7(now_us / 1000, &rng),
                          .item = {1, 1},
                          .user_id = 1,
                          .order_id = 1,
                          .created_at_us = now_us,
                          .schema_version = EVENT_SCHEMA_VERSION,
                          .version = {1, 1},
                          .traceparent = STR(""),
                          .tracestate = STR("")};
}

static int say(const struct ctl *c, const struct check_args *a, struct str topic,
               const struct uuid *published, int64_t took_us)
{
    struct out o;
    bool stores = event_queue_is_stores(&c->settings);
    out_begin(&o, a->json, false);
    out_record(&o);
    out_str(&o, "kind", stores ? STR("redis_stream") : STR("rocketmq"));
    if (!stores)
        out_str(&o, "topic", topic);
    if (!stores && !published && settings_results(&c->settings))
        out_str(&o, "results_topic", str_of(c->settings.rocketmq.results_topic));
    out_str(&o, "state", published ? STR("published") : STR("usable"));
    if (published)
        out_uuid(&o, "message_id", published);
    out_i64(&o, "took_ms", took_us / 1000);
    return out_end(&o) ? CTL_OK : CTL_UNKNOWN;
}

/* The store's own queue: what publishes is a script there. */
static int check_store(struct ctl *c, const struct check_args *a)
{
    int64_t began_us = clock_mono_us();
    struct stock *stock = ctl_stock(c);
    if (!stock)
        return CTL_FAILED;
    struct stock_probe probe = {0};
    ctl_op(c, &probe.op, a->wait_us);
    stock->ops->probe(stock, &probe);
    int rc = ctl_await(c);
    if (rc < 0)
        return ctl_stock_failed(c, "queue check", rc);
    return say(c, a, STR(""), NULL, clock_mono_us() - began_us);
}

static int publish(struct ctl *c, const struct check_args *a, const char *topic, int64_t began_us)
{
    struct event e = probe_event();
    struct queue_publish p = {.event = &e};
    ctl_op(c, &p.op, CTL_CALL_US);
    c->queue.port->ops->publish(c->queue.port, &p);
    int rc = ctl_await(c);
    if (rc == 0)
        return say(c, a, str_of(topic), &e.message_id, clock_mono_us() - began_us);
    const char *why = event_queue_complaint(&c->queue);
    bool unknown = err_is_unknown(rc);
    ctl_complain("queue check: publishing to %s %s (%s)%s%s", topic,
                 unknown ? "has no known outcome" : "was refused", err_name(rc), why ? ": " : "",
                 why ? why : "");
    return unknown ? CTL_UNKNOWN : CTL_FAILED;
}

/* What is to be published there comes from order-worker, and is no probe: a route is all that is
 * asked for. */
static bool results_usable(struct ctl *c, int64_t wait_us)
{
    char err[512];
    struct result_topic topic = {0};
    if (result_topic_init(&topic, c->loop, &c->settings, err, sizeof err) < 0) {
        ctl_complain("queue check: %s", err);
        return false;
    }
    int64_t give_up_us = clock_mono_us() + wait_us;
    while (!result_topic_ready(&topic) && clock_mono_us() < give_up_us)
        ctl_sleep(c, 2000);
    bool ready = result_topic_ready(&topic);
    const char *why = result_topic_complaint(&topic);
    if (!ready)
        ctl_complain("queue check: results cannot be published: %s",
                     why ? why : "no answer in time");
    result_topic_deinit(&topic);
    return ready;
}

static int run(struct ctl *c, const struct ctl_command *self, int argc, char **argv)
{
    struct check_args a = {.wait_us = WAIT_US};
    int rc = ctl_args(self, &a, argc, argv, NULL, NULL);
    if (rc >= 0)
        return rc;
    if (event_queue_is_stores(&c->settings)) {
        if (!a.topic.len)
            return check_store(c, &a);
        ctl_complain("queue check: --topic is for queue.kind rocketmq");
        return CTL_USAGE;
    }
    if (str_eq(a.topic, str_of(c->settings.rocketmq.topic))) {
        ctl_complain("queue check: --topic is the orders' own: its workers would take the probe "
                     "for an order");
        return CTL_USAGE;
    }
    int64_t began_us = clock_mono_us();
    static struct settings s; /* large */
    s = c->settings;
    if (a.topic.len)
        str_copy(s.rocketmq.topic, sizeof(s.rocketmq.topic), a.topic);
    if (!ctl_queue_open(c, &s, EVENT_QUEUE_PUBLISH, a.wait_us))
        return CTL_FAILED;
    if (a.topic.len)
        return publish(c, &a, s.rocketmq.topic, began_us);
    if (!results_usable(c, a.wait_us))
        return CTL_FAILED;
    return say(c, &a, str_of(s.rocketmq.topic), NULL, clock_mono_us() - began_us);
}

const struct ctl_command queue_check_command = {
    .group = "queue",
    .verb = "check",
    .options = options,
    .n_options = sizeof(options) / sizeof(options[0]),
    .words = "",
    .help = "whether events can be published\n"
            "RocketMQ: a route to the topic is known, and to that of the results if they are "
            "enabled; with "
            "--topic, one event is published there. "
            "Redis Streams: a script runs. 3: the outcome is not known.\n",
    .run = run,
};
