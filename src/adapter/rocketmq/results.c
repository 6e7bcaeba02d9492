/* The results port: a message per row, as many on the wire as the producer lets. */
#include "adapter/rocketmq/client.h"
#include "adapter/rocketmq/message.h"
#include "base/panic.h"
#include <stdio.h>
#include <stdlib.h>

struct rmq_results {
    struct results port;
    struct queue *queue; /* its topic is the result topic; nothing else uses it */
    struct list batches;
};

struct row {
    struct op op;
    struct batch *batch;
    struct rmq_publish publish;
    struct rmq_message message; /* points into what follows */
    char message_id[RMQ_MESSAGE_ID + 1];
    char keys[3][RMQ_KEY_MAX];
    char body[RESULT_MAX_BYTES];
};

struct batch {
    struct list link;
    struct results_publish *p;
    int left, arrived, rc;
    struct row rows[];
};

static struct rmq_results *of(struct results *r)
{
    return container_of(r, struct rmq_results, port);
}

static void on_row(struct op *op, int rc)
{
    struct row *r = container_of(op, struct row, op);
    struct batch *b = r->batch;
    b->p->rows[r - b->rows].published = rc == 0;
    b->arrived += rc == 0;
    if (rc)
        b->rc = rc;
    if (--b->left > 0)
        return;
    struct op *whole = &b->p->op;
    rc = b->arrived > 0 ? 0 : b->rc;
    list_remove(&b->link);
    free(b);
    whole->on_done(whole, rc);
}

static void fill(struct row *r, const struct result *result)
{
    struct strbuf body;
    struct uuid key = result_key(result);
    strbuf_init_fixed(&body, r->body, sizeof r->body);
    result_encode(result, &body);
    rmq_message_id(&key, r->message_id);
    snprintf(r->keys[0], RMQ_KEY_MAX, "%s", uuid_text(&result->message_id).z);
    snprintf(r->keys[1], RMQ_KEY_MAX, "%lld:%lld:%s", (long long)result->item.activity_id,
             (long long)result->item.sku_id, uuid_text(&result->reservation_id).z);
    snprintf(r->keys[2], RMQ_KEY_MAX, "%s", uuid_text(&result->request_id).z);
    r->message = (struct rmq_message){.body = strbuf_str(&body),
                                      .message_id = r->message_id,
                                      .tag = result->event,
                                      .keys = {r->keys[0], r->keys[1], r->keys[2]},
                                      .n_keys = 3};
}

static void publish(struct results *port, struct results_publish *p)
{
    struct rmq_results *s = of(port);
    struct batch *b = calloc(1, sizeof *b + (size_t)p->n * sizeof b->rows[0]);
    if (!b)
        panic("rocketmq: no memory for %d results", p->n);
    b->p = p;
    b->left = p->n;
    list_push_back(&s->batches, &b->link);
    for (int i = 0; i < p->n; i++) {
        struct row *r = &b->rows[i];
        p->rows[i].published = false;
        r->batch = b;
        r->op = (struct op){on_row, p->op.deadline_us};
        fill(r, &p->rows[i].result);
        r->publish = (struct rmq_publish){.op = &r->op, .message = &r->message};
        rmq_publish_start(rmq_of(s->queue), &r->publish);
    }
}

static void cancel(struct results *port, struct op *op)
{
    struct rmq_results *s = of(port);
    list_for_each (l, &s->batches) {
        struct batch *b = container_of(l, struct batch, link);
        for (int i = 0; &b->p->op == op && i < b->p->n; i++)
            rmq_publish_cancel(rmq_of(s->queue), &b->rows[i].op);
    }
}

static const struct results_ops ops = {.publish = publish, .cancel = cancel};

struct results *rocketmq_results_new(struct loop *l, const struct rocketmq_config *c, char *err,
                                     size_t err_cap)
{
    struct rocketmq_config config = *c;
    struct rmq_results *s = calloc(1, sizeof *s);
    config.consume = false;
    config.metric_queue = "results";
    if (s)
        s->queue = rocketmq_queue_new(l, &config, err, err_cap);
    if (!s || !s->queue) {
        free(s);
        return NULL;
    }
    s->port.ops = &ops;
    list_init(&s->batches);
    return &s->port;
}

void rocketmq_results_close(struct results *r, struct op *op)
{
    rocketmq_queue_close(of(r)->queue, op);
}

void rocketmq_results_free(struct results *r)
{
    if (!r)
        return;
    rocketmq_queue_free(of(r)->queue);
    free(of(r));
}

bool rocketmq_results_ready(struct results *r)
{
    return rocketmq_queue_ready(of(r)->queue);
}

const char *rocketmq_results_complaint(struct results *r)
{
    return rocketmq_queue_complaint(of(r)->queue);
}
