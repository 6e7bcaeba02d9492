#include "adapter/rocketmq/client.h"

#include <stdio.h>

static struct metric *published(const char *queue, const char *result)
{
    char labels[64];
    snprintf(labels, sizeof labels, "queue=\"%.20s\",result=\"%s\"", queue, result);
    return metric_counter("seckill_mq_publish_total",
                          "publishes that ended: accepted, refused, unknown", labels);
}

static struct metric *complaint(const char *kind)
{
    char labels[32];
    snprintf(labels, sizeof labels, "kind=\"%s\"", kind);
    struct metric *m =
        metric_gauge("seckill_mq_complaints", "things that people have to put right, now", labels);
    metric_gauge_add(m, 0);
    return m;
}

void rmq_metrics_init(struct rmq_metrics *m, const char *queue)
{
    char label[32];
    snprintf(label, sizeof label, "queue=\"%.20s\"", queue);
    m->accepted = published(queue, "accepted");
    m->refused = published(queue, "refused");
    m->unknown = published(queue, "unknown");
    m->publish_duration = metric_histogram("seckill_mq_publish_duration_seconds",
                                           "from a publish to its result", label, NULL, 0);
    m->retries = metric_counter("seckill_mq_publish_retries_total", "second attempts", NULL);
    m->odd_receipts = metric_counter("seckill_mq_publish_odd_receipts_total",
                                     "receipts that do not fit what was sent", NULL);
    m->overload = metric_counter("seckill_mq_publish_overload_total",
                                 "publishes refused because too many wait", NULL);
    m->waiting = metric_gauge("seckill_mq_publish_waiting",
                              "publishes that wait for a place on the wire", NULL);
    m->throttled =
        metric_counter("seckill_mq_throttled_total", "answers that ask for fewer requests", NULL);
    m->isolated = metric_gauge("seckill_mq_proxies_isolated", "proxies that are avoided", NULL);
    m->isolations = metric_counter("seckill_mq_proxy_isolations_total",
                                   "times that a proxy was found not to answer", NULL);
    m->resyncs = metric_counter("seckill_mq_settings_resyncs_total",
                                "settings sent again because a proxy had lost them", NULL);
    m->reopened = metric_counter("seckill_mq_telemetry_reopened_total",
                                 "streams of settings that ended and were opened again", NULL);
    m->missed_heartbeats =
        metric_counter("seckill_mq_heartbeats_missed_total", "heartbeats without an answer", NULL);
    m->route_failures =
        metric_counter("seckill_mq_route_failures_total", "routes that were not told", NULL);
    m->undecodable = metric_counter("seckill_mq_undecodable_answers_total",
                                    "answers that cannot be decoded", NULL);
    metric_gauge_add(m->waiting, 0);
    metric_gauge_add(m->isolated, 0);
    m->complaints[RMQ_SAYS_DENIED] = complaint("denied");
    m->complaints[RMQ_SAYS_NO_TOPIC] = complaint("topic");
    m->complaints[RMQ_SAYS_NO_GROUP] = complaint("group");
    m->complaints[RMQ_SAYS_REFUSED] = complaint("refused");
    m->complaints[RMQ_SAYS_UNREACHABLE] = complaint("unreachable");
}
