/* On the hot path of every accepted order: one reservation of space, then copies; no printf. */
#include "base/json.h"
#include "base/parse.h"
#include "core/event.h"

/* Everything but the trace: the names are about 300 bytes, three identifiers and one key 160, eight
 * numbers 160. */
#define HEAD_MAX 768
#define TAIL_MAX 64
/* Of a command: its name, a payment's id and time, and their names. */
#define COMMAND_MAX (128 + EVENT_PAYMENT_ID_MAX)
/* A trace value as it stands in the body, quotes included. The whole stays below EVENT_MAX_BYTES.
 */
#define TRACE_TEXT_MAX (2 * EVENT_TRACE_MAX + 2)

_Static_assert(HEAD_MAX + 2 * TRACE_TEXT_MAX + 2 * TAIL_MAX + COMMAND_MAX <= EVENT_MAX_BYTES,
               "the bound holds");

#define PUT(at, literal) put(at, literal, sizeof(literal) - 1)

static inline char *put(char *at, const char *bytes, size_t n)
{
    memcpy(at, bytes, n);
    return at + n;
}

static inline char *put_uuid(char *at, const struct uuid *u)
{
    uuid_format(u, at);
    return at + UUID_TEXT;
}

static inline char *put_i64(char *at, int64_t v)
{
    return at + str_from_i64(at, v);
}

static char *put_time_us(char *at, int64_t us)
{
    at += parse_format_time_ms(at, us / 1000) - 1; /* over its Z */
    int rest = (int)(us % 1000);
    *at++ = (char)('0' + rest / 100);
    *at++ = (char)('0' + rest / 10 % 10);
    *at++ = (char)('0' + rest % 10);
    *at++ = 'Z';
    return at;
}

static bool plain(struct str s)
{
    for (size_t i = 0; i < s.len; i++) {
        unsigned char c = (unsigned char)s.ptr[i];
        if (c < 0x20 || c > 0x7e || c == '"' || c == '\\')
            return false;
    }
    return true;
}

/* Its length inside the quotes. */
static size_t escaped_len(struct str s)
{
    char text[JSON_ESCAPE_MAX];
    size_t n = 0;
    for (size_t at = 0; at < s.len;)
        n += json_escape_next(s, &at, text);
    return n;
}

static void add_trace(struct strbuf *out, struct str s)
{
    if (s.len > EVENT_TRACE_MAX || (!plain(s) && escaped_len(s) + 2 > TRACE_TEXT_MAX))
        s = STR("");
    if (!plain(s)) {
        json_add_string(out, s);
        return;
    }
    char *start = strbuf_reserve(out, s.len + 2), *at = start;
    if (!at)
        return;
    *at++ = '"';
    if (s.len)
        at = put(at, s.ptr, s.len);
    *at++ = '"';
    strbuf_commit(out, (size_t)(at - start));
}

static void add_command(struct strbuf *out, const struct event *e)
{
    strbuf_add_str(out, STR(",\"command\":\""));
    strbuf_add_str(out, str_of(event_command_name(e->command)));
    strbuf_add_char(out, '"');
    if (e->command == EVENT_PAY) {
        strbuf_add_str(out, STR(",\"payment_id\":"));
        json_add_string(out, e->payment_id);
        strbuf_add_str(out, STR(",\"accepted_at\":\""));
        char text[32];
        strbuf_add(out, text, (size_t)(put_time_us(text, e->accepted_at_ms * 1000) - text));
        strbuf_add_char(out, '"');
    }
    strbuf_add_char(out, '}');
}

void event_encode(const struct event *e, bool open, struct strbuf *out)
{
    char *start = strbuf_reserve(out, HEAD_MAX), *at = start;
    if (!at)
        return;
    at = PUT(at, "{\"message_id\":\"");
    at = put_uuid(at, &e->message_id);
    at = PUT(at, "\",\"message_key\":\"");
    at = put_i64(at, e->item.activity_id);
    *at++ = ':';
    at = put_i64(at, e->item.sku_id);
    *at++ = ':';
    at = put_uuid(at, &e->reservation_id);
    at = PUT(at, "\",\"request_id\":\"");
    at = put_uuid(at, &e->request_id);
    at = PUT(at, "\",\"reservation_id\":\"");
    at = put_uuid(at, &e->reservation_id);
    at = PUT(at, "\",\"activity_id\":");
    at = put_i64(at, e->item.activity_id);
    at = PUT(at, ",\"sku_id\":");
    at = put_i64(at, e->item.sku_id);
    at = PUT(at, ",\"user_id\":");
    at = put_i64(at, e->user_id);
    at = PUT(at, ",\"order_id\":");
    at = put_i64(at, e->order_id);
    at = PUT(at, ",\"schema_version\":");
    at = put_i64(at, e->schema_version);
    at = PUT(at, ",\"created_at\":\"");
    at = put_time_us(at, e->created_at_us);
    at = PUT(at, "\",\"retry_count\":");
    at = put_i64(at, e->retry_count);
    at = PUT(at, ",\"trace\":{\"traceparent\":");
    strbuf_commit(out, (size_t)(at - start));
    add_trace(out, e->traceparent);
    strbuf_add_str(out, STR(",\"tracestate\":"));
    add_trace(out, e->tracestate);
    start = at = strbuf_reserve(out, 2 * TAIL_MAX);
    if (!at)
        return;
    *at++ = '}';
    if (!open) {
        at = PUT(at, ",\"epoch\":");
        at = put_i64(at, e->version.epoch);
        at = PUT(at, ",\"seq\":");
        at = put_i64(at, e->version.seq);
        if (e->command == EVENT_CREATE)
            *at++ = '}';
    }
    strbuf_commit(out, (size_t)(at - start));
    if (!open && e->command != EVENT_CREATE)
        add_command(out, e);
}

struct str event_trace_id(struct str traceparent)
{
    /* "00-" 32 digits "-" … */
    return traceparent.len < 36 ? (struct str){NULL, 0} : (struct str){traceparent.ptr + 3, 32};
}
