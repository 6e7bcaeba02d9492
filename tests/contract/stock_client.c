#include "stock_client.h"

#include "base/panic.h"
#include <stdlib.h>

#define PATIENCE_US 60000000
#define OP_US 20000000

static bool over;
static int result;

static void on_done(struct op *op, int rc)
{
    (void)op;
    if (over)
        panic("an operation completed twice");
    over = true;
    result = rc;
    backend_wake();
}

static struct op begin(void)
{
    over = false;
    return (struct op){on_done, backend_now_us() + OP_US};
}

static int end(void)
{
    if (over)
        panic("an operation completed inside its submission");
    if (!backend_run(&over, PATIENCE_US))
        panic("an operation never completed");
    return result;
}

#define RUN(what, o)                                                                               \
    do {                                                                                           \
        (o)->op = begin();                                                                         \
        backend_stock()->ops->what(backend_stock(), (o));                                          \
        return end();                                                                              \
    } while (0)

struct uuid client_uuid(int64_t kind, int64_t number)
{
    struct uuid u = {{(uint8_t)kind}};
    for (int i = 0; i < 8; i++)
        u.b[15 - i] = (uint8_t)(number >> 8 * i);
    u.b[6] = 0x70;
    return u;
}

int64_t client_store_ms(void)
{
    struct stock_lookup l = {.op = begin(), .item = {1, 1}, .user_id = 1};
    backend_stock()->ops->lookup(backend_stock(), &l);
    assert_true(end() >= 0);
    return l.now_ms;
}

int client_warm(struct item item, int64_t total, int64_t starts_in_ms, int64_t ends_in_ms)
{
    int64_t now = client_store_ms();
    struct stock_warm w = {.item = item,
                           .epoch = 1,
                           .total = total,
                           .starts_ms = now + starts_in_ms,
                           .ends_ms = now + ends_in_ms,
                           .expires_ms = now + 3 * DAY_MS};
    RUN(warm, &w);
}

int client_control(struct item item, enum stock_state to)
{
    struct stock_control c = {.item = item, .to = to};
    RUN(control, &c);
}

struct item client_sale(int64_t total)
{
    struct item item = backend_item();
    assert_int_equal(client_warm(item, total, 0, DAY_MS), 0);
    assert_int_equal(client_control(item, STOCK_STATE_OPEN), 0);
    return item;
}

static int reserve(struct item item, int64_t user, int64_t request, int64_t n, int64_t give_up_us,
                   struct stock_past past, struct stock_reserve *r)
{
    *r = (struct stock_reserve){.item = item,
                                .user_id = user,
                                .order_id = n,
                                .request_id = REQUEST(request),
                                .reservation_id = RESERVATION(n),
                                .message_id = client_uuid(3, n),
                                .created_at_us = 1780000000000000,
                                .traceparent = STR(""),
                                .tracestate = STR(""),
                                .give_up_us = give_up_us,
                                .past = past};
    RUN(reserve, r);
}

int client_reserve_until(struct item item, int64_t user, int64_t request, int64_t n,
                         int64_t give_up_us, struct stock_reserve *r)
{
    return reserve(item, user, request, n, give_up_us, (struct stock_past){0}, r);
}

int client_reserve(struct item item, int64_t user, int64_t request, int64_t n,
                   struct stock_reserve *r)
{
    return client_reserve_until(item, user, request, n, backend_now_us() + OP_US, r);
}

int client_reserve_past(struct item item, int64_t user, int64_t n, struct stock_past past,
                        struct stock_reserve *r)
{
    return reserve(item, user, n, n, backend_now_us() + OP_US, past, r);
}

struct stock_settle_row client_row(int64_t user, int64_t request, int64_t n, struct verdict v,
                                   bool give_back)
{
    return (struct stock_settle_row){.user_id = user,
                                     .request_id = REQUEST(request),
                                     .reservation_id = RESERVATION(n),
                                     .verdict = v,
                                     .give_back = give_back};
}

int client_settle(struct item item, struct stock_settle_row *rows, int n,
                  struct item_version *version)
{
    struct stock_settle s = {.op = begin(), .item = item, .rows = rows, .n = n};
    backend_stock()->ops->settle(backend_stock(), &s);
    int rc = end();
    if (version)
        *version = s.version;
    return rc;
}

enum stock_settled client_settle_one(struct item item, struct stock_settle_row row)
{
    assert_int_equal(client_settle(item, &row, 1, NULL), 0);
    return row.result;
}

int client_progress(struct item item, struct stock_settle_row *rows, int n)
{
    struct stock_settle s = {.item = item, .rows = rows, .n = n};
    RUN(progress, &s);
}

int client_mark(struct item item, int64_t user, int64_t request, int64_t n,
                enum reservation_status to)
{
    struct stock_mark m = {.item = item,
                           .user_id = user,
                           .request_id = REQUEST(request),
                           .reservation_id = RESERVATION(n),
                           .to = to};
    RUN(mark, &m);
}

int client_release(struct item item, int64_t user, int64_t request, int64_t n,
                   struct item_version *version)
{
    struct stock_release r = {.op = begin(),
                              .item = item,
                              .user_id = user,
                              .request_id = REQUEST(request),
                              .reservation_id = RESERVATION(n)};
    backend_stock()->ops->release(backend_stock(), &r);
    int rc = end();
    *version = r.version;
    return rc;
}

int client_claim(struct item item, int64_t user, int64_t request, int64_t n,
                 struct reservation *found)
{
    struct stock_claim c = {.op = begin(),
                            .item = item,
                            .user_id = user,
                            .request_id = REQUEST(request),
                            .reservation_id = RESERVATION(n)};
    backend_stock()->ops->claim(backend_stock(), &c);
    int rc = end();
    *found = c.found;
    return rc;
}

int client_republished(struct item item, int64_t user, int64_t request, int64_t n,
                       const char *queue_id)
{
    struct stock_republished r = {.item = item,
                                  .user_id = user,
                                  .request_id = REQUEST(request),
                                  .reservation_id = RESERVATION(n)};
    str_copy(r.queue_id, sizeof r.queue_id, str_of(queue_id));
    RUN(republished, &r);
}

int client_refuse(struct item item, int64_t user, int64_t request, int64_t n)
{
    struct stock_refuse r = {.item = item,
                             .user_id = user,
                             .request_id = REQUEST(request),
                             .reservation_id = RESERVATION(n)};
    RUN(refuse, &r);
}

int client_remember(struct item item, int64_t n, const char *body)
{
    struct stock_remember r = {
        .item = item, .message_id = RESERVATION(n), .body = str_of(body), .most = 40};
    RUN(remember, &r);
}

int client_remembered(struct item item, int64_t before_ms, struct stock_remembered *r)
{
    r->op = begin();
    r->item = item;
    r->before_ms = before_ms;
    backend_stock()->ops->remembered(backend_stock(), r);
    return end();
}

int client_forget(struct item item, int64_t n)
{
    struct uuid id = RESERVATION(n);
    struct stock_forget r = {.item = item, .message_ids = &id, .n = 1};
    RUN(forget, &r);
}

int client_lookup(struct item item, int64_t user, int64_t request, struct reservation *found)
{
    struct stock_lookup l = {
        .op = begin(), .item = item, .user_id = user, .request_id = REQUEST(request)};
    backend_stock()->ops->lookup(backend_stock(), &l);
    int rc = end();
    *found = l.found;
    return rc;
}

int client_pending(struct item item, int64_t before_ms, int offset, int max,
                   struct stock_pending *p)
{
    p->item = item;
    p->before_ms = before_ms;
    p->offset = offset;
    p->max = max;
    RUN(pending, p);
}

int client_item(struct item item, struct stock_item_get *g)
{
    *g = (struct stock_item_get){.item = item};
    RUN(item, g);
}

int client_items(struct item *items, int max, int *n)
{
    static struct item page[STOCK_ITEMS_PAGE];
    struct stock_items i = {.cursor = "0", .items = page, .max = STOCK_ITEMS_PAGE};
    *n = 0;
    do {
        i.op = begin();
        backend_stock()->ops->items(backend_stock(), &i);
        int rc = end();
        if (rc < 0)
            return rc;
        for (int k = 0; k < i.n; k++) {
            int at = 0; /* one may come twice */
            while (at < *n && !item_eq(items[at], page[k]))
                at++;
            assert_true(at < max);
            items[at] = page[k];
            *n += at == *n;
        }
    } while (strcmp(i.cursor, "0") != 0);
    return 0;
}

int client_unlist(struct item item)
{
    struct stock_unlist u = {.item = item};
    RUN(unlist, &u);
}

int client_report(struct item item)
{
    struct stock_report r = {.item = item};
    RUN(report, &r);
}

int client_reports(struct item *items, int *n)
{
    static struct stock_reports r;
    r = (struct stock_reports){.op = begin()};
    backend_stock()->ops->reports(backend_stock(), &r);
    int rc = end();
    *n = r.n;
    memcpy(items, r.items, (size_t)r.n * sizeof items[0]);
    return rc;
}

int client_unreport(struct item item)
{
    struct stock_unreport r = {.item = item};
    RUN(unreport, &r);
}

int client_relist(const struct item *items, int n)
{
    struct stock_relist r = {.items = items, .n = n};
    RUN(relist, &r);
}

int client_rebuild_begin(struct item item, int64_t epoch, int64_t total, enum stock_state after,
                         bool *was_there)
{
    int64_t now = client_store_ms();
    struct stock_rebuild_begin r = {.op = begin(),
                                    .item = item,
                                    .epoch = epoch,
                                    .total = total,
                                    .starts_ms = now - 1000,
                                    .ends_ms = now + DAY_MS,
                                    .expires_ms = now + 2 * DAY_MS,
                                    .after = after};
    backend_stock()->ops->rebuild_begin(backend_stock(), &r);
    int rc = end();
    *was_there = r.was_there;
    return rc;
}

int client_rebuild_restore(struct item item, int64_t epoch, int64_t step,
                           const struct stock_hold *rows, int n)
{
    struct stock_rebuild_restore r = {
        .item = item, .epoch = epoch, .step = step, .rows = rows, .n = n};
    RUN(rebuild_restore, &r);
}

int client_rebuild_end(struct item item, int64_t epoch, int64_t step, int64_t free)
{
    struct stock_rebuild_end r = {
        .item = item, .epoch = epoch, .step = step, .total = 10, .free = free};
    RUN(rebuild_end, &r);
}

int client_buyers(struct item item, int64_t *users, int max)
{
    static int64_t page[2048];
    struct stock_buyers b = {.item = item, .cursor = "0", .users = page, .max = 2048};
    int total = 0;
    do {
        b.op = begin();
        backend_stock()->ops->buyers(backend_stock(), &b);
        int rc = end();
        if (rc < 0)
            return rc;
        for (int i = 0; i < b.n; i++) {
            assert_true(total < max);
            users[total++] = page[i];
        }
    } while (strcmp(b.cursor, "0") != 0);
    return total;
}

int client_slot(int slot, const char *nonce, int64_t highest_ms, int64_t ttl_ms, int64_t *floor_ms)
{
    struct stock_slot_lease s = {
        .op = begin(), .slot = slot, .highest_ms = highest_ms, .ttl_ms = ttl_ms};
    str_copy(s.nonce, sizeof s.nonce, str_of(nonce));
    backend_stock()->ops->slot_lease(backend_stock(), &s);
    int rc = end();
    *floor_ms = s.floor_ms;
    return rc;
}

int client_probe(void)
{
    struct stock_probe p = {0};
    RUN(probe, &p);
}

void client_rest(int64_t us)
{
    const bool never = false;
    backend_run(&never, us);
}

/* --- reconciliation --- */

int client_inspect(struct item item, struct stock_inspect *o)
{
    *o = (struct stock_inspect){.item = item};
    RUN(inspect, o);
}

int client_holders(struct item item, struct stock_holder *rows, int max)
{
    static struct stock_holder page[STOCK_HOLDERS_PAGE];
    struct stock_holders h = {.item = item, .cursor = "0", .rows = page};
    int total = 0;
    do {
        h.op = begin();
        backend_stock()->ops->holders(backend_stock(), &h);
        int rc = end();
        if (rc < 0)
            return rc;
        assert_int_equal(h.unreadable, 0);
        for (int i = 0; i < h.n; i++) {
            int at = 0;
            while (at < total && rows[at].user_id != page[i].user_id)
                at++;
            assert_true(at < max);
            rows[at] = page[i];
            total += at == total;
        }
    } while (strcmp(h.cursor, "0") != 0);
    return total;
}

int client_held(struct item item, struct stock_held_row *rows, int n, struct item_version *v)
{
    struct stock_held h = {.op = begin(), .item = item, .rows = rows, .n = n};
    backend_stock()->ops->held(backend_stock(), &h);
    int rc = end();
    *v = h.version;
    return rc;
}

int client_mend(struct item item, int64_t user, int64_t request, int64_t n)
{
    struct stock_mend m = {.item = item,
                           .user_id = user,
                           .request_id = REQUEST(request),
                           .reservation_id = RESERVATION(n)};
    RUN(mend, &m);
}

int client_lower(struct item item, int64_t seen, int64_t to, int64_t *taken)
{
    struct stock_lower l = {.op = begin(), .item = item, .seen = seen, .to = to};
    backend_stock()->ops->lower(backend_stock(), &l);
    int rc = end();
    *taken = l.taken;
    if (rc == 0) {
        struct stock_item_get g;
        assert_int_equal(client_item(item, &g), 0);
        assert_int_equal(g.info.total, l.total);
    }
    return rc;
}

int client_set_total(struct item item, int64_t seen, int64_t to, struct stock_set_total *o)
{
    *o = (struct stock_set_total){.item = item, .seen = seen, .to = to};
    RUN(set_total, o);
}
