#include "core/result.h"

#include "base/json.h"
#include "base/parse.h"
#include <stdio.h>

static void add_id(struct strbuf *out, const char *name, const struct uuid *u)
{
    strbuf_printf(out, ",\"%s\":\"%s\"", name, uuid_text(u).z);
}

void result_encode(const struct result *r, struct strbuf *out)
{
    char decided[32];
    struct str at = {decided, parse_format_time_ms(decided, r->decided_at_ms)};
    strbuf_printf(out, "{\"schema_version\":%d,\"result_id\":\"%lld\",\"event_type\":",
                  RESULT_SCHEMA_VERSION, (long long)r->id);
    json_add_string(out, str_of(r->event));
    add_id(out, "message_id", &r->message_id);
    add_id(out, "request_id", &r->request_id);
    add_id(out, "reservation_id", &r->reservation_id);
    strbuf_printf(out, ",\"activity_id\":%lld,\"sku_id\":%lld,\"user_id\":%lld",
                  (long long)r->item.activity_id, (long long)r->item.sku_id, (long long)r->user_id);
    /* Text: a reader with doubles would round it. */
    if (r->order_id)
        strbuf_printf(out, ",\"order_id\":\"%lld\"", (long long)r->order_id);
    else
        strbuf_add_str(out, STR(",\"order_id\":null"));
    strbuf_printf(out,
                  ",\"state\":\"" STR_FMT "\",\"reason\":\"" STR_FMT
                  "\",\"version\":%d,\"decided_at\":\"" STR_FMT "\"}",
                  STR_ARG(verdict_state_name(r->verdict.state)),
                  STR_ARG(verdict_reason_name(r->verdict.reason)), verdict_rank(r->verdict.state),
                  STR_ARG(at));
}

int64_t result_order(struct verdict verdict, int64_t own, int64_t other)
{
    if (verdict.state != VERDICT_SUCCEEDED && verdict.state != VERDICT_CANCELLED)
        return 0;
    return other ? other : own;
}

struct uuid result_key(const struct result *r)
{
    char name[64];
    int n = snprintf(name, sizeof name, "result %lld %s", (long long)r->id,
                     uuid_text(&r->message_id).z);
    return uuid_v5((struct str){name, (size_t)n});
}
