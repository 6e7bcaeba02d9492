#include "adapter/mem/mem_db.h"

#include "adapter/mem/mem_call.h"
#include "base/panic.h"
#include <stdlib.h>

#define DB_ROWS_MAX (1u << 22)

struct mem_db *mem_db_new(const struct sched *sched, int64_t call_us)
{
    struct mem_db *db = mem_alloc(sizeof *db);
    pthread_mutex_init(&db->mutex, NULL);
    db->sched = sched;
    db->call_us = call_us ? call_us : 2000;
    list_init(&db->inventory);
    list_init(&db->orders);
    list_init(&db->outbox);
    list_init(&db->notes);
    list_init(&db->commands);
    list_init(&db->reconciled);
    db->timeline = 1;
    map_init(&db->by_user, DB_ROWS_MAX);
    map_init(&db->by_order_id, DB_ROWS_MAX);
    map_init(&db->by_message, DB_ROWS_MAX);
    return db;
}

#define FREE_ALL(head, type)                                                                       \
    for (struct list * l; (l = list_pop_front(head));)                                             \
    free(container_of(l, type, link))

void mem_db_free(struct mem_db *db)
{
    size_t at = 0;
    uint64_t key, value;
    if (db->ports)
        panic("mem_db_free: %d ports are left", db->ports);
    while (map_next(&db->by_message, &at, &key, &value))
        free((void *)(uintptr_t)value);
    list_for_each (l, &db->inventory)
        mem_db_forget_rebuilds(container_of(l, struct mem_inventory, link));
    FREE_ALL(&db->inventory, struct mem_inventory);
    FREE_ALL(&db->orders, struct mem_order);
    FREE_ALL(&db->outbox, struct mem_outbox);
    FREE_ALL(&db->notes, struct mem_note);
    FREE_ALL(&db->commands, struct mem_command);
    FREE_ALL(&db->reconciled, struct mem_reconciled);
    map_deinit(&db->by_user);
    map_deinit(&db->by_order_id);
    map_deinit(&db->by_message);
    pthread_mutex_destroy(&db->mutex);
    free(db);
}

static void put(struct map *m, uint64_t key, const void *value)
{
    if (map_put(m, key, (uint64_t)(uintptr_t)value))
        panic("mem_db: more than %zu rows", m->max);
}

static void *get(const struct map *m, uint64_t key)
{
    uint64_t value;
    return map_get(m, key, &value) ? (void *)(uintptr_t)value : NULL;
}

static uint64_t uuid_key(const struct uuid *u)
{
    uint64_t half[2];
    memcpy(half, u->b, sizeof half);
    return half[0] ^ (half[1] * UINT64_C(0x9e3779b97f4a7c15));
}

struct mem_inventory *mem_db_inventory(const struct mem_db *db, struct item item)
{
    list_for_each (l, &db->inventory) {
        struct mem_inventory *i = container_of(l, struct mem_inventory, link);
        if (item_eq(i->item, item))
            return i;
    }
    return NULL;
}

struct mem_inbox *mem_db_inbox(const struct mem_db *db, const struct uuid *message_id)
{
    struct mem_inbox *in = get(&db->by_message, uuid_key(message_id));
    if (in && !uuid_eq(&in->message_id, message_id))
        panic("mem_db: two message ids with one key");
    return in;
}

struct mem_inbox *mem_db_add_inbox(struct mem_db *db, struct item item,
                                   const struct orders_row *row, const char *status)
{
    struct mem_inbox *in = mem_alloc(sizeof *in);
    in->message_id = row->message_id;
    in->item = item;
    in->user_id = row->user_id;
    in->request_id = row->request_id;
    in->outcome = *row;
    in->row.found = true;
    in->row.message_id = row->message_id;
    in->row.verdict = row->verdict;
    in->row.order_id = row->order_id;
    in->row.give_back = row->give_back;
    in->row.other_order_id = row->other_order_id;
    in->row.other_reservation_id = row->other_reservation_id;
    in->row.other_request_id = row->other_request_id;
    str_copy(in->row.status, sizeof in->row.status, str_of(status));
    put(&db->by_message, uuid_key(&row->message_id), in);
    return in;
}

struct mem_order *mem_db_orders_of(const struct mem_db *db, int64_t user_id)
{
    return get(&db->by_user, (uint64_t)user_id);
}

struct mem_order *mem_db_order(const struct mem_db *db, int64_t order_id)
{
    return get(&db->by_order_id, (uint64_t)order_id);
}

bool mem_order_active(const struct mem_order *o)
{
    return strcmp(o->o.status, "CANCELLED") != 0 && strcmp(o->o.status, "CLOSED") != 0;
}

struct mem_order *mem_db_add_order(struct mem_db *db, struct item item,
                                   const struct orders_row *row)
{
    struct mem_order *o = mem_alloc(sizeof *o);
    int64_t now = mem_clock_wall_ms(db->sched);
    o->message_id = row->message_id;
    o->o = (struct orders_order){.item = item,
                                 .order_id = row->order_id,
                                 .user_id = row->user_id,
                                 .created_at_ms = now,
                                 .updated_at_ms = now,
                                 .request_id = row->request_id,
                                 .reservation_id = row->reservation_id,
                                 .status = "CREATED"};
    o->next_of_user = mem_db_orders_of(db, row->user_id);
    put(&db->by_user, (uint64_t)row->user_id, o);
    put(&db->by_order_id, (uint64_t)row->order_id, o);
    list_push_back(&db->orders, &o->link);
    return o;
}

int64_t mem_db_add_outbox(struct mem_db *db, struct item item, const struct orders_row *row)
{
    struct mem_outbox *out = mem_alloc(sizeof *out);
    out->row = (struct orders_unsettled){.outbox_id = ++db->next_outbox,
                                         .item = item,
                                         .user_id = row->user_id,
                                         .request_id = row->request_id,
                                         .reservation_id = row->reservation_id,
                                         .verdict = row->verdict,
                                         .give_back = row->give_back,
                                         .other_order_id = row->other_order_id,
                                         .other_reservation_id = row->other_reservation_id,
                                         .other_request_id = row->other_request_id};
    out->message_id = row->message_id;
    out->order_id = row->order_id;
    out->created_us = db->sched->now_us;
    list_push_back(&db->outbox, &out->link);
    return out->row.outbox_id;
}

struct mem_note *mem_db_note(struct mem_db *db, enum mem_note_kind kind, const struct uuid *id,
                             const char *text)
{
    list_for_each (l, &db->notes) {
        struct mem_note *n = container_of(l, struct mem_note, link);
        if (n->kind == kind && (!id || uuid_eq(&n->id, id)) &&
            (!text || strcmp(n->text, text) == 0))
            return n;
    }
    return NULL;
}

struct mem_note *mem_db_add_note(struct mem_db *db, enum mem_note_kind kind, const struct uuid *id,
                                 const char *text)
{
    struct mem_note *n = mem_alloc(sizeof *n);
    n->kind = kind;
    if (id)
        n->id = *id;
    str_copy(n->text, sizeof n->text, text ? str_of(text) : STR(""));
    n->at_us = db->sched->now_us;
    list_push_back(&db->notes, &n->link);
    return n;
}

int mem_db_count_attempt(struct mem_db *db, const struct uuid *message_id)
{
    struct mem_note *a = mem_db_note(db, MEM_NOTE_ATTEMPTS, message_id, NULL);
    if (!a)
        a = mem_db_add_note(db, MEM_NOTE_ATTEMPTS, message_id, NULL);
    return ++a->value;
}

/* --- straight access for tests --- */
void mem_db_put_item(struct mem_db *db, struct item item, int64_t total, int64_t epoch)
{
    pthread_mutex_lock(&db->mutex);
    struct mem_inventory *i = mem_db_inventory(db, item);
    if (!i) {
        i = mem_alloc(sizeof *i);
        i->item = item;
        list_init(&i->holds);
        list_init(&i->over);
        i->epoch_us = db->sched->now_us;
        list_push_back(&db->inventory, &i->link);
    }
    i->total = total;
    i->epoch = epoch;
    pthread_mutex_unlock(&db->mutex);
}

void mem_db_slow_rows(struct mem_db *db, int64_t row_us)
{
    pthread_mutex_lock(&db->mutex);
    db->row_us = row_us;
    pthread_mutex_unlock(&db->mutex);
}

void mem_db_poison(struct mem_db *db, const struct uuid *message_id, int rc)
{
    pthread_mutex_lock(&db->mutex);
    struct mem_note *n = mem_db_note(db, MEM_NOTE_POISON, message_id, NULL);
    if (!n)
        n = mem_db_add_note(db, MEM_NOTE_POISON, message_id, NULL);
    n->value = rc;
    pthread_mutex_unlock(&db->mutex);
}

int mem_db_poisoned(struct mem_db *db, const struct uuid *message_id)
{
    const struct mem_note *p = mem_db_note(db, MEM_NOTE_POISON, message_id, NULL);
    return p ? p->value : 0;
}

int mem_db_end_order(struct mem_db *db, struct mem_order *o, enum verdict_reason reason,
                     int64_t *outbox_id)
{
    if (!mem_order_active(o) || strcmp(o->o.status, "PAID") == 0)
        return 1;
    struct mem_inbox *in = mem_db_inbox(db, &o->message_id);
    str_copy(o->o.status, sizeof o->o.status,
             reason == REASON_CANCELLED ? STR("CANCELLED") : STR("CLOSED"));
    o->o.updated_at_ms = mem_clock_wall_ms(db->sched);
    mem_db_inventory(db, o->o.item)->sold--;
    in->outcome.verdict = in->row.verdict = verdict_of_reason(reason);
    in->outcome.give_back = in->row.give_back = true;
    *outbox_id = mem_db_add_outbox(db, o->o.item, &in->outcome);
    return 0;
}

int mem_db_cancel(struct mem_db *db, int64_t order_id, enum verdict_reason reason)
{
    int64_t outbox_id;
    pthread_mutex_lock(&db->mutex);
    struct mem_order *o = mem_db_order(db, order_id);
    int rc = o ? mem_db_end_order(db, o, reason, &outbox_id) : 1;
    pthread_mutex_unlock(&db->mutex);
    return rc;
}

int mem_db_pay(struct mem_db *db, int64_t order_id)
{
    pthread_mutex_lock(&db->mutex);
    struct mem_order *o = mem_db_order(db, order_id);
    int rc = o && mem_order_active(o) ? 0 : 1;
    if (rc == 0)
        str_copy(o->o.status, sizeof o->o.status, STR("PAID"));
    pthread_mutex_unlock(&db->mutex);
    return rc;
}

void mem_db_replay(struct mem_db *db, const struct uuid *message_id)
{
    pthread_mutex_lock(&db->mutex);
    struct mem_inbox *in = mem_db_inbox(db, message_id);
    if (in && strcmp(in->row.status, "QUARANTINED") == 0) {
        struct mem_note *attempts = mem_db_note(db, MEM_NOTE_ATTEMPTS, message_id, NULL);
        if (attempts)
            attempts->value = 0;
        map_remove(&db->by_message, uuid_key(message_id));
        free(in);
    }
    pthread_mutex_unlock(&db->mutex);
}

int64_t mem_db_sold(struct mem_db *db, struct item item)
{
    pthread_mutex_lock(&db->mutex);
    const struct mem_inventory *i = mem_db_inventory(db, item);
    int64_t sold = i ? i->sold : 0;
    pthread_mutex_unlock(&db->mutex);
    return sold;
}

static int active_orders(const struct mem_db *db, struct item item)
{
    int n = 0;
    list_for_each (l, &db->orders) {
        const struct mem_order *o = container_of(l, struct mem_order, link);
        n += item_eq(o->o.item, item) && mem_order_active(o);
    }
    return n;
}

int mem_db_active_orders(struct mem_db *db, struct item item)
{
    pthread_mutex_lock(&db->mutex);
    int n = active_orders(db, item);
    pthread_mutex_unlock(&db->mutex);
    return n;
}

int mem_db_dead_letters(struct mem_db *db)
{
    int n = 0;
    pthread_mutex_lock(&db->mutex);
    list_for_each (l, &db->notes)
        n += container_of(l, struct mem_note, link)->kind == MEM_NOTE_DEAD_LETTER;
    pthread_mutex_unlock(&db->mutex);
    return n;
}

int mem_db_unsettled(struct mem_db *db)
{
    int n = 0;
    pthread_mutex_lock(&db->mutex);
    list_for_each (l, &db->outbox)
        n += !container_of(l, struct mem_outbox, link)->settled;
    pthread_mutex_unlock(&db->mutex);
    return n;
}

static const char *audit(const struct mem_db *db)
{
    list_for_each (l, &db->inventory) {
        const struct mem_inventory *i = container_of(l, struct mem_inventory, link);
        if (i->sold < 0 || i->sold > i->total)
            return "sold is not between 0 and total";
        if (i->sold != active_orders(db, i->item))
            return "sold differs from the number of active orders";
    }
    list_for_each (l, &db->orders) {
        const struct mem_order *o = container_of(l, struct mem_order, link);
        const struct mem_inbox *in = mem_db_inbox(db, &o->message_id);
        if (!in || strcmp(in->row.status, "COMPLETED") != 0)
            return "an order without a completed inbox row";
        for (const struct mem_order *p = o->next_of_user; p; p = p->next_of_user) {
            if (item_eq(p->o.item, o->o.item) && mem_order_active(p) && mem_order_active(o))
                return "two active orders of one user and item";
            if (uuid_eq(&p->o.request_id, &o->o.request_id))
                return "two orders of one user and request";
        }
    }
    return NULL;
}

const char *mem_db_audit(struct mem_db *db)
{
    pthread_mutex_lock(&db->mutex);
    const char *wrong = audit(db);
    pthread_mutex_unlock(&db->mutex);
    return wrong;
}

void mem_db_set_expiry(struct mem_db *db, struct item item, int64_t expires_ms)
{
    pthread_mutex_lock(&db->mutex);
    mem_db_inventory(db, item)->expires_ms = expires_ms;
    pthread_mutex_unlock(&db->mutex);
}

static void unlink_of_user(struct mem_db *db, struct mem_order *o)
{
    struct mem_order *first = mem_db_orders_of(db, o->o.user_id);
    if (first == o && o->next_of_user) {
        put(&db->by_user, (uint64_t)o->o.user_id, o->next_of_user);
    } else if (first == o) {
        map_remove(&db->by_user, (uint64_t)o->o.user_id);
    } else {
        while (first->next_of_user != o)
            first = first->next_of_user;
        first->next_of_user = o->next_of_user;
    }
}

int mem_db_lose_order(struct mem_db *db, int64_t order_id)
{
    pthread_mutex_lock(&db->mutex);
    struct mem_order *o = mem_db_order(db, order_id);
    if (o) {
        struct mem_inbox *in = mem_db_inbox(db, &o->message_id);
        map_remove(&db->by_message, uuid_key(&o->message_id));
        free(in);
        list_for_each (l, &db->outbox) {
            struct mem_outbox *out = container_of(l, struct mem_outbox, link);
            out->settled |= uuid_eq(&out->row.reservation_id, &o->o.reservation_id);
        }
        mem_db_inventory(db, o->o.item)->sold -= mem_order_active(o);
        unlink_of_user(db, o);
        map_remove(&db->by_order_id, (uint64_t)order_id);
        list_remove(&o->link);
        free(o);
    }
    pthread_mutex_unlock(&db->mutex);
    return o ? 0 : 1;
}
