/* ChangeInvisibleDuration: extend makes the lease a whole one again, later a short one. The answer
 * brings a new handle, and the old one must not be used any more (it would be taken, and open a
 * second lease): so after an answer that leaves it open whether there is a new one, the message
 * counts as lost. RMQ_CHANGES at a time, the others wait within their deadlines.
 *
 * Never within the millisecond of the pop: the broker names its checkpoints by that, and would take
 * the end of the first for the end of both. The message would be gone (seen with 5.5.0). */
#include "adapter/rocketmq/inner.h"

#include "base/err.h"
#include <stdlib.h>

#define SETTLE_US 5000

struct rmq_change {
    struct rmq_call call;
    struct list link; /* idle_changes */
    struct rmq_consumer *c;
    struct rmq_step *step;
    int64_t sent_us;
    bool renewed; /* a new handle came */
    char handle[RMQ_HANDLE_MAX];
    unsigned char buf[2048];
};

static void on_message(struct rmq_call *call, const ProtobufCMessage *m)
{
    struct rmq_change *x = container_of(call, struct rmq_change, call);
    const Rmq__ChangeInvisibleDurationResponse *r =
        (const Rmq__ChangeInvisibleDurationResponse *)(const void *)m;
    x->renewed = r->receipt_handle && r->receipt_handle[0] &&
                 str_copy(x->handle, sizeof x->handle, str_of(r->receipt_handle));
}

static void extended(struct rmq_change *x)
{
    struct rmq_slot *slot = x->step->slot;
    memcpy(slot->handle, x->handle, strlen(x->handle) + 1);
    slot->m.lease_until_us = x->sent_us + x->c->mq->c.lease_us;
    rmq_step_end(x->step, 0, true);
}

static void lost(struct rmq_change *x, int rc)
{
    rmq_slot_lose(x->step->slot);
    rmq_step_end(x->step, rc, false);
}

static void on_answer(struct rmq_call *call, const struct rmq_answer *a)
{
    struct rmq_change *x = container_of(call, struct rmq_change, call);
    struct rmq_consumer *c = x->c;
    struct rmq_step *s = x->step;
    bool later = s->work->kind == RMQ_WORK_LATER;
    if (!c->mq->ending)
        rmq_session_heed(&s->slot->from->source->session, call->channel, a);
    list_push_back(&c->idle_changes, &x->link);
    if (a->class == RMQ_EXPIRED) {
        lost(x, 0);
    } else if (a->class == RMQ_OK && a->rc == 0 && later) {
        s->slot->hold = RMQ_GIVEN_BACK;
        s->slot->m.lease_until_us = rmq_consumer_now(c);
        rmq_step_end(s, 0, true);
    } else if (a->class == RMQ_OK && a->rc == 0 && x->renewed) {
        extended(x);
    } else if (a->rc == 0 || err_is_unknown(a->rc)) {
        lost(x, ERR_UNCERTAIN);
    } else {
        rmq_step_end(s, a->rc, false); /* certainly not done: the old handle is good still */
    }
    if (!list_empty(&c->changes) && !c->mq->ending)
        loop_flush_later(c->mq->loop, &c->flush);
}

static void start(struct rmq_change *x)
{
    struct rmq_step *s = x->step;
    struct rmq_source *source = s->slot->from->source;
    struct rmq_channel *ch = rmq_outlet_channel(s->slot->from, false);
    Rmq__Resource group = rmq_resource(source->group), topic = rmq_resource(source->topic);
    Rmq__Duration d = rmq_duration(s->work->delay_us);
    Rmq__ChangeInvisibleDurationRequest r = RMQ__CHANGE_INVISIBLE_DURATION_REQUEST__INIT;
    r.group = &group;
    r.topic = &topic;
    r.receipt_handle = s->slot->handle;
    r.invisible_duration = &d;
    r.message_id = s->slot->m.id;
    x->renewed = false;
    x->sent_us = rmq_consumer_now(x->c);
    int64_t until = x->sent_us + x->c->mq->c.request_us;
    int rc = ERR_UNAVAIL;
    if (ch)
        rc = rmq_call_start(&x->call, &source->session, ch, RMQ_CHANGE_INVISIBLE, &r.base,
                            s->work->deadline_us < until ? s->work->deadline_us : until, false);
    if (rc == 0) {
        s->sent = true;
        return;
    }
    list_push_back(&x->c->idle_changes, &x->link);
    rmq_step_end(s, rc, false);
}

void rmq_change_add(struct rmq_step *s)
{
    struct rmq_consumer *c = s->work->c;
    list_push_back(&c->changes, &s->queued);
    if (!c->mq->ending)
        loop_flush_later(c->mq->loop, &c->flush);
}

void rmq_change_flush(struct rmq_consumer *c)
{
    while (!list_empty(&c->changes) && !list_empty(&c->idle_changes)) {
        const struct rmq_step *s = container_of(c->changes.next, struct rmq_step, queued);
        int64_t at = s->slot->received_us + SETTLE_US;
        if (at > rmq_consumer_now(c)) {
            sched_set(loop_sched(c->mq->loop), &c->change_timer, at);
            return;
        }
        struct rmq_change *x =
            container_of(list_pop_front(&c->idle_changes), struct rmq_change, link);
        x->step = container_of(list_pop_front(&c->changes), struct rmq_step, queued);
        start(x);
    }
}

static void on_settled(struct timer *t)
{
    rmq_change_flush(container_of(t, struct rmq_consumer, change_timer));
}

int rmq_change_init(struct rmq_consumer *c)
{
    c->change_timer.on_fire = on_settled;
    list_init(&c->changes);
    list_init(&c->idle_changes);
    c->change_pool = calloc(RMQ_CHANGES, sizeof *c->change_pool);
    if (!c->change_pool)
        return ERR_OVERLOAD;
    for (int i = 0; i < RMQ_CHANGES; i++) {
        struct rmq_change *x = &c->change_pool[i];
        x->c = c;
        x->call.buf = x->buf;
        x->call.buf_cap = sizeof x->buf;
        x->call.on_message = on_message;
        x->call.on_answer = on_answer;
        list_push_back(&c->idle_changes, &x->link);
    }
    return 0;
}

void rmq_change_deinit(struct rmq_consumer *c)
{
    sched_clear(loop_sched(c->mq->loop), &c->change_timer);
    free(c->change_pool);
}
