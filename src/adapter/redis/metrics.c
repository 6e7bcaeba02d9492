#include "adapter/redis/metrics.h"

#include "base/err.h"

#include <stdio.h>

static struct metric *of_link(struct metric *(*make)(const char *, const char *, const char *),
                              const struct redis_metrics *m, const char *name, const char *help)
{
    char labels[64];
    snprintf(labels, sizeof labels, "link=\"%s\"", m->link);
    return make(name, help, labels);
}

static struct metric *redirects(const char *link, const char *kind)
{
    char labels[64];
    snprintf(labels, sizeof labels, "link=\"%s\",kind=\"%s\"", link, kind);
    return metric_counter("seckill_redis_redirects_total",
                          "Calls that a cluster sent elsewhere (moved, ask), or once too often.",
                          labels);
}

static struct metric *maps(const char *link, const char *result)
{
    char labels[64];
    snprintf(labels, sizeof labels, "link=\"%s\",result=\"%s\"", link, result);
    return metric_counter("seckill_redis_cluster_maps_total", "Questions for a cluster's slots.",
                          labels);
}

static void init_cluster_metrics(struct redis_metrics *m)
{
    m->redirects_moved = redirects(m->link, "moved");
    m->redirects_ask = redirects(m->link, "ask");
    m->redirects_refused = redirects(m->link, "refused");
    m->maps_ok = maps(m->link, "ok");
    m->maps_failed = maps(m->link, "error");
}

void redis_metrics_init(struct redis_metrics *m, const char *link)
{
    *m = (struct redis_metrics){0};
    str_copy(m->link, sizeof m->link, str_of(link ? link : "redis"));
    char labels[64];
    snprintf(labels, sizeof labels, "link=\"%s\"", m->link);
    m->pool_wait = metric_histogram("seckill_redis_pool_wait_seconds",
                                    "Time of a call before it was written.", labels, NULL, 0);
    m->pool_timeouts = of_link(metric_counter, m, "seckill_redis_pool_timeouts_total",
                               "Calls that found no connection in time.");
    m->active = of_link(metric_gauge, m, "seckill_redis_active_connections", "Connections up.");
    m->late = of_link(metric_counter, m, "seckill_redis_late_replies_total",
                      "Replies dropped because nobody waited for them any more.");
    m->reconnects = of_link(metric_counter, m, "seckill_redis_reconnects_total",
                            "Connections that were given up or could not be made.");
    m->reloads = of_link(metric_counter, m, "seckill_redis_script_reloads_total",
                         "Scripts loaded again after NOSCRIPT.");
    m->overload = of_link(metric_counter, m, "seckill_redis_overload_total",
                          "Calls refused because the pipeline was full.");
    init_cluster_metrics(m);
}

static struct metric *duration(const char *operation, const char *result)
{
    char labels[96];
    snprintf(labels, sizeof labels, "operation=\"%s\",result=\"%s\"", operation, result);
    return metric_histogram("seckill_redis_operation_duration_seconds",
                            "From the write of a command to its reply, or to giving it up.", labels,
                            NULL, 0);
}

static struct operation *operation(struct redis_metrics *m, const struct redis_call *c)
{
    const char *name = c->script ? c->script->name : c->name ? c->name : "command";
    for (int i = 0; i < m->n; i++) {
        if (m->operations[i].key == name)
            return &m->operations[i];
    }
    if (m->n == OPERATIONS_MAX)
        return &m->operations[0]; /* never with our own scripts; a wrong label beats no count */
    struct operation *o = &m->operations[m->n++];
    o->key = name;
    o->ok = duration(name, "ok");
    o->refused = duration(name, "refused");
    o->error = duration(name, "error");
    o->unknown = duration(name, "unknown");
    return o;
}

void redis_metrics_call(struct redis_metrics *m, const struct redis_call *c, int rc, int64_t now_us)
{
    struct operation *o = operation(m, c);
    struct metric *which = rc == 0               ? o->ok
                           : rc == ERR_UNAVAIL   ? o->refused
                           : rc == ERR_UNCERTAIN ? o->unknown
                                                 : o->error;
    metric_observe_us(which, now_us > c->sent_us ? now_us - c->sent_us : 0);
}
