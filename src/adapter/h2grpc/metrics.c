#include "adapter/h2grpc/metrics.h"

#include "base/err.h"
#include <stdio.h>

static struct metric *calls(const struct grpc_metrics *m, const char *result)
{
    char labels[96];
    snprintf(labels, sizeof labels, "link=\"%s\",result=\"%s\"", m->link, result);
    return metric_counter("seckill_grpc_calls_total", "Calls that ended, by what is known of them.",
                          labels);
}

void grpc_metrics_init(struct grpc_metrics *m, const char *link)
{
    *m = (struct grpc_metrics){0};
    str_copy(m->link, sizeof m->link, str_of(link ? link : "grpc"));
    char labels[64];
    snprintf(labels, sizeof labels, "link=\"%s\"", m->link);
    m->ok = calls(m, "ok");
    m->refused = calls(m, "refused");
    m->not_done = calls(m, "not_done");
    m->unknown = calls(m, "unknown");
    m->duration = metric_histogram("seckill_grpc_call_duration_seconds",
                                   "From the start of a call to its end.", labels, NULL, 0);
    m->connections = metric_gauge("seckill_grpc_connections",
                                  "Connections that are up, draining ones included.", labels);
    m->reconnects = metric_counter("seckill_grpc_reconnects_total",
                                   "Connections that were given up or could not be made.", labels);
    m->pending =
        metric_gauge("seckill_grpc_pending_calls", "Calls that wait for the wire.", labels);
    m->overload = metric_counter("seckill_grpc_overload_total",
                                 "Calls and messages refused by a bound of this process.", labels);
    m->retries = metric_counter(
        "seckill_grpc_retries_total",
        "Calls sent again because the server certainly did not look at them.", labels);
    metric_gauge_add(m->connections, 0);
    metric_gauge_add(m->pending, 0);
}

void grpc_metrics_call(struct grpc_metrics *m, int rc, bool from_server, int64_t us)
{
    struct metric *which = rc == 0              ? m->ok
                           : err_is_unknown(rc) ? m->unknown
                           : from_server        ? m->refused
                                                : m->not_done;
    metric_add(which, 1);
    metric_observe_us(m->duration, us > 0 ? us : 0);
}
