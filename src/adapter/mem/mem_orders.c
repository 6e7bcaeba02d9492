/* The port: each call takes its fault, runs under the mutex, and says how long it would have taken.
 */
#include "adapter/mem/mem_orders.h"

#include "adapter/mem/mem_call.h"
#include "adapter/mem/mem_db.h"
#include "base/err.h"
#include "base/panic.h"
#include <stdlib.h>

#define LIFE_ENDS_AFTER_US 10000000

struct mem_orders {
    struct orders port;
    struct mem_db *db;
    struct mem_faults faults;
    struct mem_fault fault;
    int64_t spent_us; /* virtual time since mem_orders_take_us */
};

static struct mem_orders *of(const struct orders *o)
{
    return (struct mem_orders *)(uintptr_t)((const char *)o - offsetof(struct mem_orders, port));
}

static int64_t now_us(const struct mem_orders *o)
{
    return o->db->sched->now_us + o->spent_us;
}

/* 0: go on, with the mutex held until leave(). */
int mem_orders_enter(struct orders *port, const struct ctx *ctx, int kind)
{
    struct mem_orders *o = of(port);
    pthread_mutex_lock(&o->db->mutex);
    int rc = ctx_check(ctx, now_us(o));
    if (rc == 0) {
        o->fault = mem_faults_take(&o->faults, kind);
        if (o->fault.kind == MEM_FAULT_NOT_DONE)
            rc = ERR_UNAVAIL;
        else if (o->fault.kind == MEM_FAULT_ANSWER)
            rc = (int)o->fault.delay_us;
        else if (o->fault.kind == MEM_FAULT_REQUEST_LOST)
            rc = ERR_UNCERTAIN;
        if (rc)
            o->spent_us += o->db->call_us;
    }
    if (rc)
        pthread_mutex_unlock(&o->db->mutex);
    return rc;
}

int mem_orders_leave(struct orders *port, const struct ctx *ctx, int rc)
{
    struct mem_orders *o = of(port);
    int64_t took = o->db->call_us, left = ctx_left_us(ctx, now_us(o));
    if (o->fault.kind == MEM_FAULT_REPLY_LATE || o->fault.kind == MEM_FAULT_HELD_BACK)
        took += o->fault.delay_us;
    if (took > left || o->fault.kind == MEM_FAULT_REPLY_LOST)
        rc = ERR_UNCERTAIN;
    o->spent_us += took < left ? took : left;
    pthread_mutex_unlock(&o->db->mutex);
    return rc;
}

struct mem_db *mem_orders_db(struct orders *port)
{
    return of(port)->db;
}

bool mem_orders_twice(struct orders *port)
{
    return of(port)->fault.kind == MEM_FAULT_TWICE;
}

/* Rows that take longer than the ctx allows: given up, nothing of them is done. */
static bool too_slow(struct orders *port, const struct ctx *ctx, int n)
{
    struct mem_orders *o = of(port);
    int64_t took = n * o->db->row_us, left = ctx_left_us(ctx, now_us(o));
    o->spent_us += took < left ? took : left;
    if (took < left)
        return false;
    pthread_mutex_unlock(&o->db->mutex);
    return true;
}

static int op_place(struct orders *o, const struct ctx *ctx, struct item item,
                    struct orders_row *rows, int n, struct orders_timing *timing)
{
    int rc = mem_orders_enter(o, ctx, n ? MEM_ORDERS_PLACE : MEM_ORDERS_PROBE);
    if (rc)
        return rc;
    if (timing)
        *timing = (struct orders_timing){1, 1, 1, 1};
    if (too_slow(o, ctx, n))
        return ERR_UNCERTAIN;
    if (of(o)->fault.kind == MEM_FAULT_TWICE)
        mem_db_place(of(o)->db, item, rows, n);
    return mem_orders_leave(o, ctx, mem_db_place(of(o)->db, item, rows, n));
}

static int op_inbox(struct orders *o, const struct ctx *ctx, const struct uuid *ids,
                    struct orders_inbox *rows, int n)
{
    int rc = mem_orders_enter(o, ctx, MEM_ORDERS_INBOX);
    if (rc)
        return rc;
    for (int i = 0; i < n; i++) {
        const struct mem_inbox *in = mem_db_inbox(of(o)->db, &ids[i]);
        rows[i] = in ? in->row : (struct orders_inbox){.message_id = ids[i]};
    }
    return mem_orders_leave(o, ctx, 0);
}

void mem_db_void(struct mem_db *db, struct item item, const struct orders_row *message,
                 enum verdict_reason reason)
{
    struct mem_inbox *in = mem_db_inbox(db, &message->message_id);
    if (!in)
        in = mem_db_add_inbox(db, item, message, "REJECTED");
    str_copy(in->row.status, sizeof in->row.status, STR("REJECTED"));
    in->row.verdict = in->outcome.verdict = verdict_of_reason(reason);
    in->row.order_id = 0;
    in->outcome.outcome = ORDERS_REJECTED;
    in->row.give_back = in->outcome.give_back = verdict_returns_unit(in->row.verdict);
    mem_db_add_outbox(db, item, &in->outcome);
}

static int op_void(struct orders *o, const struct ctx *ctx, struct item item,
                   const struct orders_row *message, enum verdict_reason reason,
                   struct orders_inbox *row)
{
    int rc = mem_orders_enter(o, ctx, MEM_ORDERS_VOID);
    if (rc)
        return rc;
    struct mem_db *db = of(o)->db;
    struct mem_inbox *in = mem_db_inbox(db, &message->message_id);
    if (in && strcmp(in->row.status, "QUARANTINED") != 0) {
        *row = in->row;
        return mem_orders_leave(o, ctx, 1);
    }
    mem_db_void(db, item, message, reason);
    *row = mem_db_inbox(db, &message->message_id)->row;
    return mem_orders_leave(o, ctx, 0);
}

static int store_dead_letter(struct mem_db *db, const struct orders_dead_letter *dl)
{
    char broker_id[128];
    str_copy(broker_id, sizeof broker_id, dl->broker_id);
    if (dl->decoded) {
        const struct mem_inbox *in = mem_db_inbox(db, &dl->message_id);
        if (in && strcmp(in->row.status, "QUARANTINED") != 0)
            return 1;
        if (in && mem_db_note(db, MEM_NOTE_DEAD_LETTER, &dl->message_id, NULL))
            return 0;
        if (in) {
            mem_db_add_note(db, MEM_NOTE_DEAD_LETTER, &dl->message_id, broker_id);
            return 0;
        }
        struct orders_row row = {.message_id = dl->message_id,
                                 .request_id = dl->request_id,
                                 .reservation_id = dl->reservation_id,
                                 .user_id = dl->user_id};
        mem_db_add_inbox(db, dl->item, &row, "QUARANTINED");
        mem_db_add_note(db, MEM_NOTE_DEAD_LETTER, &dl->message_id, broker_id);
    } else if (!mem_db_note(db, MEM_NOTE_DEAD_LETTER, NULL, broker_id)) {
        mem_db_add_note(db, MEM_NOTE_DEAD_LETTER, NULL, broker_id);
    }
    return 0;
}

static int op_quarantine(struct orders *o, const struct ctx *ctx,
                         const struct orders_dead_letter *letters, int n, bool *settled)
{
    int rc = mem_orders_enter(o, ctx, MEM_ORDERS_QUARANTINE);
    if (rc)
        return rc;
    if (too_slow(o, ctx, n))
        return ERR_UNCERTAIN;
    for (int i = 0; i < n; i++)
        settled[i] = store_dead_letter(of(o)->db, &letters[i]) == 1;
    return mem_orders_leave(o, ctx, 0);
}

static int op_count_attempts(struct orders *o, const struct ctx *ctx, const struct uuid *ids,
                             const char *error_kind, int *counts, int n)
{
    int rc = mem_orders_enter(o, ctx, MEM_ORDERS_COUNT_ATTEMPTS);
    (void)error_kind;
    if (rc)
        return rc;
    for (int i = 0; i < n; i++)
        counts[i] = mem_db_count_attempt(of(o)->db, &ids[i]);
    return mem_orders_leave(o, ctx, 0);
}

static int op_attempts(struct orders *o, const struct ctx *ctx, const struct uuid *ids, int *counts,
                       int n)
{
    int rc = mem_orders_enter(o, ctx, MEM_ORDERS_ATTEMPTS);
    if (rc)
        return rc;
    for (int i = 0; i < n; i++) {
        const struct mem_note *a = mem_db_note(of(o)->db, MEM_NOTE_ATTEMPTS, &ids[i], NULL);
        counts[i] = a ? a->value : 0;
    }
    return mem_orders_leave(o, ctx, 0);
}

static bool life_ended(struct mem_db *db, const char *life)
{
    const struct mem_note *n = mem_db_note(db, MEM_NOTE_LIFE, NULL, life);
    return !n || db->sched->now_us - n->at_us > LIFE_ENDS_AFTER_US;
}

static int op_suspect_begin(struct orders *o, const struct ctx *ctx, const struct uuid *id,
                            struct str life, int *dead_alone)
{
    int rc = mem_orders_enter(o, ctx, MEM_ORDERS_SUSPECT_BEGIN);
    char name[128];
    if (rc)
        return rc;
    struct mem_db *db = of(o)->db;
    str_copy(name, sizeof name, life);
    *dead_alone = 0;
    list_for_each (l, &db->notes) {
        const struct mem_note *n = container_of(l, struct mem_note, link);
        if (n->kind == MEM_NOTE_SUSPECT && uuid_eq(&n->id, id) && strcmp(n->text, name) != 0)
            *dead_alone += life_ended(db, n->text);
    }
    if (!mem_db_note(db, MEM_NOTE_SUSPECT, id, name))
        mem_db_add_note(db, MEM_NOTE_SUSPECT, id, name);
    return mem_orders_leave(o, ctx, 0);
}

static int op_suspect_clear(struct orders *o, const struct ctx *ctx, const struct uuid *ids, int n,
                            struct str life)
{
    int rc = mem_orders_enter(o, ctx, MEM_ORDERS_SUSPECT_CLEAR);
    char name[128];
    if (rc)
        return rc;
    str_copy(name, sizeof name, life);
    for (int i = 0; i < n; i++) {
        struct mem_note *s = mem_db_note(of(o)->db, MEM_NOTE_SUSPECT, &ids[i], name);
        if (s) {
            list_remove(&s->link);
            free(s);
        }
    }
    return mem_orders_leave(o, ctx, 0);
}

static int op_beat(struct orders *o, const struct ctx *ctx, struct str life, int64_t age_ms,
                   int64_t *fleet_age_ms)
{
    int rc = mem_orders_enter(o, ctx, MEM_ORDERS_BEAT);
    char name[128];
    if (rc)
        return rc;
    struct mem_db *db = of(o)->db;
    str_copy(name, sizeof name, life);
    struct mem_note *n = mem_db_note(db, MEM_NOTE_LIFE, NULL, name);
    if (!n)
        n = mem_db_add_note(db, MEM_NOTE_LIFE, NULL, name);
    n->at_us = db->sched->now_us;
    n->oldest_us = age_ms > 0 ? n->at_us - age_ms * 1000 : 0;
    *fleet_age_ms = 0;
    list_for_each (l, &db->notes) {
        const struct mem_note *x = container_of(l, struct mem_note, link);
        int64_t age = n->at_us - x->oldest_us;
        if (x->kind == MEM_NOTE_LIFE && x->oldest_us && n->at_us - x->at_us <= LIFE_ENDS_AFTER_US &&
            age / 1000 > *fleet_age_ms)
            *fleet_age_ms = age / 1000;
    }
    return mem_orders_leave(o, ctx, 0);
}

static int op_find_request(struct orders *o, const struct ctx *ctx, struct item item,
                           int64_t user_id, const struct uuid *request_id, struct orders_inbox *row,
                           struct orders_order *order)
{
    int rc = mem_orders_enter(o, ctx, MEM_ORDERS_FIND_REQUEST);
    if (rc)
        return rc;
    struct mem_db *db = of(o)->db;
    const struct mem_inbox *found = NULL;
    size_t at = 0;
    uint64_t key, value;
    *order = (struct orders_order){0};
    for (const struct mem_order *p = mem_db_orders_of(db, user_id); p; p = p->next_of_user) {
        if (!uuid_eq(&p->o.request_id, request_id) || !item_eq(p->o.item, item))
            continue;
        *order = p->o;
        found = mem_db_inbox(db, &p->message_id);
    }
    while (!found && map_next(&db->by_message, &at, &key, &value)) {
        const struct mem_inbox *in = (const struct mem_inbox *)(uintptr_t)value;
        if (in->user_id == user_id && item_eq(in->item, item) &&
            uuid_eq(&in->request_id, request_id))
            found = in;
    }
    const struct mem_inventory *i = mem_db_inventory(db, item);
    const struct orders_hold *kept = i ? mem_db_kept(i, user_id, request_id) : NULL;
    *row = (struct orders_inbox){0};
    if (found) {
        *row = found->row;
    } else if (kept) {
        *row = (struct orders_inbox){.found = true,
                                     .message_id = kept->message_id,
                                     .order_id = kept->order_id,
                                     .status = "KEPT",
                                     .verdict = {VERDICT_PROCESSING, REASON_NONE}};
    }
    return mem_orders_leave(o, ctx, row->found ? 0 : 1);
}

static int op_find_order(struct orders *o, const struct ctx *ctx, int64_t order_id,
                         struct orders_order *order)
{
    int rc = mem_orders_enter(o, ctx, MEM_ORDERS_FIND_ORDER);
    if (rc)
        return rc;
    const struct mem_order *found = mem_db_order(of(o)->db, order_id);
    *order = found ? found->o : (struct orders_order){0};
    return mem_orders_leave(o, ctx, found ? 0 : 1);
}

static int op_inventory(struct orders *o, const struct ctx *ctx, struct item item,
                        struct orders_inventory *inv)
{
    int rc = mem_orders_enter(o, ctx, MEM_ORDERS_INVENTORY);
    if (rc)
        return rc;
    const struct mem_inventory *i = mem_db_inventory(of(o)->db, item);
    *inv = i ? (struct orders_inventory){.total = i->total,
                                         .sold = i->sold,
                                         .epoch = i->epoch,
                                         .warmed = true,
                                         .expires_ms = i->expires_ms,
                                         .now_ms = mem_clock_wall_ms(of(o)->db->sched),
                                         .lost_epoch = mem_db_lost_epoch(of(o)->db, i, true)}
             : (struct orders_inventory){0};
    return mem_orders_leave(o, ctx, i ? 0 : 1);
}

static int op_warmed(struct orders *o, const struct ctx *ctx, struct item *items, int *n)
{
    int rc = mem_orders_enter(o, ctx, MEM_ORDERS_WARMED), max = *n;
    *n = 0;
    if (rc)
        return rc;
    struct mem_db *db = of(o)->db;
    list_for_each (l, &db->inventory) {
        const struct mem_inventory *i = container_of(l, struct mem_inventory, link);
        bool over = i->expires_ms > 0 && i->expires_ms <= mem_clock_wall_ms(db->sched);
        if (!over && *n < max)
            items[(*n)++] = i->item;
    }
    return mem_orders_leave(o, ctx, 0);
}

static int op_probe(struct orders *o, const struct ctx *ctx)
{
    int rc = mem_orders_enter(o, ctx, MEM_ORDERS_PROBE);
    return rc ? rc : mem_orders_leave(o, ctx, 0);
}

static const struct orders_ops ops = {
    .place = op_place,
    .cancel = mem_orders_cancel,
    .pay = mem_orders_pay,
    .park = mem_orders_park,
    .parked = mem_orders_parked,
    .parked_failed = mem_orders_parked_failed,
    .expire = mem_orders_expire,
    .mark_settled = mem_orders_mark_settled,
    .unsettled = mem_orders_unsettled,
    .unpublished = mem_orders_unpublished,
    .mark_published = mem_orders_mark_published,
    .unpublished_backlog = mem_orders_unpublished_backlog,
    .retain = mem_orders_retain,
    .inbox = op_inbox,
    .void_message = op_void,
    .quarantine = op_quarantine,
    .count_attempts = op_count_attempts,
    .attempts = op_attempts,
    .suspect_begin = op_suspect_begin,
    .suspect_clear = op_suspect_clear,
    .beat = op_beat,
    .find_request = op_find_request,
    .find_order = op_find_order,
    .inventory = op_inventory,
    .warmed = op_warmed,
    .reconcile_begin = mem_orders_reconcile_begin,
    .reconcile_asked = mem_orders_reconcile_asked,
    .reconcile_look = mem_orders_reconcile_look,
    .reconcile_orders = mem_orders_reconcile_orders,
    .reconcile_end = mem_orders_reconcile_end,
    .watch = mem_orders_watch,
    .rebuild_take = mem_orders_rebuild_take,
    .rebuild_keep = mem_orders_rebuild_keep,
    .rebuild_count = mem_orders_rebuild_count,
    .rebuild_page = mem_orders_rebuild_page,
    .rebuild_resettle = mem_orders_rebuild_resettle,
    .rebuild_finish = mem_orders_rebuild_finish,
    .probe = op_probe,
};

struct orders *mem_orders_new(struct mem_db *db)
{
    struct mem_orders *o = mem_alloc(sizeof *o);
    o->port.ops = &ops;
    o->db = db;
    pthread_mutex_lock(&db->mutex);
    db->ports++;
    pthread_mutex_unlock(&db->mutex);
    return &o->port;
}

void mem_orders_free(struct orders *port)
{
    struct mem_orders *o = of(port);
    pthread_mutex_lock(&o->db->mutex);
    o->db->ports--;
    pthread_mutex_unlock(&o->db->mutex);
    free(o);
}

struct mem_faults *mem_orders_faults(struct orders *o)
{
    return &of(o)->faults;
}

int64_t mem_orders_take_us(struct orders *port)
{
    struct mem_orders *o = of(port);
    int64_t spent = o->spent_us;
    o->spent_us = 0;
    return spent;
}
