#include "adapter/http/conn.h"
#include "base/panic.h"

#include <stdio.h>
#include <stdlib.h>

static const char *name(const struct http_metrics *m, const char *rest, char buf[96])
{
    snprintf(buf, 96, "%s_%s", m->prefix, rest);
    return buf;
}

void http_metrics_init(struct http_metrics *m, const char *prefix,
                       const struct http_service *service)
{
    static const char *const dues[HTTP_DUES] = {[HTTP_DUE_HEADER] = "header",
                                                [HTTP_DUE_BODY] = "read",
                                                [HTTP_DUE_WRITE] = "write",
                                                [HTTP_DUE_IDLE] = "idle",
                                                [HTTP_DUE_LINGER] = "linger"};
    size_t rows = (size_t)service->n_routes + 1;
    char b[96];
    *m = (struct http_metrics){.prefix = prefix, .service = service};
    m->requests = calloc(rows * HTTP_STATUSES, sizeof *m->requests);
    m->durations = calloc(rows, sizeof *m->durations);
    if (!m->requests || !m->durations)
        panic("http: no memory");
    for (size_t i = 0; i < rows; i++) {
        char labels[96];
        snprintf(labels, sizeof labels, "route=\"%s\"",
                 i + 1 < rows ? service->routes[i].name : "none");
        m->durations[i] =
            metric_histogram(name(m, "request_duration_seconds", b),
                             "From the request's first byte to its answer.", labels, NULL, 0);
    }
    m->inflight = metric_gauge(name(m, "inflight_requests", b),
                               "Requests whose handler has not answered yet.", NULL);
    m->connections = metric_gauge(name(m, "connections", b), "Open connections.", NULL);
    metric_gauge_add(m->inflight, 0); /* known from the start; loops share them */
    metric_gauge_add(m->connections, 0);
    m->accepted =
        metric_counter(name(m, "connections_accepted_total", b), "Connections accepted.", NULL);
    m->refused_connections =
        metric_counter(name(m, "connections_refused_total", b),
                       "Connections closed at once: above the bound, or no descriptors.", NULL);
    m->malformed =
        metric_counter(name(m, "malformed_total", b), "Requests refused before routing.", NULL);
    for (int i = HTTP_DUE_HEADER; i < HTTP_DUES; i++) {
        char labels[32];
        snprintf(labels, sizeof labels, "which=\"%s\"", dues[i]);
        m->deadlines[i] = metric_counter(name(m, "deadline_closed_total", b),
                                         "Connections closed by a deadline.", labels);
    }
    /* The seed's name for the buyers' port; others keep their prefix. */
    bool buyers = strcmp(prefix, "seckill_http") == 0;
    m->canceled = metric_counter(buyers ? "seckill_client_canceled_total"
                                        : name(m, "client_canceled_total", b),
                                 "Clients that went away before their answer.", NULL);
}

void http_metrics_deinit(struct http_metrics *m)
{
    free(m->requests);
    free(m->durations);
}

void http_metrics_answer(struct http_metrics *m, const struct http_route *route, int status,
                         int64_t duration_us)
{
    size_t row = route ? (size_t)(route - m->service->routes) : (size_t)m->service->n_routes;
    struct metric **count = &m->requests[row * HTTP_STATUSES + (size_t)http_status_index(status)];
    if (!*count) { /* the first of its kind: the registry is bounded, and most pairs never occur */
        char b[96], labels[96];
        snprintf(labels, sizeof labels, "route=\"%s\",status=\"%d\"", route ? route->name : "none",
                 status);
        *count = metric_counter(name(m, "requests_total", b), "Requests answered.", labels);
    }
    metric_add(*count, 1);
    metric_observe_us(m->durations[row], duration_us);
}
