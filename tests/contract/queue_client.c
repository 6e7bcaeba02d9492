#include "queue_client.h"

#include "base/panic.h"

#define PATIENCE_US 30000000
#define OP_US 20000000

struct batch_op {
    struct queue_batch b;
    struct waiter w;
};
struct publish_op {
    struct queue_publish p;
    struct waiter w;
};
struct locate_op {
    struct queue_locate l;
    struct waiter w;
};
struct lag_op {
    struct queue_lag l;
    struct waiter w;
};

static void over(struct waiter *w, int rc)
{
    if (w->done)
        panic("an operation completed twice");
    w->done = true;
    w->rc = rc;
    backend_wake();
}

static int wait_for(struct waiter *w)
{
    if (!backend_run(&w->done, PATIENCE_US))
        panic("an operation never completed");
    return w->rc;
}

struct event client_event(struct item item, int64_t number)
{
    struct event e = {.item = item,
                      .user_id = number,
                      .order_id = number,
                      .created_at_us = 1780000000000000 + number,
                      .schema_version = EVENT_SCHEMA_VERSION,
                      .version = {1, number},
                      .traceparent = STR(""),
                      .tracestate = STR("")};
    memcpy(e.message_id.b, &number, sizeof number);
    memcpy(e.message_id.b + 8, &item.sku_id, sizeof item.sku_id);
    e.request_id = e.reservation_id = e.message_id;
    e.message_id.b[6] = 0x70;
    return e;
}

static void on_published(struct op *op, int rc)
{
    over(&container_of(op, struct publish_op, p.op)->w, rc);
}

int client_publish(struct queue *q, struct item item, int64_t number, char queue_id[32])
{
    struct event e = client_event(item, number);
    struct publish_op x = {.p = {.op = {on_published, backend_now_us() + OP_US}, .event = &e}};
    q->ops->publish(q, &x.p);
    assert_false(x.w.done);
    int rc = wait_for(&x.w);
    if (queue_id)
        memcpy(queue_id, x.p.queue_id, 32);
    return rc;
}

void client_append(struct item item, int64_t number, char queue_id[32])
{
    char mem[EVENT_MAX_BYTES];
    struct strbuf b;
    struct event e = client_event(item, number);
    strbuf_init_fixed(&b, mem, sizeof mem);
    event_encode(&e, false, &b);
    backend_append(item, strbuf_str(&b), queue_id);
}

int64_t client_number(const struct queue_message *m)
{
    struct event e;
    const char *why;
    return event_decode(m->body, &e, &why) ? -1 : e.order_id;
}

static void on_received(struct op *op, int rc)
{
    over(&container_of(op, struct pending_receive, r.op)->w, rc);
}

void client_receive_start(struct pending_receive *p, struct queue *q, int max, int64_t wait_us)
{
    *p = (struct pending_receive){
        .r = {.op = {on_received, backend_now_us() + wait_us}, .max = max}, .q = q};
    q->ops->receive(q, &p->r);
    assert_false(p->w.done);
}

int client_receive_end(struct pending_receive *p, struct hand *h)
{
    int rc = wait_for(&p->w), n = 0;
    assert_true(p->r.n <= p->r.max);
    for (struct list *l; (l = list_pop_front(&p->r.messages)); n++) {
        assert_true(h->n < HAND_MAX);
        h->m[h->n++] = container_of(l, struct queue_message, link);
    }
    assert_int_equal(n, p->r.n);
    return rc;
}

int client_receive(struct queue *q, struct hand *h, int max, int64_t wait_us)
{
    struct pending_receive p;
    int64_t end = backend_now_us() + PATIENCE_US;
    int rc;
    do {
        client_receive_start(&p, q, max, wait_us);
        rc = client_receive_end(&p, h);
    } while (rc == ERR_UNAVAIL && !backend_virtual && backend_now_us() < end);
    return rc;
}

static void on_batch(struct op *op, int rc)
{
    over(&container_of(op, struct batch_op, b.op)->w, rc);
}

static int batch(struct queue *q, struct hand *h,
                 void (*start)(struct queue *, struct queue_batch *), int64_t delay_us)
{
    int done = 0;
    for (int at = 0; at < h->n;) {
        /* One item at a time, as the port demands. */
        struct queue_message *m[256];
        struct batch_op x = {.b = {.op = {on_batch, backend_now_us() + OP_US},
                                   .item = h->m[at]->item,
                                   .messages = m,
                                   .delay_us = delay_us}};
        while (at < h->n && x.b.n < 256 && item_eq(h->m[at]->item, x.b.item))
            m[x.b.n++] = h->m[at++];
        start(q, &x.b);
        assert_false(x.w.done);
        int rc = wait_for(&x.w);
        if (rc)
            return rc;
        done += x.b.done;
    }
    return done;
}

int client_ack(struct queue *q, struct hand *h)
{
    return batch(q, h, q->ops->ack, 0);
}

int client_extend(struct queue *q, struct hand *h)
{
    return batch(q, h, q->ops->extend, 0);
}

int client_retry_later(struct queue *q, struct hand *h, int64_t delay_us)
{
    return batch(q, h, q->ops->retry_later, delay_us);
}

void client_release(struct queue *q, struct hand *h)
{
    for (int i = 0; i < h->n; i++)
        q->ops->release(q, h->m[i]);
    h->n = 0;
}

static void on_located(struct op *op, int rc)
{
    over(&container_of(op, struct locate_op, l.op)->w, rc);
}

int client_locate(struct queue *q, struct item item, const char *queue_id)
{
    struct locate_op x = {.l = {.op = {on_located, backend_now_us() + OP_US}, .item = item}};
    str_copy(x.l.queue_id, sizeof x.l.queue_id, str_of(queue_id));
    q->ops->locate(q, &x.l);
    return wait_for(&x.w);
}

static void on_lag(struct op *op, int rc)
{
    over(&container_of(op, struct lag_op, l.op)->w, rc);
}

int client_lag(struct queue *q, struct item item, struct queue_lag *lag)
{
    struct lag_op x = {.l = {.op = {on_lag, backend_now_us() + OP_US}, .item = item}};
    q->ops->lag(q, &x.l);
    int rc = wait_for(&x.w);
    *lag = x.l;
    return rc;
}

void client_rest(int64_t us)
{
    const bool never = false;
    backend_run(&never, us);
}
