/* The scripts of lua/ in plain C: rules A. Each function is atomic, as a script is. */
#include "adapter/mem/mem_queue.h"
#include "adapter/mem/mem_store.h"
#include "base/err.h"

static int refusal(const struct mem_store *st, const struct mem_item *it)
{
    int64_t now = mem_store_now_ms(st);
    if (now < it->starts_ms)
        return STOCK_NOT_OPEN;
    if (now >= it->ends_ms || it->state == STOCK_STATE_CLOSED)
        return STOCK_ENDED;
    if (it->state == STOCK_STATE_PAUSED)
        return STOCK_PAUSED;
    return it->free > 0 ? STOCK_CREATED : STOCK_SOLD_OUT;
}

static void append_event(struct mem_store *st, struct mem_record *rec, struct mem_item *it,
                         struct str open_event)
{
    struct strbuf b;
    strbuf_init(&b, EVENT_MAX_BYTES + 64);
    strbuf_add_str(&b, open_event);
    strbuf_printf(&b, ",\"epoch\":%lld,\"seq\":%lld}", (long long)it->version.epoch,
                  (long long)it->version.seq);
    mem_broker_append(st->stream, it->item, strbuf_str(&b), rec->r.queue_id);
    strbuf_deinit(&b);
}

/* Rule 34a. */
static bool is_behind(const struct mem_item *it, const struct stock_reserve *r)
{
    if (r->past.seen.epoch == 0)
        return false;
    if (item_version_cmp(it->version, r->past.seen) < 0)
        return true;
    return r->asked_witness && it->version.epoch == r->past.seen.epoch &&
           !mem_store_record(it, r->past.witness_user, &r->past.witness_request);
}

int mem_rules_reserve(struct mem_store *st, struct stock_reserve *r, struct str open_event)
{
    struct mem_item *it = mem_store_item(st, r->item);
    r->version = it ? it->version : (struct item_version){0};
    r->listed = mem_store_listed(st, r->item);
    if (r->give_up_us && st->sched->now_us > r->give_up_us)
        return STOCK_TOO_LATE;
    if (!it || !it->meta)
        return STOCK_NO_ITEM;
    if (is_behind(it, r))
        return STOCK_BEHIND;
    struct mem_record *known = mem_store_record(it, r->user_id, &r->request_id);
    if (known) {
        r->found = known->r;
        return STOCK_REPLAY;
    }
    const struct reservation *held = mem_store_buyer(it, r->user_id);
    if (held) {
        r->found = *held;
        return STOCK_DUPLICATE;
    }
    int rc = refusal(st, it);
    if (rc != STOCK_CREATED)
        return rc;
    it->free--;
    it->version.seq++;
    r->version = it->version;
    struct reservation made = {.user_id = r->user_id,
                               .order_id = r->order_id,
                               .request_id = r->request_id,
                               .reservation_id = r->reservation_id,
                               .message_id = r->message_id,
                               .status = st->stream ? RESERVATION_MQ_SENT : RESERVATION_RESERVED,
                               .epoch = it->version.epoch,
                               .seq = it->version.seq,
                               .created_at_ms = mem_store_now_ms(st),
                               .verdict = {VERDICT_QUEUED, REASON_NONE}};
    mem_store_set_buyer(it, r->user_id, &r->reservation_id, r->order_id, &r->request_id);
    struct mem_record *rec = mem_store_add_record(it, &made);
    if (st->stream)
        append_event(st, rec, it, open_event);
    r->found = rec->r;
    return STOCK_CREATED;
}

/* Rule 3: a higher rank wins, at equal rank the first, but for an order that PostgreSQL lost. */
static bool overrules(struct verdict now, struct verdict old)
{
    int a = verdict_rank(now.state), b = verdict_rank(old.state);
    if (a != b)
        return a > b;
    return old.state == VERDICT_SUCCEEDED && now.state == VERDICT_FAILED &&
           now.reason == REASON_LOST_ORDER;
}

static bool names(const struct mem_item *it, const struct stock_settle_row *row)
{
    const struct reservation *held = mem_store_buyer(it, row->user_id);
    return held && uuid_eq(&held->reservation_id, &row->reservation_id);
}

/* Rule 5: only an entry that is this reservation's own is touched. True when buyers changed. An
 * entry is a unit: an order that the store knows nothing of took none, and gets this one's with the
 * entry (*gives). */
static bool settle_buyers(struct mem_item *it, const struct stock_settle_row *row, bool ordered,
                          bool *gives)
{
    if (!names(it, row) || (ordered && !row->other_order_id))
        return false;
    bool keep =
        row->other_order_id && (ordered || row->verdict.reason == REASON_ONE_USER_ONE_ORDER);
    const struct mem_record *rec =
        keep ? mem_store_record(it, row->user_id, &row->other_request_id) : NULL;
    bool known = rec && uuid_eq(&rec->r.reservation_id, &row->other_reservation_id);
    if (keep && !(known && rec->r.status == RESERVATION_RELEASED)) {
        *gives &= known && rec->r.epoch == it->version.epoch;
        mem_store_set_buyer(it, row->user_id, &row->other_reservation_id, row->other_order_id,
                            &row->other_request_id);
    } else {
        mem_store_remove_buyer(it, row->user_id);
    }
    return true;
}

/* Rule 2: it leaves pending where there is no such reservation. An entry that it may have got all
 * the same ends with it. */
static enum stock_settled settle_without(struct mem_item *it, const struct stock_settle_row *row,
                                         bool *changed)
{
    list_for_each (l, &it->records) {
        struct mem_record *rec = container_of(l, struct mem_record, link);
        if (rec->r.user_id != row->user_id || !uuid_eq(&rec->r.request_id, &row->request_id))
            continue;
        if (rec->result == STOCK_ROW_UNREADABLE)
            return STOCK_UNREADABLE;
        rec->pending = false;
    }
    if (row->verdict.state == VERDICT_SUCCEEDED || !it->meta || !names(it, row) ||
        !uuid_eq(&mem_store_buyer(it, row->user_id)->request_id, &row->request_id))
        return STOCK_IGNORED;
    bool gives = row->give_back;
    *changed |= settle_buyers(it, row, false, &gives);
    it->free += gives;
    return STOCK_SETTLED;
}

static enum stock_settled settle_row(struct mem_item *it, const struct stock_settle_row *row,
                                     bool *changed)
{
    struct mem_record *rec = mem_store_record(it, row->user_id, &row->request_id);
    if (it->rebuild)
        return STOCK_LATER; /* rule 2: what is not there may be about to come back */
    if (!verdict_terminal(row->verdict.state))
        return STOCK_IGNORED;
    if (!rec)
        return settle_without(it, row, changed);
    if (!uuid_eq(&rec->r.reservation_id, &row->reservation_id))
        return STOCK_IGNORED;
    if (!it->meta)
        return STOCK_LATER;
    if (!overrules(row->verdict, rec->r.verdict)) {
        rec->pending &=
            rec->r.status != RESERVATION_ORDERED && rec->r.status != RESERVATION_RELEASED;
        return STOCK_IGNORED;
    }
    /* Rule 36: a rebuild did not find that it holds a unit. */
    if (rec->r.epoch != it->version.epoch)
        rec->r.status = RESERVATION_RELEASED;
    bool was_held = rec->r.status != RESERVATION_RELEASED;
    bool ordered = was_held && row->verdict.state == VERDICT_SUCCEEDED;
    bool gives = was_held && row->give_back;
    *changed |= settle_buyers(it, row, ordered, &gives);
    if (gives) {
        it->free++;
        *changed = true;
    }
    rec->pending = false;
    rec->r.verdict = row->verdict;
    rec->r.status = ordered ? RESERVATION_ORDERED : RESERVATION_RELEASED;
    if (row->other_order_id) {
        rec->r.order_id = row->other_order_id;
        rec->r.reservation_id = row->other_reservation_id;
    }
    return STOCK_SETTLED;
}

int mem_rules_settle(struct mem_store *st, struct stock_settle *s)
{
    struct mem_item *it = mem_store_item(st, s->item);
    bool changed = false;
    for (int i = 0; i < s->n; i++) {
        s->rows[i].result = it ? settle_row(it, &s->rows[i], &changed) : STOCK_IGNORED;
    }
    if (changed) {
        it->version.seq++;
        mem_store_publish(st, it);
    }
    s->version = it ? it->version : (struct item_version){0};
    return 0;
}

int mem_rules_progress(struct mem_store *st, const struct stock_settle *s)
{
    struct mem_item *it = mem_store_item(st, s->item);
    for (int i = 0; it && i < s->n; i++) {
        struct mem_record *rec = mem_store_record(it, s->rows[i].user_id, &s->rows[i].request_id);
        if (rec && uuid_eq(&rec->r.reservation_id, &s->rows[i].reservation_id) &&
            rec->r.verdict.state == VERDICT_QUEUED)
            rec->r.verdict.state = VERDICT_PROCESSING;
    }
    return 0;
}

static struct mem_record *own_record(const struct mem_store *st, struct item item, int64_t user_id,
                                     const struct uuid *request_id,
                                     const struct uuid *reservation_id)
{
    struct mem_item *it = mem_store_item(st, item);
    struct mem_record *rec = it ? mem_store_record(it, user_id, request_id) : NULL;
    return rec && uuid_eq(&rec->r.reservation_id, reservation_id) ? rec : NULL;
}

int mem_rules_mark(struct mem_store *st, const struct stock_mark *m)
{
    struct mem_record *rec =
        own_record(st, m->item, m->user_id, &m->request_id, &m->reservation_id);
    if (!rec || (rec->r.status != m->to && !reservation_may_move(rec->r.status, m->to)))
        return 1;
    rec->r.status = m->to;
    return 0;
}

int mem_rules_refuse(struct mem_store *st, const struct stock_refuse *r)
{
    struct mem_record *rec =
        own_record(st, r->item, r->user_id, &r->request_id, &r->reservation_id);
    if (!rec || rec->r.status == RESERVATION_RELEASED)
        return 1;
    rec->r.cancel_refused = true;
    return 0;
}

int mem_rules_release(struct mem_store *st, struct stock_release *r)
{
    struct mem_item *it = mem_store_item(st, r->item);
    struct mem_record *rec =
        own_record(st, r->item, r->user_id, &r->request_id, &r->reservation_id);
    r->version = it ? it->version : (struct item_version){0};
    if (!rec || !it->meta || rec->r.epoch != it->version.epoch ||
        rec->r.status != RESERVATION_RESERVED)
        return 1;
    const struct reservation *held = mem_store_buyer(it, r->user_id);
    if (held && uuid_eq(&held->reservation_id, &r->reservation_id))
        mem_store_remove_buyer(it, r->user_id);
    mem_store_remove_record(it, rec);
    it->free++;
    it->version.seq++;
    r->version = it->version;
    mem_store_publish(st, it);
    return 0;
}

int mem_rules_claim(struct mem_store *st, struct stock_claim *c)
{
    struct mem_item *it = mem_store_item(st, c->item);
    struct mem_record *rec =
        own_record(st, c->item, c->user_id, &c->request_id, &c->reservation_id);
    if (!rec || !it->meta || rec->r.epoch != it->version.epoch ||
        rec->r.status == RESERVATION_ORDERED || rec->r.status == RESERVATION_RELEASED)
        return 1;
    rec->r.status = RESERVATION_MQ_PENDING;
    c->found = rec->r;
    return 0;
}

int mem_rules_republished(struct mem_store *st, const struct stock_republished *r)
{
    struct mem_record *rec =
        own_record(st, r->item, r->user_id, &r->request_id, &r->reservation_id);
    if (!rec || rec->r.status == RESERVATION_ORDERED || rec->r.status == RESERVATION_RELEASED)
        return 1;
    if (rec->r.status == RESERVATION_MQ_PENDING)
        rec->r.status = RESERVATION_MQ_SENT;
    rec->r.republished++;
    if (r->queue_id[0])
        str_copy(rec->r.queue_id, sizeof rec->r.queue_id, str_of(r->queue_id));
    return 0;
}

int mem_rules_warm(struct mem_store *st, const struct stock_warm *r)
{
    struct mem_item *it = mem_store_add_item(st, r->item);
    it->listed = true;
    if (it->meta)
        return 1;
    it->meta = true;
    it->version = (struct item_version){r->epoch, 0};
    it->state = STOCK_STATE_PAUSED;
    it->total = it->free = r->total;
    it->starts_ms = r->starts_ms;
    it->ends_ms = r->ends_ms;
    it->expires_ms = r->expires_ms;
    return 0;
}

int mem_rules_control(struct mem_store *st, struct stock_control *r)
{
    struct mem_item *it = mem_store_item(st, r->item);
    if (!it || !it->meta)
        return 1;
    int rc = 0;
    if (it->rebuild) { /* what it will be afterwards */
        rc = it->after == STOCK_STATE_CLOSED && r->to != STOCK_STATE_CLOSED ? 2 : 0;
        it->after = rc == 0 ? r->to : it->after;
    } else if (it->state == STOCK_STATE_CLOSED && r->to != STOCK_STATE_CLOSED) {
        rc = 2;
    } else if (it->state != r->to) {
        it->state = r->to;
        it->version.seq++;
        mem_store_publish(st, it);
    }
    r->version = it->version;
    return rc;
}

int mem_rules_report(struct mem_store *st, const struct stock_report *r)
{
    mem_store_add_item(st, r->item)->suspect = true;
    return 0;
}

int mem_rules_slot(struct mem_store *st, struct stock_slot_lease *r)
{
    struct mem_slot *slot = &st->slots[r->slot];
    bool mine = strcmp(slot->nonce, r->nonce) == 0;
    if (!mine && slot->until_us > st->sched->now_us)
        return 1;
    if (!mine) {
        if (slot->highest_ms > slot->floor_ms)
            slot->floor_ms = slot->highest_ms;
        slot->highest_ms = 0;
        memcpy(slot->nonce, r->nonce, sizeof slot->nonce);
    }
    if (r->highest_ms > slot->highest_ms)
        slot->highest_ms = r->highest_ms;
    slot->until_us = st->sched->now_us + r->ttl_ms * 1000;
    r->floor_ms = slot->floor_ms;
    return 0;
}
