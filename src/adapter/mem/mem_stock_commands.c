/* Remembered commands in the fake (rule 27): remember, remembered and forget of lua/ in plain C. */
#include "adapter/mem/mem_store.h"
#include "base/panic.h"
#include <stdlib.h>

static struct mem_remembered *find(const struct mem_item *it, const struct uuid *message_id)
{
    list_for_each (l, &it->commands) {
        struct mem_remembered *c = container_of(l, struct mem_remembered, link);
        if (uuid_eq(&c->command.message_id, message_id))
            return c;
    }
    return NULL;
}

static int count(const struct mem_item *it)
{
    int n = 0;
    list_for_each (l, &it->commands)
        n++;
    return n;
}

static int apply_remember(struct mem_call *c, void *request)
{
    const struct stock_remember *r = request;
    struct mem_item *it = mem_store_item(c->port, r->item);
    if (!it || !it->meta)
        return 1;
    if (find(it, &r->message_id))
        return 0;
    if (count(it) >= r->most)
        return 2;
    struct mem_remembered *m = mem_alloc(sizeof *m);
    m->at_ms = mem_store_now_ms(c->port);
    m->command.message_id = r->message_id;
    m->command.body_len = r->body.len;
    memcpy(m->command.body, r->body.ptr, r->body.len);
    list_push_back(&it->commands, &m->link);
    return 0;
}

static void before_remember(struct mem_call *c, void *request, void *callers)
{
    struct stock_remember *copy = request;
    const struct stock_remember *theirs = callers;
    (void)c;
    copy->body = theirs->body;
}

void mem_op_remember(struct stock *s, struct stock_remember *r)
{
    if (r->body.len > EVENT_MAX_BYTES)
        panic("remember: %zu bytes", r->body.len);
    struct mem_call *c = mem_stock_start(s, MEM_STOCK_REMEMBER, &r->op, sizeof *r, apply_remember);
    struct stock_remember *copy = (struct stock_remember *)c->request;
    char *body = c->aux = mem_alloc(r->body.len + 1);
    memcpy(body, r->body.ptr, r->body.len);
    copy->body = (struct str){body, r->body.len};
    c->before_answer = before_remember;
}

/* The caller's array may be gone when a late call arrives: this reads when it answers. */
static int apply_remembered(struct mem_call *c, void *request)
{
    (void)c;
    (void)request;
    return 0;
}

static void before_remembered(struct mem_call *c, void *request, void *callers)
{
    struct stock_remembered *r = request;
    const struct mem_item *it = mem_store_item(c->port, r->item);
    bool more = false;
    (void)callers;
    r->n = r->unreadable = 0;
    if (it) {
        list_for_each (l, &it->commands) {
            const struct mem_remembered *m = container_of(l, struct mem_remembered, link);
            if (m->at_ms >= r->before_ms)
                continue;
            more = r->n == STOCK_REMEMBERED_MAX;
            if (more)
                break;
            r->rows[r->n++] = m->command;
        }
    }
    r->more = more;
}

void mem_op_remembered(struct stock *s, struct stock_remembered *r)
{
    mem_stock_start(s, MEM_STOCK_REMEMBERED, &r->op, sizeof *r, apply_remembered)->before_answer =
        before_remembered;
}

static int apply_forget(struct mem_call *c, void *request)
{
    const struct stock_forget *r = request;
    const struct mem_item *it = mem_store_item(c->port, r->item);
    for (int i = 0; it && i < r->n; i++) {
        struct mem_remembered *m = find(it, &r->message_ids[i]);
        if (m) {
            list_remove(&m->link);
            free(m);
        }
    }
    return 0;
}

static void before_forget(struct mem_call *c, void *request, void *callers)
{
    struct stock_forget *copy = request;
    const struct stock_forget *theirs = callers;
    (void)c;
    copy->message_ids = theirs->message_ids;
}

void mem_op_forget(struct stock *s, struct stock_forget *r)
{
    if (r->n < 1 || r->n > STOCK_FORGET_MAX)
        panic("forget: %d", r->n);
    struct mem_call *c = mem_stock_start(s, MEM_STOCK_FORGET, &r->op, sizeof *r, apply_forget);
    struct stock_forget *copy = (struct stock_forget *)c->request;
    struct uuid *ids = c->aux = mem_alloc((size_t)r->n * sizeof *ids);
    memcpy(ids, r->message_ids, (size_t)r->n * sizeof *ids);
    copy->message_ids = ids;
    c->before_answer = before_forget;
}

int mem_stock_remembered(struct stock *s, struct item item)
{
    const struct mem_item *it = mem_store_item(mem_stock_store(s), item);
    return it ? count(it) : 0;
}
