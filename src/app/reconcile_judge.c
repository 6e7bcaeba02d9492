#include "app/reconcile_judge.h"

#include "app/worker.h"

static void note(struct worker *w, enum finding_kind kind, const struct reservation *r,
                 const struct orders_inbox *inbox)
{
    struct finding *f = findings_note(w, w->reconcile.item, kind, r, 1);
    if (f && inbox)
        f->inbox = *inbox;
}

static bool unsettled(const struct reservation *r)
{
    return r->status != RESERVATION_ORDERED && r->status != RESERVATION_RELEASED;
}

void judge_item(struct worker *w, const struct stock_item_info *info,
                const struct orders_books *books)
{
    struct item item = w->reconcile.item;
    /* Whoever holds a unit has an entry, whoever gives one back takes it away in the same step: in
     * one moment of Redis nothing is in flight. */
    int64_t surplus = info->free + info->buyers - info->total;
    if (surplus > 0)
        findings_note(w, item, FINDING_FREE_HIGH, NULL, surplus);
    if (surplus < 0)
        findings_note(w, item, FINDING_FREE_LOW, NULL, -surplus);
    if (info->total != books->total)
        findings_note(w, item, FINDING_TOTAL, NULL,
                      info->total > books->total ? info->total - books->total
                                                 : books->total - info->total);
}

/* A record that is ORDERED. */
static bool judge_ordered(struct worker *w, const struct reservation *r,
                          const struct orders_look *look)
{
    struct reconcile_counts *n = &w->reconcile.counts;
    const struct orders_inbox *in = &look->inbox;
    const char *s = look->order_status;
    if (strcmp(s, "CREATED") == 0 || strcmp(s, "PAYING") == 0 || strcmp(s, "PAID") == 0) {
        n->active++;
        if (look->ledger != -1)
            note(w, FINDING_LEDGER, r, in);
    } else if (look->unsettled) {
        n->returning++;
        n->unanswered += s[0] == '\0';
    } else if (!in->found) {
        note(w, FINDING_LOST, r, NULL);
        return true;
    } else if (in->verdict.state == VERDICT_SUCCEEDED) {
        note(w, FINDING_LOST, r,
             in); /* the message is known, its order is gone: nothing to place */
    } else if (verdict_terminal(in->verdict.state)) {
        n->unanswered++;
        note(w, FINDING_SETTLE, r, in);
    } else {
        n->in_flight++; /* a dead letter: held until it is given up (rule 25) */
        n->unanswered++;
    }
    return false;
}

bool judge_buyer(struct worker *w, const struct stock_held_row *held,
                 const struct orders_look *look)
{
    const struct reservation *r = &held->record;
    /* Gone or another's since the entry was read: the next round's. */
    if (!held->has_entry || (!uuid_is_nil(&held->entry.request_id) &&
                             !uuid_eq(&held->entry.request_id, &held->request_id)))
        return false;
    if (held->result != STOCK_ROW_GOOD ||
        !uuid_eq(&r->reservation_id, &held->entry.reservation_id)) {
        struct reservation entry = {.user_id = held->user_id,
                                    .request_id = held->request_id,
                                    .reservation_id = held->entry.reservation_id,
                                    .order_id = held->entry.order_id};
        note(w, FINDING_RECORD, &entry, NULL);
        return false;
    }
    if (r->status == RESERVATION_RELEASED) {
        note(w, FINDING_BUYER, r, NULL);
        return false;
    }
    if (r->status == RESERVATION_ORDERED)
        return judge_ordered(w, r, look);
    w->reconcile.counts.in_flight++;
    if (!held->pending)
        note(w, FINDING_BUYER, r, NULL);
    return false;
}

void judge_order(struct worker *w, const struct orders_active *order,
                 const struct stock_held_row *held)
{
    const struct reservation *r = &held->record;
    if (held->result != STOCK_ROW_GOOD || !uuid_eq(&r->reservation_id, &order->reservation_id)) {
        struct reservation of_order = {.user_id = order->user_id,
                                       .request_id = order->request_id,
                                       .reservation_id = order->reservation_id,
                                       .message_id = order->message_id,
                                       .order_id = order->order_id};
        note(w, FINDING_RECORD, &of_order, NULL);
    } else if (r->status == RESERVATION_RELEASED) {
        note(w, FINDING_RELEASED, r, NULL);
    } else if (!held->has_entry || !uuid_eq(&held->entry.reservation_id, &order->reservation_id)) {
        note(w, FINDING_BUYER, r, NULL);
    }
}

void judge_waiting(struct worker *w, const struct stock_held_row *held)
{
    if (held->result == STOCK_ROW_GOOD && held->pending && unsettled(&held->record) &&
        !held->has_entry)
        note(w, FINDING_BUYER, &held->record, NULL);
}
