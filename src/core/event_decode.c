/* A failure of one field does not end the reading: schema_version may come last, and a newer one
 * explains every other surprise, so it is the reason that is told. */
#include "base/err.h"
#include "base/json.h"
#include "base/parse.h"
#include "core/event.h"

enum field {
    MESSAGE_ID,
    MESSAGE_KEY,
    REQUEST_ID,
    RESERVATION_ID,
    ACTIVITY_ID,
    SKU_ID,
    USER_ID,
    ORDER_ID,
    SCHEMA_VERSION,
    CREATED_AT,
    RETRY_COUNT,
    TRACE,
    EPOCH,
    SEQ,
    COMMAND,
    PAYMENT_ID,
    ACCEPTED_AT,
    FIELDS
};
#define REQUIRED (TRACE + 1)

#define NAMES(n)                                                                                   \
    {                                                                                              \
        STR(n), n " is wrong", n " is missing", n " comes twice"                                   \
    }
static const struct {
    struct str name;
    const char *wrong, *missing, *twice;
} fields[FIELDS] = {
    [MESSAGE_ID] = NAMES("message_id"),
    [MESSAGE_KEY] = NAMES("message_key"),
    [REQUEST_ID] = NAMES("request_id"),
    [RESERVATION_ID] = NAMES("reservation_id"),
    [ACTIVITY_ID] = NAMES("activity_id"),
    [SKU_ID] = NAMES("sku_id"),
    [USER_ID] = NAMES("user_id"),
    [ORDER_ID] = NAMES("order_id"),
    [SCHEMA_VERSION] = NAMES("schema_version"),
    [CREATED_AT] = NAMES("created_at"),
    [RETRY_COUNT] = NAMES("retry_count"),
    [TRACE] = NAMES("trace"),
    [EPOCH] = NAMES("epoch"),
    [SEQ] = NAMES("seq"),
    [COMMAND] = NAMES("command"),
    [PAYMENT_ID] = NAMES("payment_id"),
    [ACCEPTED_AT] = NAMES("accepted_at"),
};

static bool read_text(const struct json *j, enum json_type type, struct str *out)
{
    if (type != JSON_STRING || j->escaped)
        return false;
    *out = j->raw;
    return true;
}

/* Lower case only: a message_id is a primary key elsewhere, as text too, and must have one
 * spelling. */
static bool read_uuid(const struct json *j, enum json_type type, struct uuid *out)
{
    struct str s;
    if (!read_text(j, type, &s) || uuid_parse(s, out))
        return false;
    char again[UUID_TEXT];
    uuid_format(out, again);
    return memcmp(again, s.ptr, UUID_TEXT) == 0;
}

static bool read_int(const struct json *j, enum json_type type, int64_t min, int64_t max,
                     int64_t *out)
{
    return type == JSON_NUMBER && json_i64(j, min, max, out) == 0;
}

/* Also as a decimal string: beyond 2^53 many readers and writers of JSON lose digits. */
static bool read_order_id(const struct json *j, enum json_type type, int64_t *out)
{
    struct str s;
    if (read_text(j, type, &s))
        return parse_i64(s, 1, INT64_MAX, out) == 0;
    return read_int(j, type, 1, INT64_MAX, out);
}

static bool read_time_us(const struct json *j, enum json_type type, int64_t *out)
{
    struct str s;
    int64_t ms;
    if (!read_text(j, type, &s) || parse_time_ms(s, &ms) || ms < 0 || ms > INT64_C(253402300799999))
        return false;
    int us = 0;
    /* parse_time_ms has checked the form: "2026-06-25T12:00:00", then perhaps a fraction. */
    if (s.ptr[19] == '.') {
        for (size_t i = 23, weight = 100; i < 26 && s.ptr[i - 1] >= '0' && s.ptr[i - 1] <= '9' &&
                                          s.ptr[i] >= '0' && s.ptr[i] <= '9';
             i++, weight /= 10)
            us += (int)weight * (s.ptr[i] - '0');
    }
    *out = ms * 1000 + us;
    return true;
}

static bool read_command(const struct json *j, enum json_type type, enum event_command *out)
{
    struct str s;
    if (!read_text(j, type, &s))
        return false;
    for (int c = 0; c < EVENT_COMMANDS; c++) {
        if (str_eq(s, str_of(event_command_name((enum event_command)c)))) {
            *out = (enum event_command)c;
            return true;
        }
    }
    return false;
}

static void keep_trace(const struct json *j, struct str *out)
{
    *out = j->escaped || j->raw.len > EVENT_TRACE_MAX ? STR("") : j->raw;
}

static bool read_trace(struct json *j, enum json_type type, struct event *e)
{
    if (type != JSON_OBJECT) {
        json_skip(j, type);
        return false;
    }
    bool good = true, parent = false, state = false;
    while ((type = json_next(j)) == JSON_KEY) {
        bool is_parent = json_is(j, STR("traceparent")), is_state = json_is(j, STR("tracestate"));
        type = json_next(j);
        if (!is_parent && !is_state) {
            json_skip(j, type);
            continue;
        }
        bool *seen = is_parent ? &parent : &state;
        good = good && !*seen && type == JSON_STRING;
        *seen = true;
        if (type == JSON_STRING)
            keep_trace(j, is_parent ? &e->traceparent : &e->tracestate);
        else
            json_skip(j, type);
    }
    return good;
}

/* Reads one field's value, whose first token is `type`, to its end. False if it is not what it must
 * be. */
static bool read_field(struct json *j, enum json_type type, enum field f, struct event *e,
                       struct str *key)
{
    int64_t v;
    if (f == TRACE)
        return read_trace(j, type, e);
    if (type == JSON_OBJECT || type == JSON_ARRAY) {
        json_skip(j, type);
        return false;
    }
    switch (f) {
    case MESSAGE_ID:
        return read_uuid(j, type, &e->message_id);
    case MESSAGE_KEY:
        return read_text(j, type, key);
    case REQUEST_ID:
        return read_uuid(j, type, &e->request_id);
    case RESERVATION_ID:
        return read_uuid(j, type, &e->reservation_id);
    case ACTIVITY_ID:
        return read_int(j, type, 1, INT64_MAX, &e->item.activity_id);
    case SKU_ID:
        return read_int(j, type, 1, INT64_MAX, &e->item.sku_id);
    case USER_ID:
        return read_int(j, type, 1, INT64_MAX, &e->user_id);
    case ORDER_ID:
        return read_order_id(j, type, &e->order_id);
    case SCHEMA_VERSION:
        if (!read_int(j, type, 1, INT32_MAX, &v))
            return false;
        e->schema_version = (int)v;
        return true;
    case CREATED_AT:
        return read_time_us(j, type, &e->created_at_us);
    case RETRY_COUNT:
        if (!read_int(j, type, 0, INT32_MAX, &v))
            return false;
        e->retry_count = (int)v;
        return true;
    case EPOCH:
        return read_int(j, type, 0, INT64_MAX, &e->version.epoch);
    case SEQ:
        return read_int(j, type, 0, INT64_MAX, &e->version.seq);
    case COMMAND:
        return read_command(j, type, &e->command);
    case PAYMENT_ID:
        return read_text(j, type, &e->payment_id) && event_payment_id_ok(e->payment_id);
    case ACCEPTED_AT:
        if (!read_time_us(j, type, &v))
            return false;
        e->accepted_at_ms = v / 1000;
        return true;
    default:
        return false;
    }
}

/* What a command has to have beside the order event's fields; NULL, or what is wrong. */
static const char *judge_command(const struct event *e, unsigned seen)
{
    if (e->command == EVENT_CREATE)
        return NULL;
    if (e->schema_version < EVENT_SCHEMA_COMMAND)
        return "a command of schema_version 1";
    for (int f = PAYMENT_ID; e->command == EVENT_PAY && f <= ACCEPTED_AT; f++) {
        if (!(seen & 1u << f))
            return fields[f].missing;
    }
    return NULL;
}

static bool key_fits(const struct event *e, struct str key)
{
    char text[2 * 21 + UUID_TEXT], *at = text;
    at += str_from_i64(at, e->item.activity_id);
    *at++ = ':';
    at += str_from_i64(at, e->item.sku_id);
    *at++ = ':';
    uuid_format(&e->reservation_id, at);
    return str_eq(key, (struct str){text, (size_t)(at - text) + UUID_TEXT});
}

/* Told instead of any other reason, see the top. */
static const char newer[] = "schema_version";

/* NULL, or what is wrong. *whole: every field of ours is there and right, though the schema may be
 * newer. */
static const char *decode(struct str body, struct event *e, bool *whole)
{
    if (body.len > EVENT_MAX_BYTES)
        return "too long";
    struct json j;
    json_init(&j, body);
    enum json_type type = json_next(&j);
    if (type != JSON_OBJECT)
        return type == JSON_ERROR ? "not JSON" : "not an object";
    const char *why = NULL;
    struct str key = {0};
    unsigned seen = 0;
    while ((type = json_next(&j)) == JSON_KEY) {
        int f = 0;
        while (f < FIELDS && !json_is(&j, fields[f].name))
            f++;
        type = json_next(&j);
        if (f == FIELDS) {
            json_skip(&j, type);
            continue;
        }
        if (seen & 1u << f && !why)
            why = fields[f].twice;
        seen |= 1u << f;
        if (!read_field(&j, type, (enum field)f, e, &key) && !why)
            why = fields[f].wrong;
    }
    if (type != JSON_OBJECT_END || json_next(&j) != JSON_END)
        return "not JSON";
    for (int f = 0; f < REQUIRED && !why; f++) {
        if (!(seen & 1u << f))
            why = fields[f].missing;
    }
    if (!why && !key_fits(e, key))
        why = "message_key is another's";
    if (!why)
        why = judge_command(e, seen);
    if (e->command != EVENT_PAY) {
        e->payment_id = STR("");
        e->accepted_at_ms = 0;
    }
    *whole = !why;
    return e->schema_version > EVENT_SCHEMA_COMMAND ? newer : why;
}

int event_decode(struct str body, struct event *out, const char **why)
{
    struct event e = {.traceparent = STR(""), .tracestate = STR(""), .payment_id = STR("")};
    bool whole = false;
    *why = decode(body, &e, &whole);
    if (whole)
        *out = e; /* of a newer schema too: its quarantine needs the ids */
    return *why ? ERR_INVALID : 0;
}
