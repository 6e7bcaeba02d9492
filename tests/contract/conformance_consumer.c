#include "conformance_consumer.h"

#include "base/panic.h"
#include "queue_client.h"
#include <stdlib.h>

enum { RECEIVE_MAX = 32, OP_US = 3000000 };
enum death { LIVES, DIES_BEFORE_WORK, DIES_BEFORE_ACK, DIES_WITH_ITS_ACK };

/* An ack, an extension or a retry_later under way. */
struct sending {
    struct list link;
    struct consumer *c;
    struct queue_batch b;
    bool over, releases;
    int rc;
    struct queue_message *messages[RECEIVE_MAX];
};

/* --- calls --- */

static void on_sent(struct op *op, int rc)
{
    struct sending *s = container_of(op, struct sending, b.op);
    assert_false(s->over);
    s->over = true;
    s->rc = rc;
    conformance_wake();
}

static struct sending *send(struct consumer *c, struct queue_message **m, int n,
                            void (*start)(struct queue *, struct queue_batch *))
{
    struct sending *s = calloc(1, sizeof *s);
    if (!s)
        panic("conformance: no memory");
    s->c = c;
    s->releases = start != c->q->ops->extend;
    memcpy(s->messages, m, (size_t)n * sizeof m[0]);
    s->b = (struct queue_batch){.op = {on_sent, backend_now_us() + OP_US},
                                .item = m[0]->item,
                                .messages = s->messages,
                                .n = n,
                                .delay_us = 20 * MS};
    list_push_back(&c->sendings, &s->link);
    start(c->q, &s->b);
    assert_false(s->over);
    return s;
}

/* One item at a time, as the port demands. */
static void send_all(struct consumer *c, struct queue_message **m, int n,
                     void (*start)(struct queue *, struct queue_batch *))
{
    for (int at = 0, k; at < n; at += k) {
        for (k = 1; at + k < n && item_eq(m[at + k]->item, m[at]->item);)
            k++;
        send(c, m + at, k, start);
    }
}

static void on_received(struct op *op, int rc)
{
    struct consumer *c = container_of(op, struct consumer, receive.op);
    assert_true(c->receiving && !c->received);
    c->received = true;
    c->rc = rc;
    conformance_wake();
}

static void look(struct consumer *c)
{
    int room = CONSUMER_SLOTS - c->in_hand;
    if (c->receiving || room == 0 || backend_now_us() < c->pause_until_us)
        return;
    c->receive = (struct queue_receive){.op = {on_received, backend_now_us() + backend_lease_us},
                                        .max = room < RECEIVE_MAX ? room : RECEIVE_MAX};
    c->receiving = true;
    c->q->ops->receive(c->q, &c->receive);
    assert_false(c->received);
}

/* --- life and death --- */

void consumer_start(struct consumer *c)
{
    char life[64];
    snprintf(life, sizeof life, "%s-%d", c->name, ++c->lives);
    c->q = faulty_new(backend_consumer(life, CONSUMER_SLOTS), &c->rng, c->odds, c->counts);
    c->q->ops->set_items(c->q, c->model->items, c->model->n_items);
    c->receiving = c->received = false;
    c->n_held = c->in_hand = 0;
    c->pause_until_us = 0;
    list_init(&c->sendings);
}

void consumer_kill(struct consumer *c)
{
    faulty_kill(c->q);
    assert_true(!c->receiving || c->received);
    for (struct list *l; (l = list_pop_front(&c->sendings));) {
        struct sending *s = container_of(l, struct sending, link);
        assert_true(s->over);
        free(s);
    }
}

/* --- messages --- */

static void release(struct consumer *c, struct queue_message *m)
{
    c->q->ops->release(c->q, m);
    c->in_hand--;
}

static enum death death(struct consumer *c, int n)
{
    if (n == 0 || rng_below(&c->rng, 100) >= c->kills)
        return LIVES;
    return (enum death)(DIES_BEFORE_WORK + rng_below(&c->rng, 3));
}

/* Whether it lives. */
static bool work(struct consumer *c)
{
    struct queue_message *acks[RECEIVE_MAX], *later[RECEIVE_MAX];
    int n = 0, n_acks = 0, n_later = 0;
    enum death d = death(c, c->receive.n);
    assert_true(c->receive.n <= c->receive.max);
    c->received = c->receiving = false;
    if (c->rc < 0) { /* 20 ms → 1 s in production */
        c->failed_receives++;
        c->pause_until_us = backend_now_us() + 20 * MS;
    }
    for (struct list *l; (l = list_pop_front(&c->receive.messages)); n++) {
        struct queue_message *m = container_of(l, struct queue_message, link);
        c->in_hand++;
        c->last_brought_us = backend_now_us();
        assert_true(m->deliveries >= 1);
        model_saw(c->model, m);
        if (d == DIES_BEFORE_WORK)
            continue;
        switch (model_take(c->model, m)) {
        case MODEL_ACK:
            acks[n_acks++] = m;
            break;
        case MODEL_LATER:
            later[n_later++] = m;
            break;
        case MODEL_HOLD:
            c->held[c->n_held++] = (struct held){
                .m = m, .due_us = backend_now_us() + backend_lease_us + backend_lease_us / 2};
            break;
        }
    }
    assert_int_equal(n, c->receive.n);
    if (d != DIES_BEFORE_WORK && d != DIES_BEFORE_ACK) {
        send_all(c, acks, n_acks, c->q->ops->ack);
        send_all(c, later, n_later, c->q->ops->retry_later);
    }
    return d == LIVES;
}

static void end_sendings(struct consumer *c)
{
    list_for_each_safe (l, &c->sendings) {
        struct sending *s = container_of(l, struct sending, link);
        if (!s->over)
            continue;
        assert_in_range(s->b.done, 0, s->b.n);
        list_remove(&s->link);
        for (int i = 0; i < c->n_held; i++) {
            if (c->held[i].extension != s)
                continue;
            c->held[i].extension = NULL;
            c->held[i].given_up = s->rc < 0 || s->b.done == 0;
        }
        for (int i = 0; s->releases && i < s->b.n; i++)
            release(c, s->messages[i]);
        free(s);
    }
}

/* What takes long: its lease is prolonged at each quarter of it. Where that failed, half of them
 * stop in time and the others, which slept, go on as if nothing had happened (scenario 20 of
 * failures.md). */
static void hold(struct consumer *c)
{
    int64_t now = backend_now_us();
    for (int i = 0; i < c->n_held;) {
        struct held *h = &c->held[i];
        struct queue_message *m = h->m;
        bool stops = h->given_up && now >= m->lease_until_us && rng_below(&c->rng, 2);
        if (!h->extension && (stops || now >= h->due_us || c->model->healed)) {
            *h = c->held[--c->n_held];
            if (stops) {
                release(c, m);
                continue;
            }
            model_end(c->model, m);
            send(c, &m, 1, c->q->ops->ack);
            continue;
        }
        if (h->given_up && now >= m->lease_until_us)
            h->given_up = false; /* it sleeps */
        else if (!h->extension && !h->given_up && now < m->lease_until_us &&
                 m->lease_until_us - now < backend_lease_us * 3 / 4)
            h->extension = send(c, &m, 1, c->q->ops->extend);
        i++;
    }
}

void consumer_turn(struct consumer *c)
{
    faulty_turn(c->q);
    if (c->received && !work(c)) {
        consumer_kill(c);
        consumer_start(c);
    }
    end_sendings(c);
    hold(c);
    look(c);
}

bool consumer_idle(const struct consumer *c)
{
    return c->in_hand == 0 && list_empty(&c->sendings);
}
