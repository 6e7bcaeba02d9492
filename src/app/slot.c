#include "app/slot.h"

#include "base/crashpoint.h"
#include "base/log.h"
#include <string.h>

#define PAUSE_US 100000

static struct slot *slot_of(struct flow *f)
{
    return container_of(f, struct slot, flow);
}

static void lose(struct slot *s, const char *why)
{
    if (s->number >= 0)
        log_warn("the instance number is lost: no order ids until another is held",
                 LOG_I("instance_id", s->number), LOG_Z("why", why));
    order_id_revoke(s->ids);
    s->number = -1;
    metric_set(s->held, 0);
}

/* The highest time that an id may carry before this lease ends. */
static int64_t highest_ms(struct slot *s)
{
    int64_t wall = s->wall_ms(s), given = order_id_highest_ms(s->ids);
    return (wall > given ? wall : given) + s->lease_us / 1000 + ORDER_ID_MAX_AHEAD_MS;
}

static void on_leased(struct op *op, int rc);

static enum flow_result ask(struct slot *s, int number)
{
    s->call.op = (struct op){.on_done = on_leased, .deadline_us = s->sched->now_us + s->call_us};
    s->call.slot = number;
    memcpy(s->call.nonce, s->nonce, sizeof(s->call.nonce));
    s->call.highest_ms = highest_ms(s);
    s->call.ttl_ms = s->lease_us / 1000;
    s->asked_us = s->sched->now_us;
    crashpoint("before_instance_lease");
    s->stock->ops->slot_lease(s->stock, &s->call);
    return FLOW_WAIT;
}

static void new_nonce(struct slot *s)
{
    static const char hex[] = "0123456789abcdef";
    unsigned char bytes[16];
    rng_secret(bytes, sizeof(bytes)); /* two processes with the same one would share a number */
    for (int i = 0; i < 16; i++) {
        s->nonce[2 * i] = hex[bytes[i] >> 4];
        s->nonce[2 * i + 1] = hex[bytes[i] & 15];
    }
    s->nonce[32] = 0;
}

static enum flow_result step_take(struct flow *f)
{
    struct slot *s = slot_of(f);
    new_nonce(s);
    return ask(s, (int)rng_below(s->rng, ORDER_ID_INSTANCES));
}

static enum flow_result step_renew(struct flow *f)
{
    struct slot *s = slot_of(f);
    return ask(s, s->number);
}

static void held(struct slot *s, int64_t floor_ms)
{
    s->number = s->call.slot;
    s->valid_until_us = s->asked_us + s->lease_us - s->lease_us / 10;
    order_id_grant(s->ids, s->number, floor_ms, s->valid_until_us);
    metric_set(s->held, 1);
}

static int after_take(struct slot *s, int rc)
{
    /* A number whose earlier owner may have used times that are still to come would give no ids
     * until then: another one does at once. */
    if (rc != 0 || s->call.floor_ms > s->wall_ms(s))
        return SLOT_PAUSE;
    held(s, s->call.floor_ms);
    log_info("instance number held", LOG_I("instance_id", s->number));
    return SLOT_KEEP;
}

static int after_renew(struct slot *s, int rc)
{
    if (rc == 0) {
        held(s, 0); /* ours all the time: nobody else's ids to stay clear of */
        return SLOT_KEEP;
    }
    if (rc > 0)
        lose(s, "another owner");
    return SLOT_PAUSE;
}

static void on_leased(struct op *op, int rc)
{
    struct slot *s = container_of(op, struct slot, call.op);
    crashpoint("after_instance_lease");
    int next = s->stopped                   ? SLOT_STOPPED
               : s->flow.state == SLOT_TAKE ? after_take(s, rc)
                                            : after_renew(s, rc);
    flow_goto(&s->flow, next);
    flow_resume(&s->flow);
}

static void on_timer(struct timer *t)
{
    struct slot *s = container_of(t, struct slot, timer);
    if (s->number >= 0 && s->sched->now_us >= s->valid_until_us)
        lose(s, "not renewed in time");
    flow_goto(&s->flow, s->number >= 0 ? SLOT_RENEW : SLOT_TAKE);
    flow_resume(&s->flow);
}

static enum flow_result step_pause(struct flow *f)
{
    struct slot *s = slot_of(f);
    /* Half of it for sure: many that lost theirs together do not come back together. */
    sched_set_in(s->sched, &s->timer, PAUSE_US / 2 + (int64_t)rng_below(s->rng, PAUSE_US / 2));
    return FLOW_WAIT;
}

static enum flow_result step_keep(struct flow *f)
{
    struct slot *s = slot_of(f);
    sched_set(s->sched, &s->timer, s->asked_us + s->lease_us / 3);
    return FLOW_WAIT;
}

static const struct flow_state states[SLOT_STATES] = {
    [SLOT_TAKE] = {"TAKE", FLOW_TO(SLOT_KEEP) | FLOW_TO(SLOT_PAUSE) | FLOW_TO(SLOT_STOPPED),
                   step_take},
    [SLOT_PAUSE] = {"PAUSE", FLOW_TO(SLOT_TAKE) | FLOW_TO(SLOT_RENEW) | FLOW_TO(SLOT_STOPPED),
                    step_pause},
    [SLOT_KEEP] = {"KEEP", FLOW_TO(SLOT_RENEW) | FLOW_TO(SLOT_TAKE) | FLOW_TO(SLOT_STOPPED),
                   step_keep},
    [SLOT_RENEW] = {"RENEW", FLOW_TO(SLOT_KEEP) | FLOW_TO(SLOT_PAUSE) | FLOW_TO(SLOT_STOPPED),
                    step_renew},
    [SLOT_STOPPED] = {"STOPPED", 0, NULL},
};
struct flow_kind slot_kind = {.name = "slot", .states = SLOT_STATES, .state = states};

void slot_start(struct slot *s)
{
    s->timer = (struct timer){.on_fire = on_timer};
    s->number = -1;
    s->stopped = false;
    s->held = metric_gauge("seckill_instance_slot_held",
                           "1 while this process holds an instance number for order ids", NULL);
    metric_set(s->held, 0);
    flow_start(&s->flow, &slot_kind, SLOT_TAKE);
}

void slot_stop(struct slot *s)
{
    s->stopped = true;
    order_id_revoke(s->ids);
    s->number = -1;
    sched_clear(s->sched, &s->timer);
    if (s->flow.state == SLOT_TAKE || s->flow.state == SLOT_RENEW) {
        s->stock->ops->cancel(s->stock, &s->call.op);
    } else if (s->flow.state != SLOT_STOPPED) {
        flow_goto(&s->flow, SLOT_STOPPED);
        flow_resume(&s->flow);
    }
}

bool slot_stopped(const struct slot *s)
{
    return s->flow.state == SLOT_STOPPED;
}

void slot_fixed(struct order_id_source *ids, int instance, int64_t wall_ms)
{
    /* An earlier life's ids may have run ahead of the clock, at most this far; a start takes longer
     * than a millisecond. */
    order_id_grant(ids, instance, wall_ms + ORDER_ID_MAX_AHEAD_MS - 1, INT64_MAX);
}
