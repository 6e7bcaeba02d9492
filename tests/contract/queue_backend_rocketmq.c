/* One broker for the suite; a topic, a group and a reader of its dead letters for each test, so
 * that none meets what another left. Publishing past the port is another client's, on a loop of its
 * own: the test's loop stands still meanwhile. */
#include "queue_backend_rocketmq.h"

#include "adapter/rocketmq/rocketmq.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/panic.h"
#include "raw_publisher.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

/* QUEUE_BACKEND_DEAD_AFTER: the broker gives a message up so soon that a test can wait for it; less
 * than that many deliveries are ours. */
#ifdef QUEUE_BACKEND_DEAD_AFTER
#define GROUP_RETRIES (QUEUE_BACKEND_DEAD_AFTER - 1)
#ifndef QUEUE_BACKEND_CONFORMANCE
/* All else was run with the other number. */
__attribute__((constructor)) static void choose_tests(void)
{
    cmocka_set_test_filter("the_dead_are_published_again");
}
#endif
#else
#define GROUP_RETRIES 9
#endif

const int64_t backend_lease_us = 4000000; /* a busy machine answers within it */
const bool backend_virtual = false;
const struct backend_traits backend_traits = {
    .dead_after = GROUP_RETRIES + 1,
    /* 5.5.0: a proxy that finds the stream of a poll dead gives the message back at once. When that
     * happens in the millisecond of the pop, both checkpoints have one key, and the ack of the
     * first is taken for both. */
    .loses_with_the_dead = true,
    .redelivery_slack_us = 5000000, /* the design's rocketmq.md 8 */
    .latency_us = 40000,
};

struct private_rocketmq backend_rocketmq;
char backend_topic[64], backend_group[64], backend_dead_group[64];

static struct raw_publisher *publisher;
static int64_t next_sku;
static int alive; /* consumers */
static int tests;

static void stop_rocketmq(void)
{
    private_rocketmq_stop(&backend_rocketmq);
}

static void make_names(void)
{
    char spec[160];
    tests++;
    snprintf(backend_topic, sizeof backend_topic, "contract-%d", tests);
    snprintf(backend_group, sizeof backend_group, "contract-group-%d", tests);
    snprintf(backend_dead_group, sizeof backend_dead_group, "contract-dead-%d", tests);
    private_rocketmq_make_topic(&backend_rocketmq, backend_topic);
    snprintf(spec, sizeof spec, "%%DLQ%%%s:NORMAL:1", backend_group);
    private_rocketmq_make_topic(&backend_rocketmq, spec);
    snprintf(spec, sizeof spec, "%s:%d", backend_group, GROUP_RETRIES);
    private_rocketmq_make_group(&backend_rocketmq, spec);
    snprintf(spec, sizeof spec, "%s:1000", backend_dead_group);
    private_rocketmq_make_group(&backend_rocketmq, spec);
}

void backend_start(void)
{
    static const char *const options[] = {"--fast", NULL};
    if (!backend_rocketmq.proxy_pid) {
        private_rocketmq_start(&backend_rocketmq, options);
        atexit(stop_rocketmq);
    }
    make_names();
    backend_loop_open();
    publisher = raw_publisher_new(backend_rocketmq.endpoints, backend_topic);
}

void backend_stop(void)
{
    if (alive) { /* a failed test: its operations lived on a stack that is gone, so nothing is freed
                  */
        alive = 0;
        return;
    }
    backend_loop_close();
    raw_publisher_free(publisher);
}

struct item backend_item(void)
{
    return (struct item){1, ++next_sku};
}

struct queue *backend_consumer(const char *name, int max_in_hand)
{
    char err[256] = "";
    struct rocketmq_config c = {.endpoints = backend_rocketmq.endpoints,
                                .namesrv = backend_rocketmq.namesrv,
                                .topic = backend_topic,
                                .group = backend_group,
                                .dead_group = backend_dead_group,
                                .consume = true,
                                .max_in_hand = max_in_hand,
                                .lease_us = backend_lease_us,
                                .poll_us = 500000};
    struct queue *q = rocketmq_queue_new(backend_loop(), &c, err, sizeof err);
    if (!q)
        panic("rocketmq_queue_new: %s", err);
    (void)name;
    alive++;
    /* Receiving waits for the settings, and the suite's times are of a queue that is up. */
    const bool never = false;
    int64_t end = clock_mono_us() + 30000000;
    while (!rocketmq_queue_ready(q)) {
        if (clock_mono_us() > end)
            panic("not ready: %s", rocketmq_queue_complaint(q) ? rocketmq_queue_complaint(q) : "-");
        backend_run(&never, 5000);
    }
    return q;
}

void backend_kill(struct queue *q)
{
    rocketmq_queue_free(q);
    alive--;
}

void backend_append(struct item item, struct str body, char *queue_id)
{
    (void)item;
    raw_publisher_send(publisher, body);
    if (queue_id)
        queue_id[0] = '\0';
}
