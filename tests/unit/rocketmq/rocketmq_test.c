#include "rocketmq_test.h"

#include "base/metric.h"
#include <stdio.h>

void test_event(struct event *e, int n)
{
    *e = (struct event){.item = {1001, 2001},
                        .user_id = 7,
                        .order_id = 9000 + n,
                        .created_at_us = INT64_C(1780000000000000) + n,
                        .schema_version = EVENT_SCHEMA_VERSION,
                        .version = {1, n},
                        .traceparent =
                            STR("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
                        .tracestate = STR("")};
    for (int i = 0; i < 16; i++) {
        e->message_id.b[i] = (uint8_t)(i + n);
        e->request_id.b[i] = (uint8_t)(0x40 + i);
        e->reservation_id.b[i] = (uint8_t)(0x80 + i);
    }
}

static void on_done(struct op *op, int rc)
{
    struct test_publish *t = container_of(op, struct test_publish, p.op);
    t->ends++;
    t->rc = rc;
}

void test_publish(struct loop *l, struct queue *q, struct test_publish *t, int n,
                  int64_t deadline_in_us)
{
    memset(t, 0, sizeof *t);
    test_event(&t->e, n);
    t->p.event = &t->e;
    t->p.op.on_done = on_done;
    t->p.op.deadline_us = in(deadline_in_us);
    (void)l;
    q->ops->publish(q, &t->p);
    assert_int_equal(t->ends, 0); /* never inside its submit */
}

int test_publish_run(struct loop *l, struct queue *q, int n, int64_t deadline_in_us)
{
    struct test_publish t;
    test_publish(l, q, &t, n, deadline_in_us);
    UNTIL(l, t.ends);
    assert_int_equal(t.ends, 1);
    return t.rc;
}

struct queue *test_queue(struct loop *l, const char *endpoints,
                         void (*change)(struct rocketmq_config *c))
{
    struct rocketmq_config c = {.endpoints = endpoints, .topic = "T", .request_us = 2 * SECONDS};
    char err[200] = "";
    if (change)
        change(&c);
    struct queue *q = rocketmq_queue_new(l, &c, err, sizeof err);
    if (!q)
        fail_msg("%s", err);
    return q;
}

struct queue *test_queue_ready(struct loop *l, const char *endpoints,
                               void (*change)(struct rocketmq_config *c))
{
    struct queue *q = test_queue(l, endpoints, change);
    UNTIL(l, rocketmq_queue_ready(q));
    return q;
}

static void on_op(struct op *op, int rc)
{
    struct test_op *t = container_of(op, struct test_op, op);
    t->ends++;
    t->rc = rc;
}

void test_op_init(struct test_op *t, int64_t deadline_in_us)
{
    *t = (struct test_op){.op = {.on_done = on_op, .deadline_us = in(deadline_in_us)}};
}

uint64_t test_metric(const char *name, const char *labels)
{
    static const char *const gauges[] = {"seckill_mq_complaints", "seckill_mq_publish_waiting",
                                         "seckill_mq_proxies_isolated"};
    for (size_t i = 0; i < sizeof gauges / sizeof gauges[0]; i++) {
        if (strcmp(name, gauges[i]) == 0)
            return metric_value(metric_gauge(name, "", labels));
    }
    return metric_value(metric_counter(name, "", labels));
}

int test_metrics_documented(void)
{
    static char docs[256 << 10];
    FILE *f = fopen(SECKILL_SOURCE_DIR "/docs/metrics.md", "r");
    assert_non_null(f);
    docs[fread(docs, 1, sizeof docs - 1, f)] = '\0';
    fclose(f);
    struct strbuf text;
    strbuf_init(&text, 1 << 20);
    metric_render(&text);
    strbuf_add_char(&text, '\0');
    int n = 0;
    for (const char *at = text.ptr; (at = strstr(at, "# TYPE seckill_mq_")); at++, n++) {
        char name[80], type[16], row[128];
        assert_int_equal(sscanf(at, "# TYPE %79s %15s", name, type), 2);
        snprintf(row, sizeof row, "| `%s` | %s |", name, type);
        if (!strstr(docs, row))
            fail_msg("docs/metrics.md has no row %s", row);
    }
    strbuf_deinit(&text);
    return n;
}
