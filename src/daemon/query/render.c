/* The bodies of 200. Ids of orders are text: JSON's numbers end at 2^53. */
#include "base/parse.h"
#include "daemon/query/query.h"

static void add_uuid(struct strbuf *b, const char *name, const struct uuid *u)
{
    strbuf_add_str(b, str_of(name));
    uuid_add(b, u);
    strbuf_add_char(b, '"');
}

static void add_time(struct strbuf *b, const char *name, int64_t ms)
{
    strbuf_add_str(b, str_of(name));
    char *at = strbuf_reserve(b, 25);
    if (!at)
        return;
    size_t n = parse_format_time_ms(at, ms);
    at[n] = '"';
    strbuf_commit(b, n + 1);
}

static void add_number(struct strbuf *b, const char *name, int64_t v)
{
    strbuf_add_str(b, str_of(name));
    strbuf_add_i64(b, v);
}

static void add_word(struct strbuf *b, const char *name, struct str word)
{
    strbuf_add_str(b, str_of(name));
    strbuf_add_str(b, word);
    strbuf_add_char(b, '"');
}

static void add_order_id(struct strbuf *b, const char *name, int64_t id)
{
    add_number(b, name, id);
    strbuf_add_char(b, '"');
}

void render_request(struct strbuf *b, const struct lookup_answer *a)
{
    add_uuid(b, "{\"request_id\":\"", &a->request_id);
    add_number(b, ",\"activity_id\":", a->item.activity_id);
    add_number(b, ",\"sku_id\":", a->item.sku_id);
    add_word(b, ",\"state\":\"", verdict_state_name(a->verdict.state));
    if (a->verdict.reason != REASON_NONE)
        add_word(b, ",\"reason\":\"", verdict_reason_name(a->verdict.reason));
    if (!uuid_is_nil(&a->reservation_id))
        add_uuid(b, ",\"reservation_id\":\"", &a->reservation_id);
    if (a->order_id)
        add_order_id(b, ",\"order_id\":\"", a->order_id);
    if (a->created_at_ms > 0)
        add_time(b, ",\"created_at\":\"", a->created_at_ms);
    if (a->cancel_refused && a->verdict.state == VERDICT_SUCCEEDED)
        add_word(b, ",\"cancel\":\"", STR("REFUSED"));
    add_number(b, ",\"version\":", verdict_rank(a->verdict.state));
    strbuf_add_char(b, '}');
}

void render_order(struct strbuf *b, const struct orders_order *o)
{
    add_order_id(b, "{\"order_id\":\"", o->order_id);
    add_number(b, ",\"activity_id\":", o->item.activity_id);
    add_number(b, ",\"sku_id\":", o->item.sku_id);
    add_uuid(b, ",\"request_id\":\"", &o->request_id);
    add_uuid(b, ",\"reservation_id\":\"", &o->reservation_id);
    add_word(b, ",\"status\":\"", str_of(o->status));
    add_time(b, ",\"created_at\":\"", o->created_at_ms);
    add_time(b, ",\"updated_at\":\"", o->updated_at_ms);
    strbuf_add_char(b, '}');
}

void render_item(struct strbuf *b, const struct lookup_answer *a)
{
    const struct stock_item_info *i = &a->info;
    add_number(b, "{\"activity_id\":", a->item.activity_id);
    add_number(b, ",\"sku_id\":", a->item.sku_id);
    add_word(b, ",\"state\":\"", item_view_state_name(item_view_state(i, a->now_ms)));
    add_time(b, ",\"starts_at\":\"", i->starts_ms);
    add_time(b, ",\"ends_at\":\"", i->ends_ms);
    add_number(b, ",\"total\":", i->total);
    add_number(b, ",\"free_about\":", item_view_free_about(i));
    add_number(b, ",\"server_time_ms\":", a->now_ms);
    strbuf_add_char(b, '}');
}
