/* AckMessage. The steps of one turn at one broker go together, up to RMQ_ACK_ENTRIES in a request;
 * each entry of the answer has its own status, and what the answer does not name is unknown. */
#include "adapter/rocketmq/inner.h"

#include "base/err.h"
#include "base/panic.h"
#include <stdlib.h>

struct rmq_ack {
    struct rmq_call call;
    struct list link; /* idle_acks */
    struct rmq_outlet *from;
    int n;
    struct rmq_step *steps[RMQ_ACK_ENTRIES];
    int codes[RMQ_ACK_ENTRIES]; /* 0: not told; -1: told in two ways */
};

static int entry_of(const struct rmq_ack *a, const Rmq__AckMessageResultEntry *e, int guess)
{
    if (!e->receipt_handle)
        return -1;
    if (guess < a->n && strcmp(a->steps[guess]->slot->handle, e->receipt_handle) == 0)
        return guess;
    for (int i = 0; i < a->n; i++) {
        if (strcmp(a->steps[i]->slot->handle, e->receipt_handle) == 0)
            return i;
    }
    return -1;
}

static void on_message(struct rmq_call *call, const ProtobufCMessage *m)
{
    struct rmq_ack *a = container_of(call, struct rmq_ack, call);
    const Rmq__AckMessageResponse *r = (const Rmq__AckMessageResponse *)(const void *)m;
    for (size_t k = 0; k < r->n_entries; k++) {
        const Rmq__AckMessageResultEntry *e = r->entries[k];
        int i = entry_of(a, e, k < RMQ_ACK_ENTRIES ? (int)k : 0);
        int code = e->status && e->status->has_code ? e->status->code : 0;
        if (i < 0 || code <= 0)
            continue;
        a->codes[i] = a->codes[i] == 0 || a->codes[i] == code ? code : -1;
    }
}

static void end_step(struct rmq_step *s, int code, const struct rmq_answer *answer)
{
    struct rmq_slot *slot = s->slot;
    enum rmq_class class = code > 0 ? rmq_class_of(code) : RMQ_UNKNOWN;
    if (code == 0 && answer->rc < 0) { /* no word on this one: that on all of them */
        class = answer->class;
        if (class != RMQ_EXPIRED) {
            rmq_step_end(s, answer->rc, false);
            return;
        }
    }
    if (class == RMQ_OK) {
        slot->hold = RMQ_ACKED;
        rmq_step_end(s, 0, true);
    } else if (class == RMQ_EXPIRED) {
        rmq_slot_lose(slot);
        /* Published again it was, so that "later" is done (rule 22). */
        rmq_step_end(s, 0, s->again != NULL);
    } else {
        int rc = rmq_class_rc(class);
        rmq_step_end(s, rc < 0 ? rc : ERR_UNCERTAIN, false);
    }
}

static void on_answer(struct rmq_call *call, const struct rmq_answer *answer)
{
    struct rmq_ack *a = container_of(call, struct rmq_ack, call);
    struct rmq_consumer *c = a->from->source->c;
    if (!c->mq->ending)
        rmq_session_heed(&a->from->source->session, call->channel, answer);
    for (int i = 0; i < a->n; i++)
        end_step(a->steps[i], a->codes[i], answer);
    a->n = 0;
    list_push_back(&c->idle_acks, &a->link);
}

static struct rmq_ack *take_idle(struct rmq_consumer *c)
{
    struct list *l = list_pop_front(&c->idle_acks);
    if (l)
        return container_of(l, struct rmq_ack, link);
    /* There are never more of them than messages in hand. */
    struct rmq_ack *a = calloc(1, sizeof *a);
    if (!a)
        panic("rocketmq: no memory for an ack");
    list_init(&a->link);
    a->call.on_message = on_message;
    a->call.on_answer = on_answer;
    return a;
}

static bool room_for(struct rmq_call *call, const ProtobufCMessage *request)
{
    size_t n = protobuf_c_message_get_packed_size(request);
    if (n <= call->buf_cap)
        return true;
    void *buf = realloc(call->buf, 2 * n);
    if (!buf)
        return false;
    call->buf = buf;
    call->buf_cap = 2 * n;
    return true;
}

static int start(struct rmq_ack *a, struct rmq_channel *ch, int64_t deadline_us)
{
    const struct rmq_source *s = a->from->source;
    Rmq__AckMessageEntry entries[RMQ_ACK_ENTRIES], *list[RMQ_ACK_ENTRIES];
    Rmq__Resource group = rmq_resource(s->group), topic = rmq_resource(s->topic);
    Rmq__AckMessageRequest r = RMQ__ACK_MESSAGE_REQUEST__INIT;
    for (int i = 0; i < a->n; i++) {
        entries[i] = (Rmq__AckMessageEntry)RMQ__ACK_MESSAGE_ENTRY__INIT;
        entries[i].message_id = a->steps[i]->slot->m.id;
        entries[i].receipt_handle = a->steps[i]->slot->handle;
        list[i] = &entries[i];
        a->codes[i] = 0;
    }
    r.group = &group;
    r.topic = &topic;
    r.entries = list;
    r.n_entries = (size_t)a->n;
    if (!room_for(&a->call, &r.base))
        return ERR_OVERLOAD;
    return rmq_call_start(&a->call, &a->from->source->session, ch, RMQ_ACK, &r.base, deadline_us,
                          false);
}

static void send_some(struct rmq_outlet *o)
{
    struct rmq_consumer *c = o->source->c;
    struct rmq_ack *a = take_idle(c);
    struct rmq_channel *ch = rmq_outlet_channel(o, false);
    int64_t deadline = rmq_consumer_now(c) + c->mq->c.request_us;
    struct list *l;
    a->from = o;
    while (a->n < RMQ_ACK_ENTRIES && (l = list_pop_front(&o->acks))) {
        struct rmq_step *s = container_of(l, struct rmq_step, queued);
        a->steps[a->n++] = s;
        if (s->work->deadline_us < deadline)
            deadline = s->work->deadline_us;
    }
    int rc = ch ? start(a, ch, deadline) : ERR_UNAVAIL;
    if (rc == 0)
        return;
    int n = a->n;
    a->n = 0;
    list_push_back(&c->idle_acks, &a->link);
    for (int i = 0; i < n; i++)
        rmq_step_end(a->steps[i], rc, false);
}

static void flush_source(struct rmq_source *s)
{
    for (int i = 0; i < s->n_outlets; i++) {
        while (!list_empty(&s->outlets[i]->acks))
            send_some(s->outlets[i]);
    }
}

void rmq_ack_add(struct rmq_step *s)
{
    struct rmq_consumer *c = s->work->c;
    s->sent = true; /* by the end of this turn */
    list_push_back(&s->slot->from->acks, &s->queued);
    if (!c->mq->ending)
        loop_flush_later(c->mq->loop, &c->flush);
}

void rmq_ack_flush(struct rmq_consumer *c)
{
    flush_source(&c->group);
    flush_source(&c->dead);
}

void rmq_ack_deinit(struct rmq_consumer *c)
{
    struct list *l;
    while ((l = list_pop_front(&c->idle_acks))) {
        struct rmq_ack *a = container_of(l, struct rmq_ack, link);
        free(a->call.buf);
        free(a);
    }
}
