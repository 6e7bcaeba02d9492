#include "app/intake.h"

#include "app/burial.h"
#include "app/worker.h"
#include "base/crashpoint.h"
#include "core/retry.h"

enum { LOOK, WAIT, RECEIVE, TAKE, BACKOFF, STOPPED, STATES };

static struct worker *worker_of(struct flow *f)
{
    return container_of(f, struct worker, intake.flow);
}

/* What may be in hand: everything there is room for, but while transactions have to be small no
 * more than three for each connection. What waited for longer than its lease would be delivered
 * again and again, and in the end be taken for a suspect (rule 23). */
static int most_in_hand(const struct worker *w)
{
    int most = 3 * w->jobs->threads * batch_limit_now(&w->batch_limit);
    most = most > w->cfg.receive_max ? most : w->cfg.receive_max;
    return batch_limit_now(&w->batch_limit) < w->cfg.batch_max && most < w->hand.size
               ? most
               : w->hand.size;
}

/* How many to ask for; 0: with a full hand there is enough to do. Asking for each single slot that
 * becomes free would cost a call (and the broker a write) per message. */
static int room(const struct worker *w)
{
    const struct hand *h = &w->hand;
    int most = most_in_hand(w), free = most - h->used - h->reserved;
    int least = most / 4 < w->cfg.receive_max ? most / 4 : w->cfg.receive_max;
    if (free <= 0 || free < least)
        return 0;
    return free < w->intake.want ? free : w->intake.want;
}

static enum flow_result step_look(struct flow *f)
{
    struct worker *w = worker_of(f);
    struct intake *in = &w->intake;
    if (w->stopping) {
        flow_goto(f, STOPPED);
        return FLOW_NEXT;
    }
    in->asked = 0;
    if (health_usable(w) && suspects_none(w))
        in->asked = hand_reserve(w, room(w));
    flow_goto(f, in->asked > 0 ? RECEIVE : WAIT);
    if (in->asked == 0)
        return FLOW_WAIT;
    in->op.max = in->asked;
    in->op.n = 0;
    list_init(&in->op.messages);
    in->op.op.deadline_us = w->sched->now_us + w->cfg.poll_us;
    in->started_us = w->sched->now_us;
    in->receiving = true;
    w->queue->ops->receive(w->queue, &in->op);
    return FLOW_WAIT;
}

static enum flow_result step_again(struct flow *f)
{
    flow_goto(f, LOOK);
    return FLOW_NEXT;
}

static void on_received(struct op *op, int rc)
{
    struct worker *w = container_of(op, struct worker, intake.op.op);
    w->intake.rc = rc;
    w->intake.receiving = false;
    flow_resume(&w->intake.flow);
}

static enum flow_result step_received(struct flow *f)
{
    flow_goto(f, TAKE);
    return FLOW_NEXT;
}

static void take_one(struct worker *w, struct queue_message *m)
{
    struct work *k = hand_take(w, m);
    int d = m->deliveries;
    metric_add(w->metrics.delivery_attempt[d <= 1 ? 0 : d <= 3 ? 1 : d <= 7 ? 2 : 3], 1);
    const char *why = NULL;
    if (event_decode(m->body, &k->e, &why) < 0) {
        /* A newer schema still tells whose message it is; anything else does not (rule 24). */
        burial_unreadable(k, !uuid_is_nil(&k->e.message_id), why);
        return;
    }
    /* A stream carries one item's events; another's would be settled under the wrong keys. */
    if (m->item.activity_id && !item_eq(m->item, k->e.item)) {
        burial_unreadable(k, false, "of another item than its stream");
        return;
    }
    if (k->e.command == EVENT_CREATE)
        progress_received(k);
    if (m->dead)
        returned_add(k);
    else
        worker_route(k);
}

/* The bound holds whatever the queue does: what is too much goes back unread. */
static int take_all(struct worker *w)
{
    struct intake *in = &w->intake;
    int n = 0, surplus = 0;
    struct list *at;
    while ((at = list_pop_front(&in->op.messages))) {
        struct queue_message *m = container_of(at, struct queue_message, link);
        if (n < in->asked) {
            n++;
            take_one(w, m);
        } else {
            surplus++;
            w->queue->ops->release(w->queue, m);
        }
    }
    hand_unreserve(w, in->asked - n);
    if (surplus > 0)
        log_error("queue returned more than was asked for", LOG_I("asked", in->asked),
                  LOG_I("surplus", surplus));
    if (n == in->asked && surplus == 0)
        in->want = in->want * 2;
    else if (n < in->want / 2)
        in->want /= 2;
    int most = w->cfg.batch_max > w->cfg.receive_max ? w->cfg.batch_max : w->cfg.receive_max;
    in->want = in->want > most ? most : in->want;
    in->want = in->want < w->cfg.receive_max ? w->cfg.receive_max : in->want;
    if (n > 0)
        crashpoint("after_receive");
    return surplus;
}

static enum flow_result step_take(struct flow *f)
{
    struct worker *w = worker_of(f);
    struct intake *in = &w->intake;
    int surplus = take_all(w);
    share_pump(w);
    in->usable = in->rc >= 0;
    if (in->usable && surplus == 0) {
        in->failures = 0;
        in->last_full_round_us = in->started_us;
    }
    if (w->stopping || (in->usable && surplus == 0)) {
        flow_goto(f, LOOK);
        return FLOW_NEXT;
    }
    if (in->rc < 0) {
        static struct log_limit limit;
        uint64_t more;
        if (log_allowed(&limit, w->sched->now_us, &more))
            log_warn("receive failed", LOG_Z("error_kind", err_name(in->rc)),
                     LOG_I("suppressed", (int64_t)more));
    }
    /* Half of it is fixed: an error that comes at once must not make this a busy loop. */
    int64_t bound =
        retry_delay_us(&w->rng, w->cfg.backoff_min_us, w->cfg.backoff_max_us, in->failures);
    int64_t least = w->cfg.backoff_min_us / 2;
    in->failures++;
    flow_goto(f, BACKOFF);
    sched_set_in(w->sched, &in->timer, bound > least ? bound : least);
    return FLOW_WAIT;
}

static void on_backoff(struct timer *t)
{
    flow_resume(&container_of(t, struct worker, intake.timer)->intake.flow);
}

static enum flow_result step_stopped(struct flow *f)
{
    (void)f;
    return FLOW_DONE;
}

static void on_end(struct flow *f)
{
    worker_changed(worker_of(f));
}

static const struct flow_state states[STATES] = {
    [LOOK] = {"LOOK", FLOW_TO(RECEIVE) | FLOW_TO(WAIT) | FLOW_TO(STOPPED), step_look},
    [WAIT] = {"WAIT", FLOW_TO(LOOK), step_again},
    [RECEIVE] = {"RECEIVE", FLOW_TO(TAKE), step_received},
    [TAKE] = {"TAKE", FLOW_TO(LOOK) | FLOW_TO(BACKOFF), step_take},
    [BACKOFF] = {"BACKOFF", FLOW_TO(LOOK), step_again},
    [STOPPED] = {"STOPPED", 0, step_stopped},
};
static const struct flow_kind kind = {"intake", STATES, states, .on_end = on_end};

void intake_start(struct worker *w)
{
    w->intake = (struct intake){
        .op.op.on_done = on_received,
        .timer.on_fire = on_backoff,
        .want = w->cfg.receive_max,
        .last_full_round_us = -1,
    };
    flow_start(&w->intake.flow, &kind, LOOK);
}

void intake_poke(struct worker *w)
{
    struct flow *f = &w->intake.flow;
    if (f->kind && !f->running && f->state == WAIT)
        flow_resume(f);
}

void intake_stop(struct worker *w)
{
    struct intake *in = &w->intake;
    if (in->receiving)
        w->queue->ops->cancel(w->queue, &in->op.op);
    if (in->flow.kind && in->flow.state == BACKOFF) {
        sched_clear(w->sched, &in->timer);
        flow_resume(&in->flow);
    }
    intake_poke(w);
}

bool intake_stopped(const struct worker *w)
{
    return !w->intake.flow.kind || w->intake.flow.state == STOPPED;
}
