/* What reconciliation asks of the fake, and does (rule 40): inspect, holders, held, mend, lower and
 * set_total of lua/ in plain C, and a test's ways to put the books wrong. */
#include "adapter/mem/mem_store.h"
#include "base/panic.h"
#include <stdlib.h>

static struct mem_call *start(struct stock *s, int kind, struct op *op, size_t size,
                              int (*apply)(struct mem_call *, void *))
{
    return mem_call_start(mem_stock_link(s), kind, op, size, mem_stock_store(s), apply);
}

static bool usable(const struct mem_item *it)
{
    return it && it->meta && !it->rebuild;
}

static int apply_inspect(struct mem_call *c, void *request)
{
    struct stock_inspect *r = request;
    struct mem_item *it = mem_store_item(c->port, r->item);
    if (!usable(it))
        return 1;
    if (it->broken) {
        str_copy(r->broken, sizeof r->broken, str_of(it->broken));
        r->paused = it->state == STOCK_STATE_OPEN;
        if (r->paused) {
            it->state = STOCK_STATE_PAUSED;
            it->version.seq++;
            mem_store_publish(c->port, it);
        }
        return 2;
    }
    mem_store_info(c->port, it, &r->info);
    return 0;
}

void mem_stock_inspect(struct stock *s, struct stock_inspect *r)
{
    start(s, MEM_STOCK_INSPECT, &r->op, sizeof *r, apply_inspect);
}

/* Borrowed arrays may be gone when a late call arrives: these read when they answer. */
static int apply_holders(struct mem_call *c, void *request)
{
    (void)c;
    (void)request;
    return 0;
}

static void before_holders(struct mem_call *c, void *request, void *callers)
{
    struct stock_holders *r = request;
    struct mem_item *it = mem_store_item(c->port, r->item);
    size_t at = (size_t)strtoull(r->cursor, NULL, 10);
    uint64_t user, value;
    bool more = it != NULL;
    (void)callers;
    r->n = r->unreadable = 0;
    while (r->n < STOCK_HOLDERS_PAGE && more) {
        more = map_next(&it->buyers, &at, &user, &value);
        if (!more)
            break;
        const struct reservation *b = (const struct reservation *)(uintptr_t)value;
        r->rows[r->n++] = (struct stock_holder){.user_id = (int64_t)user,
                                                .order_id = b->order_id,
                                                .request_id = b->request_id,
                                                .reservation_id = b->reservation_id};
    }
    r->cursor[str_from_u64(r->cursor, more ? at : 0)] = '\0';
}

void mem_stock_holders(struct stock *s, struct stock_holders *r)
{
    start(s, MEM_STOCK_HOLDERS, &r->op, sizeof *r, apply_holders)->before_answer = before_holders;
}

static void fill_held(const struct mem_item *it, struct stock_held_row *row)
{
    const struct reservation *b = it ? mem_store_buyer(it, row->user_id) : NULL;
    row->result = STOCK_ROW_GONE;
    row->record = (struct reservation){.user_id = row->user_id, .request_id = row->request_id};
    row->pending = false;
    row->has_entry = b != NULL;
    row->entry = (struct stock_holder){.user_id = row->user_id};
    if (b)
        row->entry = (struct stock_holder){.user_id = row->user_id,
                                           .order_id = b->order_id,
                                           .request_id = b->request_id,
                                           .reservation_id = b->reservation_id};
    if (!it)
        return;
    list_for_each (l, &it->records) {
        const struct mem_record *rec = container_of(l, struct mem_record, link);
        if (rec->r.user_id != row->user_id || !uuid_eq(&rec->r.request_id, &row->request_id))
            continue;
        row->result = rec->result;
        row->pending = rec->pending;
        if (rec->result == STOCK_ROW_GOOD)
            row->record = rec->r;
    }
}

static int apply_held(struct mem_call *c, void *request)
{
    struct stock_held *r = request;
    const struct mem_item *it = mem_store_item(c->port, r->item);
    for (int i = 0; i < r->n; i++)
        fill_held(it, &r->rows[i]);
    r->version = it ? it->version : (struct item_version){0};
    return 0;
}

static void before_held(struct mem_call *c, void *request, void *callers)
{
    struct stock_held *copy = request, *theirs = callers;
    (void)c;
    memcpy(theirs->rows, copy->rows, (size_t)copy->n * sizeof *copy->rows);
    copy->rows = theirs->rows;
}

void mem_stock_held(struct stock *s, struct stock_held *r)
{
    if (r->n < 1 || r->n > STOCK_HELD_MAX)
        panic("stock held: %d rows", r->n);
    struct mem_call *c = start(s, MEM_STOCK_HELD, &r->op, sizeof *r, apply_held);
    struct stock_held *copy = (struct stock_held *)c->request;
    c->aux = copy->rows = mem_alloc((size_t)r->n * sizeof *r->rows);
    memcpy(copy->rows, r->rows, (size_t)r->n * sizeof *r->rows);
    c->before_answer = before_held;
}

static bool unsettled(enum reservation_status s)
{
    return s != RESERVATION_ORDERED && s != RESERVATION_RELEASED;
}

static int apply_mend(struct mem_call *c, void *request)
{
    const struct stock_mend *r = request;
    struct mem_item *it = mem_store_item(c->port, r->item);
    struct mem_record *rec = it ? mem_store_record(it, r->user_id, &r->request_id) : NULL;
    if (!rec || !usable(it) || !uuid_eq(&rec->r.reservation_id, &r->reservation_id) ||
        rec->r.epoch != it->version.epoch)
        return 1;
    const struct reservation *held = mem_store_buyer(it, r->user_id);
    bool moved = false, waiting = unsettled(rec->r.status) && !rec->pending;
    if (rec->r.status == RESERVATION_RELEASED && held &&
        uuid_eq(&held->reservation_id, &r->reservation_id)) {
        mem_store_remove_buyer(it, r->user_id);
        moved = true;
    } else if (!held && rec->r.status != RESERVATION_RELEASED) {
        mem_store_set_buyer(it, r->user_id, &rec->r.reservation_id, rec->r.order_id,
                            &rec->r.request_id);
        moved = true;
    }
    rec->pending |= waiting;
    if (moved) {
        it->version.seq++;
        mem_store_publish(c->port, it);
    }
    return moved || waiting ? 0 : 1;
}

void mem_stock_mend(struct stock *s, struct stock_mend *r)
{
    start(s, MEM_STOCK_MEND, &r->op, sizeof *r, apply_mend);
}

static int apply_lower(struct mem_call *c, void *request)
{
    struct stock_lower *r = request;
    struct mem_item *it = mem_store_item(c->port, r->item);
    if (!usable(it))
        return 1;
    bool lower = it->total == r->seen && r->to < it->total;
    if (lower)
        it->total = r->to;
    int64_t surplus = it->free + (int64_t)it->buyers.n - it->total;
    surplus = surplus < it->free ? surplus : it->free;
    r->taken = surplus > 0 ? surplus : 0;
    r->total = it->total;
    if (r->taken > 0 || lower) {
        it->free -= r->taken;
        it->version.seq++;
        mem_store_publish(c->port, it);
    }
    return 0;
}

void mem_stock_lower(struct stock *s, struct stock_lower *r)
{
    start(s, MEM_STOCK_LOWER, &r->op, sizeof *r, apply_lower);
}

static int apply_set_total(struct mem_call *c, void *request)
{
    struct stock_set_total *r = request;
    struct mem_item *it = mem_store_item(c->port, r->item);
    if (!usable(it))
        return 1;
    int64_t by = r->to - it->total;
    int rc = by == 0 ? 0 : it->total != r->seen ? 3 : it->free + by < 0 ? 2 : 0;
    if (rc == 0 && by != 0) {
        it->total += by;
        it->free += by;
        it->version.seq++;
        mem_store_publish(c->port, it);
    }
    r->total = it->total;
    r->free = it->free;
    return rc;
}

void mem_stock_set_total(struct stock *s, struct stock_set_total *r)
{
    start(s, MEM_STOCK_SET_TOTAL, &r->op, sizeof *r, apply_set_total);
}

/* --- a test's hand --- */

static struct mem_item *existing(struct stock *s, struct item item)
{
    struct mem_item *it = mem_store_item(mem_stock_store(s), item);
    if (!it)
        panic("mem_stock: no item %lld:%lld", (long long)item.activity_id, (long long)item.sku_id);
    return it;
}

void mem_stock_add_free(struct stock *s, struct item item, int64_t by)
{
    existing(s, item)->free += by;
}

void mem_stock_remove_buyer(struct stock *s, struct item item, int64_t user_id)
{
    mem_store_remove_buyer(existing(s, item), user_id);
}

void mem_stock_put_buyer(struct stock *s, struct item item, const struct reservation *r)
{
    mem_store_set_buyer(existing(s, item), r->user_id, &r->reservation_id, r->order_id,
                        &r->request_id);
}

void mem_stock_forget_pending(struct stock *s, struct item item, int64_t user_id)
{
    list_for_each (l, &existing(s, item)->records) {
        struct mem_record *rec = container_of(l, struct mem_record, link);
        rec->pending &= rec->r.user_id != user_id;
    }
}

void mem_stock_break_item(struct stock *s, struct item item, const char *key)
{
    existing(s, item)->broken = key;
}
