/* One broker for the suite; a topic and a group for each test. What arrived is read by our own
 * consumer. */
#include "adapter/rocketmq/rocketmq.h"
#include "backend_loop.h"
#include "base/clock.h"
#include "base/panic.h"
#include "results_backend.h"
#include "support/private_rocketmq.h"
#include <stdio.h>
#include <stdlib.h>

#define READ_US 15000000

static struct private_rocketmq mq;
static struct results *results;
static struct queue *reader;
static int64_t next_sku;
static int tests;
static char texts[512][RESULT_MAX_BYTES + 1];
static int n_texts;
static bool received;

static void stop_rocketmq(void)
{
    private_rocketmq_stop(&mq);
}

void backend_start(void)
{
    static const char *const options[] = {"--fast", NULL};
    static char topic[64], group[64], spec[96];
    char err[256] = "";
    if (!mq.proxy_pid) {
        private_rocketmq_start(&mq, options);
        atexit(stop_rocketmq);
    }
    snprintf(topic, sizeof topic, "results-%d", ++tests);
    snprintf(group, sizeof group, "results-reader-%d", tests);
    private_rocketmq_make_topic(&mq, topic);
    snprintf(spec, sizeof spec, "%%DLQ%%%s:NORMAL:1", group);
    private_rocketmq_make_topic(&mq, spec);
    private_rocketmq_make_group(&mq, group);
    backend_loop_open();
    n_texts = 0;
    struct rocketmq_config c = {.endpoints = mq.endpoints,
                                .namesrv = mq.namesrv,
                                .topic = topic,
                                .group = group,
                                .dead_group = mq.dead_group,
                                .consume = true,
                                .max_in_hand = 64,
                                .lease_us = 10000000,
                                .poll_us = 500000};
    results = rocketmq_results_new(backend_loop(), &c, err, sizeof err);
    reader = rocketmq_queue_new(backend_loop(), &c, err, sizeof err);
    if (!results || !reader)
        panic("rocketmq: %s", err);
    const bool never = false;
    int64_t end = clock_mono_us() + 30000000;
    while (!rocketmq_results_ready(results) || !rocketmq_queue_ready(reader)) {
        if (clock_mono_us() > end)
            panic("rocketmq: not ready");
        backend_run(&never, 5000);
    }
}

void backend_stop(void)
{
    rocketmq_results_free(results);
    rocketmq_queue_free(reader);
    backend_loop_close();
}

struct results *backend_results(void)
{
    return results;
}

struct item backend_item(void)
{
    return (struct item){5, ++next_sku};
}

static void on_received(struct op *op, int rc)
{
    (void)op;
    (void)rc;
    received = true;
    backend_wake();
}

static void on_acked(struct op *op, int rc)
{
    on_received(op, rc);
}

static void take(struct queue_message *m)
{
    struct queue_batch ack = {
        .op = {on_acked, backend_now_us() + 3000000}, .item = m->item, .messages = &m, .n = 1};
    size_t n = m->body.len < RESULT_MAX_BYTES ? m->body.len : RESULT_MAX_BYTES;
    memcpy(texts[n_texts], m->body.ptr, n);
    texts[n_texts++][n] = '\0';
    received = false;
    reader->ops->ack(reader, &ack);
    backend_run(&received, 5000000);
    reader->ops->release(reader, m);
}

static int of_item(struct item item, const char **bodies, int max)
{
    char word[64];
    int found = 0;
    snprintf(word, sizeof word, "\"sku_id\":%lld,", (long long)item.sku_id);
    for (int i = 0; i < n_texts && found < max; i++) {
        if (strstr(texts[i], word))
            bodies[found++] = texts[i];
    }
    return found;
}

int backend_read(struct item item, int n, const char **bodies, int max)
{
    int64_t end = clock_mono_us() + READ_US;
    while (of_item(item, bodies, max) < n && clock_mono_us() < end) {
        struct queue_receive r = {.max = 32, .op = {on_received, backend_now_us() + 1000000}};
        received = false;
        reader->ops->receive(reader, &r);
        if (!backend_run(&received, 10000000))
            panic("a receive never completed");
        for (struct list *l; (l = list_pop_front(&r.messages));)
            take(container_of(l, struct queue_message, link));
    }
    return of_item(item, bodies, max);
}

void backend_down(void)
{
    private_rocketmq_kill(&mq);
}

void backend_up(void)
{
    const bool never = false;
    private_rocketmq_again(&mq);
    backend_run(&never, 1000); /* the loop stood still meanwhile */
}
