#include "daemon/common/result_topic.h"

#include "adapter/redis_results/redis_results.h"
#include "daemon/common/rocketmq_client.h"
#include "daemon/common/store.h"

static struct results *new_rocketmq(struct loop *l, const struct settings *s, char *err,
                                    size_t err_cap)
{
    char secret[CONF_STRING_MAX];
    struct rocketmq_config config;
    if (rocketmq_client_config(s, &config, secret, sizeof secret, err, err_cap) < 0)
        return NULL;
    config.topic = s->rocketmq.results_topic;
    struct results *r = rocketmq_results_new(l, &config, err, err_cap);
    explicit_bzero(secret, sizeof secret);
    return r;
}

int result_topic_init(struct result_topic *t, struct loop *l, const struct settings *s, char *err,
                      size_t err_cap)
{
    t->kind = s->queue.kind;
    if (!settings_results(s))
        return 0;
    if (t->kind == SETTINGS_QUEUE_ROCKETMQ) {
        t->port = new_rocketmq(l, s, err, err_cap);
    } else {
        struct redis_results_config config = {.redis = store_redis_config(s, "results"),
                                              .max_len = s->results.stream_max,
                                              .keep_us = s->results.keep_us};
        t->port = redis_results_new(l, &config, err, err_cap);
    }
    return t->port ? 0 : ERR_INVALID;
}

bool result_topic_close(struct result_topic *t, struct op *op)
{
    if (!t->port || t->kind != SETTINGS_QUEUE_ROCKETMQ)
        return false;
    rocketmq_results_close(t->port, op);
    return true;
}

void result_topic_deinit(struct result_topic *t)
{
    if (t->kind == SETTINGS_QUEUE_ROCKETMQ)
        rocketmq_results_free(t->port);
    else
        redis_results_free(t->port);
    t->port = NULL;
}

bool result_topic_ready(const struct result_topic *t)
{
    return !t->port || t->kind != SETTINGS_QUEUE_ROCKETMQ || rocketmq_results_ready(t->port);
}

const char *result_topic_complaint(const struct result_topic *t)
{
    return t->port && t->kind == SETTINGS_QUEUE_ROCKETMQ ? rocketmq_results_complaint(t->port)
                                                         : NULL;
}
