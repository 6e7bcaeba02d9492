/* The port: each operation is a mem_call whose apply is one of the rules. */
#include "adapter/mem/mem_stock.h"

#include "adapter/mem/mem_store.h"
#include "base/err.h"
#include "base/panic.h"
#include <stdlib.h>

struct mem_stock {
    struct stock port;
    struct mem_store *store;
    struct mem_link link;
    uint64_t connection; /* stock_reserve.connection */
};

static struct mem_stock *of(struct stock *s)
{
    return container_of(s, struct mem_stock, port);
}

struct mem_call *mem_stock_start(struct stock *s, int kind, struct op *op, size_t size,
                                 int (*apply)(struct mem_call *, void *))
{
    return mem_call_start(&of(s)->link, kind, op, size, of(s)->store, apply);
}

/* --- reserve --- */
static int apply_reserve(struct mem_call *c, void *request)
{
    struct stock_reserve *r = request;
    r->sent_us = c->submitted_us;
    return mem_rules_reserve(c->port, r, str_of(c->aux));
}

/* The event is encoded at once: trace fields are borrowed only until on_done. */
static char *open_event(const struct stock_reserve *r)
{
    struct event e = {.message_id = r->message_id,
                      .request_id = r->request_id,
                      .reservation_id = r->reservation_id,
                      .item = r->item,
                      .user_id = r->user_id,
                      .order_id = r->order_id,
                      .created_at_us = r->created_at_us,
                      .schema_version = EVENT_SCHEMA_VERSION,
                      .traceparent = r->traceparent,
                      .tracestate = r->tracestate};
    struct strbuf b;
    strbuf_init(&b, EVENT_MAX_BYTES);
    event_encode(&e, true, &b);
    strbuf_add_char(&b, '\0');
    if (b.failed)
        panic("mem_stock: the event does not fit");
    return b.ptr;
}

static void op_reserve(struct stock *s, struct stock_reserve *r)
{
    r->connection = of(s)->connection;
    r->asked_witness = r->past.witness_user && r->past.checked_connection != r->connection;
    struct mem_call *c = mem_stock_start(s, MEM_STOCK_RESERVE, &r->op, sizeof *r, apply_reserve);
    c->aux = of(s)->store->stream ? open_event(r) : mem_alloc(1);
}

/* --- settle, progress --- */
static int apply_settle(struct mem_call *c, void *request)
{
    return mem_rules_settle(c->port, request);
}

static int apply_progress(struct mem_call *c, void *request)
{
    return mem_rules_progress(c->port, request);
}

static void before_settled(struct mem_call *c, void *request, void *callers)
{
    struct stock_settle *copy = request, *theirs = callers;
    (void)c;
    for (int i = 0; i < copy->n; i++)
        theirs->rows[i].result = copy->rows[i].result;
    copy->rows = theirs->rows;
}

static void start_rows(struct stock *s, int kind, struct stock_settle *r,
                       int (*apply)(struct mem_call *, void *))
{
    if (r->n < 1 || r->n > 256)
        panic("stock settle: %d rows", r->n);
    struct mem_call *c = mem_stock_start(s, kind, &r->op, sizeof *r, apply);
    struct stock_settle *copy = (struct stock_settle *)c->request;
    c->aux = copy->rows = mem_alloc((size_t)r->n * sizeof *r->rows);
    memcpy(copy->rows, r->rows, (size_t)r->n * sizeof *r->rows);
    c->before_answer = before_settled;
}

static void op_settle(struct stock *s, struct stock_settle *r)
{
    start_rows(s, MEM_STOCK_SETTLE, r, apply_settle);
}

static void op_progress(struct stock *s, struct stock_settle *r)
{
    start_rows(s, MEM_STOCK_PROGRESS, r, apply_progress);
}

/* --- mark, release, claim, republished --- */
static int apply_mark(struct mem_call *c, void *request)
{
    return mem_rules_mark(c->port, request);
}

static int apply_refuse(struct mem_call *c, void *request)
{
    return mem_rules_refuse(c->port, request);
}

static void op_refuse(struct stock *s, struct stock_refuse *r)
{
    mem_stock_start(s, MEM_STOCK_REFUSE, &r->op, sizeof *r, apply_refuse);
}

static void op_mark(struct stock *s, struct stock_mark *r)
{
    mem_stock_start(s, MEM_STOCK_MARK, &r->op, sizeof *r, apply_mark);
}

static int apply_release(struct mem_call *c, void *request)
{
    return mem_rules_release(c->port, request);
}

static void op_release(struct stock *s, struct stock_release *r)
{
    mem_stock_start(s, MEM_STOCK_RELEASE, &r->op, sizeof *r, apply_release);
}

static int apply_claim(struct mem_call *c, void *request)
{
    return mem_rules_claim(c->port, request);
}

static void op_claim(struct stock *s, struct stock_claim *r)
{
    mem_stock_start(s, MEM_STOCK_CLAIM, &r->op, sizeof *r, apply_claim);
}

static int apply_republished(struct mem_call *c, void *request)
{
    return mem_rules_republished(c->port, request);
}

static void op_republished(struct stock *s, struct stock_republished *r)
{
    mem_stock_start(s, MEM_STOCK_REPUBLISHED, &r->op, sizeof *r, apply_republished);
}

/* --- reads --- */
static int apply_lookup(struct mem_call *c, void *request)
{
    struct stock_lookup *r = request;
    struct mem_item *it = mem_store_item(c->port, r->item);
    struct mem_record *rec = it ? mem_store_record(it, r->user_id, &r->request_id) : NULL;
    r->now_ms = mem_store_now_ms(c->port);
    r->version = it && it->meta ? it->version : (struct item_version){0};
    if (!rec)
        return 1;
    r->found = rec->r;
    return 0;
}

static void op_lookup(struct stock *s, struct stock_lookup *r)
{
    mem_stock_start(s, MEM_STOCK_LOOKUP, &r->op, sizeof *r, apply_lookup);
}

static int apply_pending(struct mem_call *c, void *request)
{
    struct stock_pending *r = request;
    struct mem_item *it = mem_store_item(c->port, r->item);
    int skip = r->offset;
    r->n = 0;
    r->total = 0;
    r->now_ms = mem_store_now_ms(c->port);
    if (!it)
        return 0;
    list_for_each (l, &it->records) {
        const struct mem_record *rec = container_of(l, struct mem_record, link);
        r->total += rec->pending;
        if (!rec->pending || rec->r.created_at_ms >= r->before_ms || r->n == r->max || skip-- > 0)
            continue;
        r->results[r->n] = rec->result;
        struct reservation *row = &r->rows[r->n++];
        *row = (struct reservation){0};
        if (rec->result == STOCK_ROW_GOOD) {
            *row = rec->r;
        } else if (rec->result == STOCK_ROW_GONE) {
            row->user_id = rec->r.user_id;
            row->request_id = rec->r.request_id;
            row->created_at_ms = rec->r.created_at_ms;
        }
    }
    return 0;
}

static void op_pending(struct stock *s, struct stock_pending *r)
{
    if (r->max < 1 || r->max > STOCK_PENDING_MAX)
        panic("stock pending: max %d", r->max);
    mem_stock_start(s, MEM_STOCK_PENDING, &r->op, sizeof *r, apply_pending);
}

static int apply_item(struct mem_call *c, void *request)
{
    struct stock_item_get *r = request;
    struct mem_item *it = mem_store_item(c->port, r->item);
    r->listed = mem_store_listed(c->port, r->item);
    if (!it || !it->meta)
        return 1;
    mem_store_info(c->port, it, &r->info);
    return 0;
}

static void op_item(struct stock *s, struct stock_item_get *r)
{
    mem_stock_start(s, MEM_STOCK_ITEM, &r->op, sizeof *r, apply_item);
}

static int apply_nothing(struct mem_call *c, void *request)
{
    (void)c;
    (void)request;
    return 0;
}

/* Borrowed arrays may be gone when a late call arrives: these read when they answer. Pages of 500:
 * the cursor is the place in the list. */
static void before_items(struct mem_call *c, void *request, void *callers)
{
    struct stock_items *r = request;
    const struct mem_store *st = c->port;
    long skip = strtol(r->cursor, NULL, 10), next = skip;
    bool more = false;
    (void)callers;
    r->n = 0;
    list_for_each (l, &st->items) {
        const struct mem_item *it = container_of(l, struct mem_item, link);
        if (skip-- > 0)
            continue;
        if (r->n == STOCK_ITEMS_PAGE / 2) {
            more = true;
            break;
        }
        next++;
        if (it->listed)
            r->items[r->n++] = it->item;
    }
    r->cursor[str_from_i64(r->cursor, more ? next : 0)] = '\0';
}

static void op_items(struct stock *s, struct stock_items *r)
{
    mem_stock_start(s, MEM_STOCK_ITEMS, &r->op, sizeof *r, apply_nothing)->before_answer =
        before_items;
}

/* Pages of 1,000: the cursor is the place in the table. */
static void before_buyers(struct mem_call *c, void *request, void *callers)
{
    struct stock_buyers *r = request;
    struct mem_item *it = mem_store_item(c->port, r->item);
    size_t at = (size_t)strtoull(r->cursor, NULL, 10);
    uint64_t user, value;
    int most = r->max < 1000 ? r->max : 1000;
    bool more = it != NULL;
    (void)callers;
    r->n = 0;
    while (r->n < most && more) {
        more = map_next(&it->buyers, &at, &user, &value);
        if (more)
            r->users[r->n++] = (int64_t)user;
    }
    r->cursor[str_from_u64(r->cursor, more ? at : 0)] = '\0';
}

static void op_buyers(struct stock *s, struct stock_buyers *r)
{
    mem_stock_start(s, MEM_STOCK_BUYERS, &r->op, sizeof *r, apply_nothing)->before_answer =
        before_buyers;
}

/* --- operators' calls --- */
static int apply_warm(struct mem_call *c, void *request)
{
    return mem_rules_warm(c->port, request);
}

static void op_warm(struct stock *s, struct stock_warm *r)
{
    mem_stock_start(s, MEM_STOCK_WARM, &r->op, sizeof *r, apply_warm);
}

static int apply_control(struct mem_call *c, void *request)
{
    return mem_rules_control(c->port, request);
}

static void op_control(struct stock *s, struct stock_control *r)
{
    mem_stock_start(s, MEM_STOCK_CONTROL, &r->op, sizeof *r, apply_control);
}

static int apply_report(struct mem_call *c, void *request)
{
    return mem_rules_report(c->port, request);
}

static void op_report(struct stock *s, struct stock_report *r)
{
    mem_stock_start(s, MEM_STOCK_REPORT, &r->op, sizeof *r, apply_report);
}

static int apply_slot(struct mem_call *c, void *request)
{
    return mem_rules_slot(c->port, request);
}

static void op_slot_lease(struct stock *s, struct stock_slot_lease *r)
{
    if (r->slot < 0 || r->slot >= ORDER_ID_INSTANCES)
        panic("slot lease: slot %d", r->slot);
    mem_stock_start(s, MEM_STOCK_SLOT_LEASE, &r->op, sizeof *r, apply_slot);
}

static void op_probe(struct stock *s, struct stock_probe *r)
{
    mem_stock_start(s, MEM_STOCK_PROBE, &r->op, sizeof *r, apply_nothing);
}

static void op_cancel(struct stock *s, struct op *op)
{
    mem_call_cancel(&of(s)->link, op);
}

static const struct stock_ops ops = {
    .reserve = op_reserve,
    .settle = op_settle,
    .progress = op_progress,
    .mark = op_mark,
    .refuse = op_refuse,
    .remember = mem_op_remember,
    .remembered = mem_op_remembered,
    .forget = mem_op_forget,
    .release = op_release,
    .claim = op_claim,
    .republished = op_republished,
    .lookup = op_lookup,
    .pending = op_pending,
    .item = op_item,
    .items = op_items,
    .unlist = mem_op_unlist,
    .relist = mem_op_relist,
    .reports = mem_op_reports,
    .unreport = mem_op_unreport,
    .rebuild_begin = mem_op_rebuild_begin,
    .rebuild_restore = mem_op_rebuild_restore,
    .rebuild_end = mem_op_rebuild_end,
    .buyers = op_buyers,
    .warm = op_warm,
    .control = op_control,
    .report = op_report,
    .slot_lease = op_slot_lease,
    .probe = op_probe,
    .inspect = mem_stock_inspect,
    .holders = mem_stock_holders,
    .held = mem_stock_held,
    .mend = mem_stock_mend,
    .lower = mem_stock_lower,
    .set_total = mem_stock_set_total,
    .cancel = op_cancel,
};

static struct stock *port_on(struct mem_store *st, int64_t latency_us)
{
    struct mem_stock *m = mem_alloc(sizeof *m);
    m->port.ops = &ops;
    m->store = st;
    m->connection = ++st->connections;
    st->ports++;
    mem_link_init(&m->link, st->sched, latency_us);
    return &m->port;
}

struct stock *mem_stock_new(const struct mem_stock_config *c)
{
    return port_on(mem_store_new(c->sched, c->stream), c->latency_us);
}

struct stock *mem_stock_another(struct stock *s)
{
    return port_on(of(s)->store, of(s)->link.latency_us);
}

void mem_stock_free(struct stock *s)
{
    struct mem_stock *m = of(s);
    mem_link_deinit(&m->link);
    if (--m->store->ports == 0)
        mem_store_free(m->store);
    free(m);
}

struct mem_faults *mem_stock_faults(struct stock *s)
{
    return &of(s)->link.faults;
}

struct mem_link *mem_stock_link(struct stock *s)
{
    return &of(s)->link;
}

void mem_stock_reconnect(struct stock *s)
{
    of(s)->connection = ++of(s)->store->connections;
}

struct mem_store *mem_stock_store(struct stock *s)
{
    return of(s)->store;
}
