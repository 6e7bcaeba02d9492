#include "adapter/mem/mem_queue.h"

#include "adapter/mem/mem_broker.h"
#include "base/err.h"
#include "base/panic.h"
#include <stdlib.h>

static struct mem_queue *of(struct queue *q)
{
    return container_of(q, struct mem_queue, port);
}

static struct mem_call *start(struct queue *q, int kind, struct op *op, size_t size,
                              int (*apply)(struct mem_call *, void *))
{
    return mem_call_start(&of(q)->link, kind, op, size, of(q), apply);
}

/* --- publish --- */
static int apply_publish(struct mem_call *c, void *request)
{
    struct queue_publish *p = request;
    struct mem_queue *q = c->port;
    const struct item *item = c->aux;
    const char *body = (const char *)(item + 1);
    mem_broker_append(q->broker, *item, str_of(body), p->queue_id);
    return 0;
}

static void op_publish(struct queue *q, struct queue_publish *p)
{
    struct mem_call *c = start(q, MEM_QUEUE_PUBLISH, &p->op, sizeof *p, apply_publish);
    struct strbuf b;
    strbuf_init(&b, EVENT_MAX_BYTES);
    event_encode(p->event, false, &b);
    if (b.failed)
        panic("mem_queue: the event does not fit");
    /* Encoded at once: the event is borrowed only until on_done, the message may arrive after it.
     */
    struct item *item = mem_alloc(sizeof *item + b.len + 1);
    *item = p->event->item;
    memcpy(item + 1, b.ptr, b.len);
    strbuf_deinit(&b);
    c->aux = item;
}

/* --- ack, extend, retry_later --- */
struct batch_rows {
    int n;
    struct {
        struct mem_msg *msg;
        struct mem_hand *hand;
        bool took;
    } row[];
};

static int apply_ack(struct mem_call *c, void *request)
{
    struct queue_batch *r = request;
    struct batch_rows *rows = c->aux;
    r->done = 0;
    for (int i = 0; i < rows->n; i++) {
        if (rows->row[i].msg->state != MEM_MSG_IN_HAND)
            continue;
        rows->row[i].msg->state = MEM_MSG_ACKED;
        r->done++;
    }
    return 0;
}

static int apply_lease(struct mem_call *c, struct queue_batch *r, int64_t lease_us)
{
    struct mem_queue *q = c->port;
    struct batch_rows *rows = c->aux;
    r->done = 0;
    for (int i = 0; i < rows->n; i++) {
        struct mem_msg *m = rows->row[i].msg;
        rows->row[i].took = m->state == MEM_MSG_IN_HAND && m->owner == q->number;
        if (!rows->row[i].took)
            continue;
        mem_broker_lease(m, q->broker->sched->now_us + lease_us);
        r->done++;
    }
    mem_broker_wake(q->broker);
    return 0;
}

static int apply_extend(struct mem_call *c, void *request)
{
    struct mem_queue *q = c->port;
    return apply_lease(c, request, q->broker->lease_us);
}

/* Rule 22: published again, then acked. How many. */
static int republish(struct mem_call *c)
{
    struct mem_queue *q = c->port;
    struct batch_rows *rows = c->aux;
    int done = 0;
    for (int i = 0; i < rows->n && q->broker->dead_after > 0; i++) {
        struct mem_msg *m = rows->row[i].msg;
        if (m->state != MEM_MSG_IN_HAND || m->owner != q->number ||
            (m->deliveries < QUEUE_REPUBLISH_FROM && m->deliveries <= q->broker->dead_after))
            continue;
        mem_broker_append(q->broker, m->stream->item, (struct str){m->body, m->len}, NULL);
        m->state = MEM_MSG_ACKED;
        done++;
    }
    return done;
}

static int apply_retry_later(struct mem_call *c, void *request)
{
    struct mem_queue *q = c->port;
    struct queue_batch *r = request;
    int64_t delay = r->delay_us < 0 ? 0 : r->delay_us;
    int done = republish(c);
    int rc = apply_lease(c, r, delay < q->broker->lease_us ? delay : q->broker->lease_us);
    r->done += done;
    return rc;
}

static void before_extended(struct mem_call *c, void *request, void *callers)
{
    struct mem_queue *q = c->port;
    struct batch_rows *rows = c->aux;
    struct queue_batch *theirs = callers;
    (void)request;
    for (int i = 0; i < rows->n; i++) {
        if (rows->row[i].took)
            theirs->messages[i]->lease_until_us = c->submitted_us + q->broker->lease_us;
    }
}

static struct mem_call *start_batch(struct queue *q, int kind, struct queue_batch *r,
                                    int (*apply)(struct mem_call *, void *))
{
    if (r->n < 1 || r->n > 256)
        panic("queue batch: %d messages", r->n);
    struct mem_call *c = start(q, kind, &r->op, sizeof *r, apply);
    struct batch_rows *rows = mem_alloc(sizeof *rows + (size_t)r->n * sizeof rows->row[0]);
    rows->n = r->n;
    for (int i = 0; i < r->n; i++) {
        rows->row[i].hand = container_of(r->messages[i], struct mem_hand, m);
        rows->row[i].msg = rows->row[i].hand->msg;
    }
    c->aux = rows;
    return c;
}

static void op_ack(struct queue *q, struct queue_batch *r)
{
    start_batch(q, MEM_QUEUE_ACK, r, apply_ack);
}

static void op_extend(struct queue *q, struct queue_batch *r)
{
    start_batch(q, MEM_QUEUE_EXTEND, r, apply_extend)->before_answer = before_extended;
}

static void op_retry_later(struct queue *q, struct queue_batch *r)
{
    start_batch(q, MEM_QUEUE_RETRY_LATER, r, apply_retry_later);
}

/* --- locate, lag --- */
static int apply_locate(struct mem_call *c, void *request)
{
    struct queue_locate *r = request;
    struct mem_queue *q = c->port;
    const struct mem_msg *m = mem_broker_find(q->broker, r->item, r->queue_id);
    if (q->broker->shared)
        return ERR_NOTFOUND;
    if (!m)
        return QUEUE_PASSED;
    switch (m->state) {
    case MEM_MSG_WAITING:
        return QUEUE_WAITING;
    case MEM_MSG_IN_HAND:
        return QUEUE_IN_HAND;
    default:
        return QUEUE_PASSED;
    }
}

static void op_locate(struct queue *q, struct queue_locate *r)
{
    start(q, MEM_QUEUE_LOCATE, &r->op, sizeof *r, apply_locate);
}

static int apply_lag(struct mem_call *c, void *request)
{
    struct queue_lag *r = request;
    struct mem_queue *q = c->port;
    const struct mem_stream *s = mem_broker_stream(q->broker, r->item);
    int64_t now = mem_clock_wall_ms(q->broker->sched);
    bool shared = q->broker->shared;
    r->waiting = r->in_hand = r->oldest_age_ms = 0;
    r->of_all_items = shared;
    for (int i = s->over_to; i < s->n; i++) {
        const struct mem_msg *m = s->all[i];
        if (m->state > MEM_MSG_IN_HAND ||
            (shared && m->state == MEM_MSG_IN_HAND && m->owner != q->number))
            continue;
        r->waiting += m->state == MEM_MSG_WAITING;
        r->in_hand += m->state == MEM_MSG_IN_HAND;
        /* Rule 26: first deliveries make the age; it is 0 only when nothing is left. */
        int64_t age = m->state == MEM_MSG_WAITING || m->deliveries == 1 ? now - m->enqueued_ms : 1;
        if (age < 1)
            age = 1;
        if (age > r->oldest_age_ms)
            r->oldest_age_ms = age;
    }
    return 0;
}

static void op_lag(struct queue *q, struct queue_lag *r)
{
    start(q, MEM_QUEUE_LAG, &r->op, sizeof *r, apply_lag);
}

/* --- the rest --- */
static void op_receive(struct queue *q, struct queue_receive *r)
{
    mem_receive_start(of(q), r);
}

static void op_release(struct queue *q, struct queue_message *m)
{
    struct mem_hand *h = container_of(m, struct mem_hand, m);
    list_remove(&h->all);
    of(q)->in_hand--;
    free(h);
    mem_broker_wake(of(q)->broker); /* a receive may be waiting for a slot */
}

static void op_cancel(struct queue *q, struct op *op)
{
    if (!mem_receive_cancel(of(q), op))
        mem_call_cancel(&of(q)->link, op);
}

static void op_set_items(struct queue *q, const struct item *items, int n)
{
    struct mem_queue *m = of(q);
    static const struct item all = {0, 0};
    if (m->broker->shared) {
        items = &all;
        n = 1;
    }
    free(m->items);
    m->items = mem_alloc((size_t)n * sizeof *items);
    if (n)
        memcpy(m->items, items, (size_t)n * sizeof *items);
    m->n_items = n;
    m->next_item = 0;
    mem_broker_wake(m->broker);
}

static const struct queue_ops ops = {
    .publish = op_publish,
    .receive = op_receive,
    .ack = op_ack,
    .extend = op_extend,
    .retry_later = op_retry_later,
    .locate = op_locate,
    .lag = op_lag,
    .release = op_release,
    .cancel = op_cancel,
    .set_items = op_set_items,
};

struct queue *mem_queue_new(struct mem_broker *b, const char *consumer, int max_in_hand)
{
    struct mem_queue *q = mem_alloc(sizeof *q);
    q->port.ops = &ops;
    q->broker = b;
    q->number = ++b->next_consumer;
    q->max_in_hand = max_in_hand;
    str_copy(q->consumer, sizeof q->consumer, str_of(consumer));
    list_init(&q->hands);
    list_init(&q->receives);
    mem_link_init(&q->link, b->sched, b->latency_us);
    b->consumers++;
    op_set_items(&q->port, NULL, 0);
    return &q->port;
}

void mem_queue_free(struct queue *port)
{
    struct mem_queue *q = of(port);
    struct list *l;
    mem_receive_end_all(q);
    mem_link_deinit(&q->link);
    while ((l = list_pop_front(&q->hands)))
        free(container_of(l, struct mem_hand, all));
    q->broker->consumers--;
    free(q->items);
    free(q);
}

struct mem_faults *mem_queue_faults(struct queue *q)
{
    return &of(q)->link.faults;
}
