/* What buyers do and hear. A buyer knows what a client knows: its keys and the answers. */
#include "simulation.h"

#include <string.h>

/* --- hearing --- */

static const char *name_of(struct verdict v, char text[64])
{
    struct str reason = verdict_reason_name(v.reason);
    snprintf(text, 64, STR_FMT "%s" STR_FMT, STR_ARG(verdict_state_name(v.state)),
             reason.len ? "/" : "", STR_ARG(reason));
    return text;
}

/* Ranks never fall and there is one end (I7). A Redis that went back says what was true before
 * until that is noticed, which takes a second, and longer where nobody is left who saw more; in the
 * end all is right again (inquest.c). A lost order is the exception of rule 3. */
static bool may_follow(const struct sim *x, const struct sim_known *was, struct verdict now)
{
    int before = verdict_rank(was->told.state), after = verdict_rank(now.state);
    if (after > before || x->redis_lost)
        return true;
    /* Committed and not settled yet: known to PostgreSQL alone, which may fail to say it again. */
    if (after < before)
        return was->from_pg && !verdict_terminal(now.state);
    return !verdict_terminal(now.state) || was->told.state == now.state ||
           (x->pg_lost && was->told.state == VERDICT_SUCCEEDED && now.reason == REASON_LOST_ORDER);
}

/* since: what was known when the question was put, since questions overtake one another. */
static void hear(struct sim_ask *a, const struct sim_known *since, struct verdict v, bool from_pg)
{
    char was[64], now[64];
    if (since->heard && !may_follow(a->x, since, v))
        sim_wrong(a->x, "user %lld sku %lld is told %s after %s", (long long)a->user,
                  (long long)a->item.sku_id, name_of(v, now), name_of(since->told, was));
    if (!a->known.heard || a->known.told.state != v.state)
        sim_say(a->x, "user %lld sku %lld key %d is told %s", (long long)a->user,
                (long long)a->item.sku_id, a->key.b[14], name_of(v, now));
    if (!a->known.heard || may_follow(a->x, &a->known, v))
        a->known = (struct sim_known){a->known.accepted, true, from_pg, v};
}

static void accept(struct sim_ask *a, const struct reserve_answer *r)
{
    if (!uuid_eq(&r->request_id, &a->key))
        sim_wrong(a->x, "user %lld is accepted under another's key", (long long)a->user);
    /* A reservation that Redis has lost is none: the key is as new. */
    if (a->known.accepted && a->order_id && r->order_id && a->order_id != r->order_id &&
        !a->x->redis_lost)
        sim_wrong(a->x, "user %lld has two orders under one key", (long long)a->user);
    a->known.accepted = true;
    a->epoch = r->epoch;
    a->order_id = r->order_id ? r->order_id : a->order_id;
    hear(a, &a->at_post, r->verdict, false);
}

void sim_on_reserved(struct reserve_pool *p, void *viewer, const struct reserve_answer *r)
{
    struct sim_api *api = container_of(p, struct sim_api, pool);
    struct sim_ask *a = viewer;
    a->posting = false;
    if (!api->alive) {
        a->maybe = true;
        return;
    }
    if (r->answer == ANSWER_ACCEPTED)
        accept(a, r);
    if (r->answer == ANSWER_REQUEST_CLOSED)
        hear(a, &a->at_post, r->verdict, false);
    /* Refusals by name have carried out nothing. */
    if (r->answer == ANSWER_ACCEPTED || r->answer == ANSWER_TIMEOUT ||
        r->answer == ANSWER_REQUEST_CLOSED)
        a->maybe = true;
}

void sim_on_cancel(struct send_pool *p, void *viewer, const struct send_answer *s)
{
    struct sim_ask *a = viewer;
    bool alive = container_of(p, struct sim_api, cancels)->alive;
    a->commanding = false;
    a->cancel_accepted |= alive && s->answer == ANSWER_ACCEPTED;
    /* What Redis has lost there is nothing to cancel of, and the API knows no other place. */
    if (alive && s->answer == ANSWER_NOT_FOUND && a->at_command.accepted && !a->x->redis_lost)
        sim_wrong(a->x, "user %lld cancels what was accepted and hears that it is not there",
                  (long long)a->user);
}

void sim_on_payment(struct send_pool *p, void *viewer, const struct send_answer *s)
{
    struct sim_ask *a = viewer;
    a->commanding = false;
    a->pay_accepted |=
        container_of(p, struct sim_api, payments)->alive && s->answer == ANSWER_ACCEPTED;
}

void sim_on_lookup(struct lookup_pool *p, void *viewer, const struct lookup_answer *l)
{
    struct sim_ask *a = viewer;
    (void)p;
    a->polling = false;
    if (l->answer == ANSWER_NOT_FOUND && a->at_poll.accepted)
        sim_wrong(a->x, "user %lld sku %lld polls what was accepted and hears that it is not there",
                  (long long)a->user, (long long)a->item.sku_id);
    if (l->answer != ANSWER_OK)
        return;
    hear(a, &a->at_poll, l->verdict, l->source == LOOKUP_FROM_PG);
    a->end = l->verdict;
    a->ended = verdict_terminal(l->verdict.state);
}

/* --- doing --- */

struct sim_ask *sim_new_ask(struct sim *x, struct item item, int64_t user)
{
    if (x->n_asks == SIM_ASKS)
        return NULL;
    struct sim_ask *a = &x->asks[x->n_asks++];
    *a = (struct sim_ask){.x = x, .item = item, .user = user};
    a->key.b[0] = (uint8_t)(x->n_asks >> 8);
    a->key.b[1] = (uint8_t)x->n_asks;
    a->key.b[14] = (uint8_t)x->n_asks;
    a->key.b[15] = 1;
    snprintf(a->payment_id, sizeof a->payment_id, "pay-%d", x->n_asks);
    return a;
}

static struct sim_api *some_api(struct sim *x)
{
    struct sim_api *api = &x->apis[rng_below(&x->rng, SIM_APIS)];
    return api->alive ? api : NULL;
}

void sim_post(struct sim *x, struct sim_ask *a)
{
    struct sim_api *api = some_api(x);
    if (!api || a->posting || catalogue_missing(&api->catalogue))
        return;
    struct reserve_request q = {.item = a->item,
                                .user_id = a->user,
                                .request_id = a->key,
                                .received_us = x->sched.now_us,
                                .wall_us = mem_clock_wall_us(&x->sched)};
    a->posted = true;
    a->at_post = a->known;
    a->posting = reserve_submit(&api->pool, &q, a, NULL) == RESERVE_STARTED;
}

void sim_poll(struct sim *x, struct sim_ask *a)
{
    struct lookup *l;
    if (a->polling)
        return;
    a->at_poll = a->known;
    a->polling =
        lookup_request(&x->query.pool, a->item, a->user, &a->key, a->known.accepted ? a->epoch : 0,
                       x->sched.now_us, a, &l) == LOOKUP_STARTED;
}

static void command(struct sim *x, struct sim_ask *a, enum event_command kind)
{
    struct sim_api *api = some_api(x);
    struct send_request q = {.command = kind,
                             .item = a->item,
                             .user_id = a->user,
                             .request_id = a->key,
                             .received_us = x->sched.now_us,
                             .wall_us = mem_clock_wall_us(&x->sched)};
    struct send_command *out;
    if (!api || a->commanding || catalogue_missing(&api->catalogue))
        return;
    if (kind == EVENT_PAY) {
        q.payment_id = str_of(a->payment_id);
        q.order_id = a->order_id;
        a->pay_maybe = true;
    } else {
        a->cancel_maybe = true;
    }
    sim_say(x, "user %lld sku %lld %s", (long long)a->user, (long long)a->item.sku_id,
            kind == EVENT_PAY ? "pays" : "cancels");
    a->at_command = a->known;
    a->commanding =
        send_command_submit(kind == EVENT_PAY ? &api->payments : &api->cancels, &q, a, &out) == 0;
}

void sim_cancel(struct sim *x, struct sim_ask *a)
{
    command(x, a, EVENT_CANCEL);
}

void sim_pay(struct sim *x, struct sim_ask *a)
{
    command(x, a, EVENT_PAY);
}

/* One of the buyers does something: asks with a new key or with one of before, looks, cancels,
 * pays. */
void sim_buyers_step(struct sim *x)
{
    struct sim_ask *a = x->n_asks ? &x->asks[rng_below(&x->rng, (uint64_t)x->n_asks)] : NULL;
    int what = (int)rng_below(&x->rng, 100);
    if (!a || what < 40) {
        int64_t user = 1 + (int64_t)rng_below(&x->rng, SIM_BUYERS);
        struct item item = x->items[rng_below(&x->rng, SIM_ITEMS)];
        if (x->n_asks < SIM_ASKS - SIM_EXTRA)
            sim_post(x, sim_new_ask(x, item, user));
    } else if (what < 60) {
        sim_post(x, a);
    } else if (what < 85 && a->posted) {
        sim_poll(x, a);
    } else if (what < 94 && a->known.accepted) {
        sim_cancel(x, a);
    } else if (a->known.accepted && a->order_id) {
        sim_pay(x, a);
    }
}
