#include "raw_publisher.h"

#include "adapter/rocketmq/producer.h"
#include "base/panic.h"
#include <stdio.h>
#include <stdlib.h>

struct raw_publisher {
    struct loop *loop;
    struct queue *q;
    struct timer limit;
    struct op op;
    bool done;
    int rc;
    uint64_t seed, sent;
};

static void on_limit(struct timer *t)
{
    loop_stop(container_of(t, struct raw_publisher, limit)->loop);
}

static void on_done(struct op *op, int rc)
{
    struct raw_publisher *p = container_of(op, struct raw_publisher, op);
    p->done = true;
    p->rc = rc;
    loop_stop(p->loop);
}

static void turn(struct raw_publisher *p, int64_t us)
{
    sched_set_in(loop_sched(p->loop), &p->limit, us);
    loop_run(p->loop);
}

struct raw_publisher *raw_publisher_new(const char *endpoints, const char *topic)
{
    char err[256] = "";
    struct raw_publisher *p = calloc(1, sizeof *p);
    if (!p)
        panic("raw_publisher: no memory");
    struct rocketmq_config c = {.endpoints = endpoints, .topic = topic};
    rng_secret(&p->seed, sizeof p->seed);
    p->limit.on_fire = on_limit;
    p->loop = loop_new();
    p->q = rocketmq_queue_new(p->loop, &c, err, sizeof err);
    if (!p->q)
        panic("raw_publisher: %s", err);
    for (int i = 0; i < 3000 && !rocketmq_queue_ready(p->q); i++)
        turn(p, 10000);
    return p;
}

void raw_publisher_free(struct raw_publisher *p)
{
    rocketmq_queue_free(p->q);
    turn(p, 1000);
    loop_free(p->loop);
    free(p);
}

static int attempt(struct raw_publisher *p, const struct rmq_message *m)
{
    struct rmq_publish publish = {.op = &p->op, .message = m};
    p->op = (struct op){on_done, loop_now_us(p->loop) + 10000000};
    p->done = false;
    rmq_publish_start(rmq_of(p->q), &publish);
    while (!p->done)
        loop_run(p->loop);
    return p->rc;
}

void raw_publisher_send(struct raw_publisher *p, struct str body)
{
    char id[RMQ_MESSAGE_ID + 1];
    snprintf(id, sizeof id, "01%016llX%016llX", (unsigned long long)p->seed,
             (unsigned long long)++p->sent);
    /* The loop stood still since the last call: its clock does not know yet. */
    turn(p, 0);
    struct rmq_message m = {
        .body = body, .message_id = id, .tag = "ORDER_CREATE_REQUESTED", .keys = {id}, .n_keys = 1};
    int rc = attempt(p, &m);
    for (int i = 0; rc && i < 20; i++)
        rc = attempt(p, &m);
    if (rc)
        panic("raw_publisher: %s", err_name(rc));
}
