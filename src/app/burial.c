#include "app/burial.h"

#include "app/disposal.h"
#include "app/worker.h"
#include "base/crashpoint.h"
#include "base/panic.h"
#include <stdlib.h>

struct grave {
    struct list link;
    struct work *k;
    struct item item; /* whose stream it came from */
    bool decoded;
    const char *why;
    void (*on_end)(struct worker *w);
};

static struct worker *worker_of(struct burials *b)
{
    return container_of(b, struct worker, burials);
}

static void look_soon(struct worker *w)
{
    if (w->burials.timer.slot == 0)
        sched_set(w->sched, &w->burials.timer, w->sched->now_us);
}

/* --- one is over --- */

static struct work *leave(struct grave *g)
{
    struct work *k = g->k;
    if (g->on_end)
        g->on_end(k->w);
    free(g);
    return k;
}

static void drop(struct grave *g)
{
    struct work *k = leave(g);
    worker_outcome(k, OUTCOME_DROPPED);
    hand_put(k);
    worker_op_ended(k->w);
}

/* --- a transaction --- */

static void run(struct share_job *j, struct orders *o)
{
    struct burials *b = container_of(j, struct burials, job);
    crashpoint("before_quarantine");
    j->rc = o->ops->quarantine(o, &b->ctx, b->letters, b->n, b->settled);
    if (j->rc >= 0)
        crashpoint("quarantine_stored");
}

static void end_stored(struct worker *w)
{
    struct burials *b = &w->burials;
    struct work *works[ORDERS_LETTERS_MAX];
    for (int i = 0; i < b->n; i++) {
        works[i] = leave(b->graves[i]);
        /* What was settled before is no dead letter. */
        if (!b->settled[i])
            metric_add(w->metrics.dead_letters, 1);
        worker_outcome(works[i], b->settled[i] ? OUTCOME_DUPLICATE : OUTCOME_QUARANTINED);
    }
    disposal_ack(w, b->item, works, b->n);
}

static void end_not_stored(struct worker *w, int rc)
{
    struct burials *b = &w->burials;
    struct work *works[ORDERS_LETTERS_MAX], *dead[ORDERS_LETTERS_MAX];
    int deliveries = 1, n = 0, n_dead = 0;
    const char *id = b->graves[0]->k->m->id;
    for (int i = 0; i < b->n; i++) {
        struct work *k = leave(b->graves[i]);
        if (k->m->dead) {
            dead[n_dead++] = k;
            continue;
        }
        works[n++] = k;
        deliveries = k->m->deliveries > deliveries ? k->m->deliveries : deliveries;
        worker_outcome(k, OUTCOME_RETRY);
    }
    static struct log_limit limit;
    uint64_t more;
    if (log_allowed(&limit, w->sched->now_us, &more))
        log_error("dead letters not stored; not acknowledged", LOG_Z("consumer_group", EVENT_GROUP),
                  LOG_Z("broker_message_id", id), LOG_I("messages", b->n),
                  LOG_I("activity_id", b->item.activity_id), LOG_I("sku_id", b->item.sku_id),
                  LOG_Z("error_kind", err_name(rc)), LOG_Z("outcome", "retry"),
                  LOG_B("retryable", true), LOG_I("retry_attempt", deliveries),
                  LOG_I("suppressed", (int64_t)more));
    if (n > 0)
        disposal_retry_later(w, b->item, works, n, deliveries);
    if (n_dead > 0)
        disposal_leave(w, dead, n_dead);
}

/* Fewer together, at once. */
static void wait_again(struct burials *b)
{
    for (int i = b->n - 1; i >= 0; i--)
        list_push_front(&b->waiting, &b->graves[i]->link);
}

static void on_done(struct share_job *j)
{
    struct burials *b = container_of(j, struct burials, job);
    struct worker *w = worker_of(b);
    int64_t took = w->sched->now_us - j->started_us;
    bool late =
        j->rc == ERR_DEADLINE || (j->rc == ERR_UNCERTAIN && w->sched->now_us >= b->ctx.deadline_us);
    bool together = b->n > 1 && (late || j->rc == ERR_INVALID);
    if (j->rc >= 0 || late || together)
        batch_limit_took(&b->limit, b->n, took, j->rc < 0);
    b->busy = false;
    int ended = 0;
    if (together && worker_may_place(w)) {
        wait_again(b);
    } else {
        ended = b->n;
        if (j->rc < 0)
            end_not_stored(w, j->rc);
        else
            end_stored(w);
    }
    look_soon(w);
    for (; ended > 0; ended--)
        worker_op_ended(w);
}

static void fill(struct orders_dead_letter *d, const struct grave *g)
{
    const struct work *k = g->k;
    *d = (struct orders_dead_letter){.decoded = g->decoded,
                                     .item = g->decoded ? k->e.item : k->m->item,
                                     .broker_id = str_of(k->m->id),
                                     .body = k->m->body,
                                     .reason = str_of(g->why),
                                     .deliveries = k->m->deliveries};
    if (g->decoded) {
        d->command = k->e.command;
        d->message_id = k->e.message_id;
        d->request_id = k->e.request_id;
        d->reservation_id = k->e.reservation_id;
        d->user_id = k->e.user_id;
        d->order_id = k->e.order_id;
    }
}

/* Takes what waits of the first one's item, as many as may be together. */
static void on_time(struct timer *t)
{
    struct burials *b = container_of(t, struct burials, timer);
    struct worker *w = worker_of(b);
    int64_t deadline = w->sched->now_us + w->cfg.tx_budget_us;
    if (b->busy)
        return;
    b->n = 0;
    list_for_each_safe (it, &b->waiting) {
        struct grave *g = container_of(it, struct grave, link);
        if (b->n == batch_limit_now(&b->limit))
            break;
        if (b->n > 0 && !item_eq(g->item, b->item))
            continue;
        list_remove(&g->link);
        int64_t lease = hand_deadline_us(g->k);
        if (lease <= w->sched->now_us) {
            drop(g);
            continue;
        }
        deadline = lease < deadline ? lease : deadline;
        b->item = g->item;
        fill(&b->letters[b->n], g);
        b->graves[b->n++] = g;
    }
    if (b->n == 0)
        return;
    b->busy = true;
    b->job = (struct share_job){.class = SHARE_BACK, .run = run, .on_done = on_done};
    ctx_init(&b->ctx, &w->root, deadline);
    share_submit(w, &b->job);
}

/* --- for the flows --- */

void burial_init(struct worker *w)
{
    struct burials *b = &w->burials;
    *b = (struct burials){.timer.on_fire = on_time};
    list_init(&b->waiting);
    batch_limit_init(&b->limit, ORDERS_LETTERS_MAX, w->cfg.batch_target_us);
}

void burial_deinit(struct worker *w)
{
    if (w->burials.busy || !list_empty(&w->burials.waiting))
        panic("dead letters are still to be stored");
    sched_clear(w->sched, &w->burials.timer);
}

static void start(struct work *k, bool decoded, const char *why, void (*on_end)(struct worker *w))
{
    struct worker *w = k->w;
    struct grave *g = calloc(1, sizeof *g);
    if (!g)
        panic("no memory for a dead letter");
    *g = (struct grave){.k = k,
                        .item = k->m->item.activity_id ? k->m->item : k->e.item,
                        .decoded = decoded,
                        .why = why,
                        .on_end = on_end};
    list_push_back(&w->burials.waiting, &g->link);
    worker_op_begun(w);
    look_soon(w);
}

/* A bad deployment upstream makes thousands of them: a line a second says so, the metric counts
 * them, dead_letters has each. */
void burial_unreadable(struct work *k, bool decoded, const char *why)
{
    static struct log_limit limit;
    uint64_t more;
    if (log_allowed(&limit, k->w->sched->now_us, &more))
        log_error("message quarantined", LOG_Z("consumer_group", EVENT_GROUP),
                  LOG_Z("broker_message_id", k->m->id),
                  LOG_I("activity_id", k->m->item.activity_id), LOG_I("sku_id", k->m->item.sku_id),
                  LOG_I("user_id", k->e.user_id), LOG_Z("reason", why), LOG_B("decoded", decoded),
                  LOG_I("delivery_attempt", k->m->deliveries), LOG_Z("outcome", "quarantined"),
                  LOG_B("retryable", false), LOG_I("suppressed", (int64_t)more));
    start(k, decoded, why, NULL);
}

/* These are rare, each took several deliveries: each is named. */
void burial_start(struct work *k, const char *why, void (*on_end)(struct worker *w))
{
    log_error("message quarantined", LOG_EVENT(k), LOG_Z("reason", why), LOG_B("decoded", true),
              LOG_I("delivery_attempt", k->m->deliveries), LOG_Z("outcome", "quarantined"),
              LOG_B("retryable", false));
    start(k, true, why, on_end);
}
