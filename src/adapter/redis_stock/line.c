#include "adapter/redis_stock/line.h"

#include "base/parse.h"

struct str line_word(struct str *rest)
{
    struct str word;
    *rest = str_split(*rest, ' ', &word);
    return word;
}

int line_i64(struct str *rest, int64_t *out)
{
    return parse_i64(line_word(rest), INT64_MIN, INT64_MAX, out) ? ERR_INTERNAL : 0;
}

int line_uuid(struct str *rest, struct uuid *out)
{
    return uuid_parse(line_word(rest), out) ? ERR_INTERNAL : 0;
}

int line_parse(const struct redis_reply *reply, struct line *out)
{
    int64_t code, seconds, micros;
    struct str s = reply->s;
    if (reply->type != REDIS_STRING || line_i64(&s, &code) || code < 0 || code > 99 ||
        line_i64(&s, &out->version.epoch) || line_i64(&s, &out->version.seq) ||
        line_i64(&s, &seconds) || line_i64(&s, &micros) || seconds < 0 ||
        seconds > INT64_MAX / 2000000 || micros < 0 || micros > 999999)
        return ERR_INTERNAL;
    out->code = (int)code;
    out->time_us = seconds * 1000000 + micros;
    out->rest = s;
    return 0;
}

static int field(struct reservation *r, struct str name, struct str v)
{
    int64_t n = 0;
    int rc = 0;
    if (str_eq(name, STR("reservation_id")))
        rc = uuid_parse(v, &r->reservation_id);
    else if (str_eq(name, STR("order_id")))
        rc = parse_i64(v, 1, INT64_MAX, &r->order_id);
    else if (str_eq(name, STR("message_id")))
        rc = uuid_parse(v, &r->message_id);
    else if (str_eq(name, STR("status")))
        rc = reservation_status_parse(v, &r->status);
    else if (str_eq(name, STR("epoch")))
        rc = parse_i64(v, 0, INT64_MAX, &r->epoch);
    else if (str_eq(name, STR("seq")))
        rc = parse_i64(v, 0, INT64_MAX, &r->seq);
    else if (str_eq(name, STR("created_at_ms")))
        rc = parse_i64(v, 0, INT64_MAX, &r->created_at_ms);
    else if (str_eq(name, STR("republished")))
        rc = parse_i64(v, 0, INT32_MAX, &n), r->republished = (int)n;
    else if (str_eq(name, STR("state")))
        rc = verdict_state_parse(v, &r->verdict.state);
    else if (str_eq(name, STR("reason")))
        rc = verdict_reason_parse(v, &r->verdict.reason);
    else if (str_eq(name, STR("cancel")))
        r->cancel_refused = str_eq(v, STR("REFUSED"));
    else if (str_eq(name, STR("queue_id")))
        rc = str_copy(r->queue_id, sizeof r->queue_id, v) ? 0 : ERR_INVALID;
    return rc; /* unknown fields, and rank, which follows from the state, are skipped */
}

int line_record(struct str text, struct reservation *out)
{
    out->verdict = (struct verdict){VERDICT_QUEUED, REASON_NONE};
    out->status = RESERVATION_STATUSES;
    while (text.len) {
        struct str name = line_word(&text);
        if (!text.ptr || field(out, name, line_word(&text)))
            return ERR_INTERNAL;
    }
    /* What each record has from its first moment on. */
    return out->status == RESERVATION_STATUSES || uuid_is_nil(&out->reservation_id) ||
                   uuid_is_nil(&out->message_id) || !out->order_id
               ? ERR_INTERNAL
               : 0;
}
