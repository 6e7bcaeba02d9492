/* What the buyer is told of what the store, and the queue, said. */
#include "app/reserve_flow.h"

enum answer reserve_answer_of_record(const struct reservation *found)
{
    if (found->status != RESERVATION_RELEASED)
        return ANSWER_ACCEPTED; /* QUEUED, PROCESSING, or the order's state: all in the body */
    switch (found->verdict.reason) {
    case REASON_PG_STOCK_EXHAUSTED:
        return ANSWER_SOLD_OUT;
    case REASON_ONE_USER_ONE_ORDER:
        return ANSWER_DUPLICATE_ORDER; /* settle put the existing order's ids into the record */
    case REASON_IDEMPOTENCY_KEY_REUSED:
        return ANSWER_IDEMPOTENCY_KEY_REUSED;
    case REASON_NONE:
    case REASON_ID_COLLISION:
    case REASON_VOID:
    case REASON_GIVEN_UP:
    case REASON_LOST_RESERVATION:
    case REASON_LOST_ORDER:
    case REASON_CANCELLED:
    case REASON_EXPIRED:
    case REASON_CLOSED:
    case REASONS:
        break;
    }
    return ANSWER_REQUEST_CLOSED; /* over, without an order: state and reason are in the body */
}

static void tell_record(struct reserve *r, enum answer a)
{
    const struct reservation *found = &r->hold.found;
    r->answer.answer = a;
    r->answer.verdict = found->verdict;
    r->answer.request_id = a == ANSWER_ACCEPTED ? r->hold.request_id : found->request_id;
    r->answer.reservation_id = found->reservation_id;
    r->answer.order_id = found->order_id;
    r->answer.epoch = found->epoch;
}

/* Rule 13: a second try meets what the first one did. That is no replay. */
bool reserve_is_own(const struct reserve *r)
{
    return uuid_eq(&r->hold.found.reservation_id, &r->hold.reservation_id);
}

static void tell_replay(struct reserve *r)
{
    bool own = reserve_is_own(r);
    tell_record(r, reserve_answer_of_record(&r->hold.found));
    if (reservation_outlived(&r->hold.found, r->hold.version)) /* query-api finds out */
        r->answer.verdict = (struct verdict){VERDICT_QUEUED, REASON_NONE};
    r->answer.replayed = !own;
    metric_add(own ? r->pool->count.created : r->pool->count.replayed, 1);
}

static enum answer answer_of_refusal(const struct reserve *r)
{
    switch (r->rc) {
    case STOCK_SOLD_OUT:
        return ANSWER_SOLD_OUT;
    case STOCK_NO_ITEM: /* rule 34: listed without meta, or no list at all: lost, not absent */
        return r->hold.listed ? ANSWER_DEPENDENCY_UNAVAILABLE : ANSWER_NOT_FOUND;
    case STOCK_TOO_LATE:
        return ANSWER_TIMEOUT;
    case STOCK_NOT_OPEN:
        return ANSWER_NOT_OPEN;
    case STOCK_ENDED:
        return ANSWER_ENDED;
    case STOCK_PAUSED:
        return ANSWER_PAUSED;
    case STOCK_BEHIND: /* rule 34a */
        return ANSWER_DEPENDENCY_UNAVAILABLE;
    default:
        return ANSWER_INTERNAL_ERROR;
    }
}

/* Whether the last answer, which took no unit, also holds for an earlier try of unknown outcome:
 * only if it was asked after that try's own deadline, past which the script takes nothing. */
static bool speaks_for_both(const struct reserve *r)
{
    return !r->unknown || (r->rc >= 0 && r->hold.sent_us >= r->first_give_up_us);
}

void reserve_decide(struct reserve *r)
{
    if (r->release == RESERVE_RELEASED) {
        r->answer.answer = answer_of_refused_publish(r->publish_rc);
    } else if (r->release == RESERVE_RELEASE_UNKNOWN) {
        r->answer.answer = ANSWER_TIMEOUT;
    } else if (r->rc == STOCK_CREATED) {
        tell_record(r, ANSWER_ACCEPTED);
        metric_add(r->pool->count.created, 1);
    } else if (r->rc == STOCK_REPLAY && r->pin_rc != 0) {
        r->answer.answer = ANSWER_TIMEOUT; /* the same key asked again will tell */
    } else if (r->rc == STOCK_REPLAY) {
        tell_replay(r);
    } else if (!speaks_for_both(r)) {
        /* Never a refusal, and never ACCEPTED: the same key asked again will tell. */
        r->answer.answer = r->rc == ERR_INTERNAL ? ANSWER_INTERNAL_ERROR : ANSWER_TIMEOUT;
        if (r->watched)
            metric_add(r->pool->count.unknown, 1);
    } else if (r->rc == STOCK_DUPLICATE && r->pin_rc < 0) {
        r->answer.answer = ANSWER_TIMEOUT;
    } else if (r->rc == STOCK_DUPLICATE) {
        tell_record(r, ANSWER_DUPLICATE_ORDER);
        metric_add(r->pool->count.duplicate, 1);
    } else if (r->rc < 0) {
        r->answer.answer = answer_of_err(r->rc);
    } else {
        r->answer.answer = answer_of_refusal(r);
        if (r->answer.answer == ANSWER_SOLD_OUT)
            metric_add(r->pool->count.sold_out, 1);
    }
}
