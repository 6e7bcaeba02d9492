#include "app/finish.h"

#include "app/disposal.h"
#include "app/settling.h"
#include "app/worker.h"
#include "base/crashpoint.h"
#include "base/panic.h"
#include <stdlib.h>

enum { AGAIN_MAX = 3 };

struct finish {
    struct settling settling;
    struct worker *w;
    struct item item;
    struct result
        *results; /* of settling's rows, to be told; id 0: none. NULL: there is no topic */
    int n;        /* works to ack */
    bool ack_after;
    struct work *works[];
};

/* Also when the answer that said so was lost and the inbox answers now. */
static enum orders_outcome outcome_of(struct worker *w, const struct orders_row *r)
{
    bool unsure = unsure_take(&w->unsure, &r->message_id);
    bool own = r->verdict.state == VERDICT_SUCCEEDED && !r->give_back && !r->other_order_id;
    return unsure && own && r->outcome == ORDERS_KNOWN ? ORDERS_CREATED : r->outcome;
}

static void note_outcome(struct worker *w, struct work *k, const struct orders_row *r)
{
    switch (outcome_of(w, r)) {
    case ORDERS_CREATED:
        metric_add(w->metrics.order_created, 1);
        unsure_counted(&w->unsure, &r->message_id);
        metric_observe_us(w->metrics.order_delay, w->wall_us(w) - k->e.created_at_us);
        worker_outcome(k, OUTCOME_CREATED);
        break;
    case ORDERS_REJECTED:
        if (w->metrics.order_rejected[r->verdict.reason])
            metric_add(w->metrics.order_rejected[r->verdict.reason], 1);
        worker_outcome(k, OUTCOME_REJECTED);
        break;
    default:
        worker_outcome(k, OUTCOME_DUPLICATE);
    }
    enum log_level level = r->outcome == ORDERS_REJECTED ? LOG_INFO : LOG_DEBUG;
    log_at(level, "order event processed", LOG_EVENT(k),
           LOG_I("delivery_attempt", k->m->deliveries),
           LOG_S("outcome", verdict_state_name(r->verdict.state)),
           LOG_S("reason", verdict_reason_name(r->verdict.reason)),
           LOG_I("duration_ms", (w->sched->now_us - k->received_us) / 1000));
}

static void finish_free(struct finish *f)
{
    settling_deinit(&f->settling);
    free(f->results);
    free(f);
}

static void on_settled(struct settling *s)
{
    struct finish *f = container_of(s, struct finish, settling);
    struct worker *w = f->w;
    crashpoint("after_settle");
    for (int i = 0; i < s->n; i++) {
        if (!s->ids[i] || !settling_took(s, i))
            continue;
        if (f->results && f->results[i].id)
            tell_add(w, &f->results[i]);
        else
            marks_add(w, s->ids[i], false);
    }
    if (f->ack_after)
        disposal_ack(w, s->op.item, f->works, f->n);
    for (int i = 0; i < f->n; i++)
        hand_unpin(f->works[i]);
    finish_free(f);
}

void finish_again(struct worker *w, struct work *k)
{
    if (++k->again <= AGAIN_MAX) {
        worker_route(k);
        return;
    }
    worker_outcome(k, OUTCOME_RETRY);
    disposal_retry_later(w, k->e.item, &k, 1, k->m->deliveries);
}

struct finish *finish_new(struct worker *w, struct item item, int max)
{
    struct finish *f = calloc(1, sizeof *f + (size_t)max * sizeof f->works[0]);
    if (!f)
        panic("no memory to end %d messages", max);
    f->w = w;
    f->item = item;
    settling_init(&f->settling, w, item, max, on_settled);
    if (w->results && !(f->results = malloc((size_t)max * sizeof f->results[0])))
        panic("no memory to tell %d results", max);
    return f;
}

void finish_add(struct finish *f, struct work *k, const struct stock_settle_row *row,
                int64_t outbox_id, const struct result *result)
{
    f->works[f->n++] = k;
    if (!row)
        return;
    if (f->results)
        f->results[f->settling.n] = result ? *result : (struct result){0};
    settling_add(&f->settling, row, outbox_id);
}

/* As the outbox row says, for a reader: sql/, seckill_place. */
static struct result result_of(struct item item, const struct orders_row *r)
{
    struct str event = r->outcome == ORDERS_CREATED ? STR("ORDER_CREATED")
                       : r->outcome == ORDERS_KNOWN ? STR("RESERVATION_SETTLED")
                                                    : STR("RESERVATION_REJECTED");
    struct result result = {.id = r->outbox_id,
                            .message_id = r->message_id,
                            .request_id = r->request_id,
                            .reservation_id = r->reservation_id,
                            .item = item,
                            .user_id = r->user_id,
                            .order_id = result_order(r->verdict, r->order_id, r->other_order_id),
                            .verdict = r->verdict,
                            .decided_at_ms = r->decided_at_ms};
    str_copy(result.event, sizeof result.event, event);
    return result;
}

void finish_go(struct finish *f)
{
    struct worker *w = f->w;
    /* Side by side, but a test may force the order. The slots stay taken until both have ended. */
    f->ack_after = crashpoint_armed("after_settle") && f->settling.n > 0;
    bool settles = f->settling.n > 0;
    for (int i = 0; settles && i < f->n; i++)
        hand_pin(f->works[i]);
    if (settles)
        settling_send(&f->settling);
    if (f->n > 0 && !f->ack_after)
        disposal_ack(w, f->item, f->works, f->n);
    if (!settles)
        finish_free(f);
}

void finish_start(struct worker *w, struct item item, struct work **works,
                  const struct orders_row *rows, int n)
{
    crashpoint("after_commit");
    struct finish *f = finish_new(w, item, n);
    for (int i = 0; i < n; i++) {
        const struct orders_row *r = &rows[i];
        struct work *k = works[i];
        if (r->outcome == ORDERS_AGAIN) {
            finish_again(w, k);
            continue;
        }
        note_outcome(w, k, r);
        struct stock_settle_row row = {.user_id = r->user_id,
                                       .request_id = r->request_id,
                                       .reservation_id = r->reservation_id,
                                       .verdict = r->verdict,
                                       .give_back = r->give_back,
                                       .other_order_id = r->other_order_id,
                                       .other_reservation_id = r->other_reservation_id,
                                       .other_request_id = r->other_request_id};
        if (r->outcome == ORDERS_QUARANTINED) {
            finish_add(f, k, NULL, 0, NULL);
            continue;
        }
        struct result result = result_of(item, r);
        finish_add(f, k, &row, r->outbox_id, &result);
    }
    finish_go(f);
}
