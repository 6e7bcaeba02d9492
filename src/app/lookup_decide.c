/* What is told of what was seen: the table of lookup.h. Pure. */
#include "app/lookup.h"

static void tell_redis(const struct reservation *r, struct lookup_answer *out)
{
    out->answer = ANSWER_OK;
    out->source = LOOKUP_FROM_REDIS;
    out->verdict = r->verdict;
    out->reservation_id = r->reservation_id;
    out->order_id = r->order_id;
    out->created_at_ms = r->created_at_ms;
    out->cancel_refused = r->cancel_refused;
}

/* Where the inbox row went with the retention, the order still tells how it ended, but not why. */
static struct verdict verdict_of_order(const struct orders_order *o)
{
    struct str status = str_of(o->status);
    if (str_eq(status, STR("CANCELLED")))
        return (struct verdict){VERDICT_CANCELLED, REASON_CANCELLED};
    if (str_eq(status, STR("CLOSED")))
        return (struct verdict){VERDICT_CANCELLED, REASON_CLOSED};
    return (struct verdict){VERDICT_SUCCEEDED, REASON_NONE};
}

static struct verdict verdict_of_pg(const struct reads_result *pg)
{
    if (pg->row.found && verdict_terminal(pg->row.verdict.state))
        return pg->row.verdict;
    if (pg->order.order_id)
        return verdict_of_order(&pg->order);
    /* In quarantine: the worker has seen it. */
    return (struct verdict){VERDICT_PROCESSING, REASON_NONE};
}

/* PostgreSQL speaks of an earlier use of the key, which ended without an order, and whose record
 * Redis lost: the one that Redis has now may end otherwise. */
static bool of_another_use(const struct reservation *r, const struct reads_result *pg)
{
    return pg->row.found && !pg->order.order_id && !uuid_eq(&pg->row.message_id, &r->message_id);
}

/* The ids as settle will write them into the record: those of the order that exists instead, if
 * there is one. What PostgreSQL does not know stays as it is. */
static void tell_pg(const struct reads_result *pg, struct verdict v, struct lookup_answer *out)
{
    out->answer = ANSWER_OK;
    out->source = LOOKUP_FROM_PG;
    out->verdict = v;
    out->cancel_refused |=
        str_eq(str_of(pg->row.cancel), str_of(orders_command_name(ORDERS_REFUSED)));
    if (pg->row.found && pg->row.other_order_id) {
        out->order_id = pg->row.other_order_id;
        out->reservation_id = pg->row.other_reservation_id;
    } else if (pg->order.order_id) {
        out->order_id = pg->order.order_id;
        out->reservation_id = pg->order.reservation_id;
    }
    if (out->created_at_ms > 0)
        return;
    /* The API makes the message id when it accepts. */
    int64_t ms = pg->row.found ? uuid_v7_ms(&pg->row.message_id) : -1;
    out->created_at_ms = ms > 0 ? ms : pg->order.created_at_ms;
}

static void tell_failure(int rc, struct lookup_answer *out)
{
    /* A read changes nothing, so a late answer and a refused one are the same to the buyer. */
    out->answer = rc == ERR_INTERNAL ? ANSWER_INTERNAL_ERROR : ANSWER_DEPENDENCY_UNAVAILABLE;
}

/* The request was accepted, and no store that answered knows it. */
static void tell_accepted(const struct lookup_seen *seen, struct lookup_answer *out)
{
    const struct orders_inventory *i = &seen->inventory;
    if (seen->epoch_rc < 0) {
        tell_failure(seen->epoch_rc, out);
    } else if (seen->epoch_rc == 1) { /* nor an item that we sold */
        tell_failure(ERR_UNAVAIL, out);
    } else if (i->expires_ms > 0 && i->now_ms >= i->expires_ms) {
        out->answer = ANSWER_NOT_FOUND; /* all records of it may be gone by rights */
    } else {
        out->answer = ANSWER_OK;
        out->source = LOOKUP_FROM_TOKEN;
        if (seen->accepted_epoch < i->lost_epoch) {
            out->verdict = verdict_of_reason(REASON_LOST_RESERVATION);
            return;
        }
        out->verdict = (struct verdict){VERDICT_QUEUED, REASON_NONE};
        out->ask_again = true;
        out->suspect = seen->accepted_epoch >= i->epoch;
    }
}

enum lookup_state lookup_decide_request(const struct lookup_seen *seen, struct lookup_answer *out)
{
    bool in_redis = seen->redis_rc == 0;
    out->source = LOOKUP_FROM_NOTHING;
    if (in_redis)
        tell_redis(&seen->redis, out);
    if (seen->asked_pg && seen->pg_rc == 0) {
        struct verdict v = verdict_of_pg(&seen->pg);
        bool higher = !in_redis || verdict_rank(v.state) > verdict_rank(seen->redis.verdict.state);
        if (higher && !(in_redis && of_another_use(&seen->redis, &seen->pg)))
            tell_pg(&seen->pg, v, out);
        return LOOKUP_ANSWER;
    }
    if (in_redis && seen->left_behind && seen->pg_rc == 1 &&
        !verdict_terminal(seen->redis.verdict.state)) {
        if (!seen->asked_epoch)
            return LOOKUP_EPOCH;
        if (seen->epoch_rc == 0 && seen->redis.epoch < seen->inventory.lost_epoch)
            out->verdict = verdict_of_reason(REASON_LOST_RESERVATION);
    }
    if (in_redis)
        return LOOKUP_ANSWER;
    if (seen->pg_rc < 0)
        tell_failure(seen->pg_rc, out);
    else if (seen->redis_rc < 0)
        tell_failure(seen->redis_rc, out);
    else if (seen->accepted_epoch && !seen->asked_epoch)
        return LOOKUP_EPOCH;
    else if (seen->accepted_epoch)
        tell_accepted(seen, out);
    else if (!seen->asked_item)
        return LOOKUP_ITEM;
    else if (seen->item.rc < 0)
        tell_failure(seen->item.rc, out);
    else if (seen->item.rc == 1 && seen->item.listed)
        tell_failure(ERR_UNAVAIL, out); /* rule 34 */
    else
        out->answer = ANSWER_NOT_FOUND;
    return LOOKUP_ANSWER;
}

void lookup_decide_order(int pg_rc, const struct orders_order *order, int64_t user_id,
                         struct lookup_answer *out)
{
    out->source = LOOKUP_FROM_NOTHING;
    if (pg_rc < 0) {
        tell_failure(pg_rc, out);
    } else if (pg_rc == 0 && order->user_id == user_id) {
        out->answer = ANSWER_OK;
        out->source = LOOKUP_FROM_PG;
        out->order = *order;
    } else {
        out->answer = ANSWER_NOT_FOUND;
    }
}

void lookup_decide_item(const struct item_view *v, int64_t now_us, struct lookup_answer *out)
{
    out->source = LOOKUP_FROM_NOTHING;
    if (v->rc < 0) {
        tell_failure(v->rc, out);
    } else if (v->rc == 0) {
        out->answer = ANSWER_OK;
        out->source = LOOKUP_FROM_REDIS;
        out->info = v->info;
        out->now_ms = v->info.now_ms + (now_us - v->loaded_us) / 1000;
    } else {
        out->answer = v->listed ? ANSWER_DEPENDENCY_UNAVAILABLE : ANSWER_NOT_FOUND;
    }
}
