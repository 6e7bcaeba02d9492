#include "daemon/ctl/history.h"

#include "base/err.h"
#include "base/json.h"
#include "base/parse.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define BUFFER (1u << 20)
#define LINE_MAX_BYTES 512

struct history {
    int fd;
    bool failed;
    size_t len;
    char buffer[BUFFER];
};

static const struct str types[HISTORY_TYPES] = {STR("invoke"), STR("ok"), STR("fail"),
                                                STR("unknown"), STR("state")};

struct history *history_open(const char *path, char *err, size_t err_cap)
{
    struct history *h = malloc(sizeof(*h));
    int fd = h ? open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644) : -1;
    if (fd < 0) {
        snprintf(err, err_cap, "%s: %s", path, strerror(h ? errno : ENOMEM));
        free(h);
        return NULL;
    }
    h->fd = fd;
    h->failed = false;
    h->len = 0;
    return h;
}

bool history_flush(struct history *h)
{
    for (size_t at = 0; at < h->len && !h->failed;) {
        ssize_t n = write(h->fd, h->buffer + at, h->len - at);
        if (n >= 0)
            at += (size_t)n;
        else if (errno != EINTR)
            h->failed = true;
    }
    h->len = 0;
    return !h->failed;
}

bool history_close(struct history *h)
{
    bool ok = history_flush(h);
    ok = close(h->fd) == 0 && ok;
    free(h);
    return ok;
}

#define PUT(at, literal) put(at, STR(literal))

static inline char *put(char *at, struct str s)
{
    memcpy(at, s.ptr, s.len);
    return at + s.len;
}

static inline char *put_i64(char *at, int64_t v)
{
    return at + str_from_i64(at, v);
}

static inline char *put_uuid(char *at, const struct uuid *u)
{
    *at++ = '"';
    uuid_format(u, at);
    at[UUID_TEXT] = '"';
    return at + UUID_TEXT + 1;
}

/* By hand: a storm writes two of these for each request, beside the system it measures. */
void history_add(struct history *h, const struct history_event *e)
{
    if (BUFFER - h->len < LINE_MAX_BYTES)
        history_flush(h);
    char *at = h->buffer + h->len;
    at = put_i64(PUT(at, "{\"t\":"), e->t_us);
    at = put(PUT(at, ",\"type\":\""), types[e->type]);
    at = put_i64(PUT(at, "\",\"user\":"), e->user);
    at = put_uuid(PUT(at, ",\"key\":"), &e->key);
    at = put_i64(PUT(at, ",\"activity\":"), e->item.activity_id);
    at = put_i64(PUT(at, ",\"sku\":"), e->item.sku_id);
    if (e->status)
        at = put_i64(PUT(at, ",\"status\":"), e->status);
    if (e->code.len && e->code.len <= 64) /* one of the answer table's: nothing to escape */
        at = PUT(put(PUT(at, ",\"code\":\""), e->code), "\"");
    if (e->order_id)
        at = PUT(put_i64(PUT(at, ",\"order_id\":\""), e->order_id), "\"");
    if (e->has_reservation)
        at = put_uuid(PUT(at, ",\"reservation_id\":"), &e->reservation_id);
    if (e->since_us)
        at = put_i64(PUT(at, ",\"since\":"), e->since_us);
    if (e->has_state) {
        at = put(PUT(at, ",\"state\":\""), verdict_state_name(e->verdict.state));
        at = put(PUT(at, "\",\"reason\":\""), verdict_reason_name(e->verdict.reason));
        at = PUT(at, "\"");
    }
    at = PUT(at, "}\n");
    h->len = (size_t)(at - h->buffer);
}

/* --- reading --- */

enum member {
    T,
    TYPE,
    USER,
    KEY,
    ACTIVITY,
    SKU,
    STATUS,
    CODE,
    ORDER_ID,
    RESERVATION_ID,
    SINCE,
    STATE,
    REASON,
    MEMBERS
};
static const struct str members[MEMBERS] = {
    STR("t"),     STR("type"),   STR("user"),   STR("key"),      STR("activity"),
    STR("sku"),   STR("status"), STR("code"),   STR("order_id"), STR("reservation_id"),
    STR("since"), STR("state"),  STR("reason"),
};

static int read_member(struct json *j, enum member m, enum json_type t, struct history_event *e)
{
    int64_t v = 0;
    bool text = t == JSON_STRING && !j->escaped;
    switch (m) {
    case T:
        return json_i64(j, 0, INT64_MAX, &e->t_us);
    case USER:
        return json_i64(j, 1, INT64_MAX, &e->user);
    case ACTIVITY:
        return json_i64(j, 1, INT64_MAX, &e->item.activity_id);
    case SKU:
        return json_i64(j, 1, INT64_MAX, &e->item.sku_id);
    case STATUS:
        if (json_i64(j, 0, 999, &v) < 0)
            return ERR_INVALID;
        e->status = (int)v;
        return 0;
    case TYPE:
        for (int i = 0; text && i < HISTORY_TYPES; i++) {
            if (str_eq(j->raw, types[i])) {
                e->type = (enum history_type)i;
                return 0;
            }
        }
        return ERR_INVALID;
    case KEY:
        return text ? uuid_parse(j->raw, &e->key) : ERR_INVALID;
    case CODE:
        e->code = j->raw;
        return text ? 0 : ERR_INVALID;
    case ORDER_ID:
        return text ? parse_i64(j->raw, 1, INT64_MAX, &e->order_id) : ERR_INVALID;
    case RESERVATION_ID:
        e->has_reservation = true;
        return text ? uuid_parse(j->raw, &e->reservation_id) : ERR_INVALID;
    case SINCE:
        return json_i64(j, 0, INT64_MAX, &e->since_us);
    case STATE:
        e->has_state = true;
        return text ? verdict_state_parse(j->raw, &e->verdict.state) : ERR_INVALID;
    case REASON:
        return text ? verdict_reason_parse(j->raw, &e->verdict.reason) : ERR_INVALID;
    case MEMBERS:
        break;
    }
    return ERR_INVALID;
}

int history_parse(struct str line, struct history_event *e, const char **why)
{
    struct json j;
    unsigned seen = 0;
    memset(e, 0, sizeof(*e));
    *why = "no JSON object";
    json_init(&j, line);
    if (json_next(&j) != JSON_OBJECT)
        return ERR_INVALID;
    enum json_type t;
    while ((t = json_next(&j)) == JSON_KEY) {
        int m = 0;
        while (m < MEMBERS && !json_is(&j, members[m]))
            m++;
        t = json_next(&j);
        if (m == MEMBERS || t == JSON_NULL) {
            if (!json_skip(&j, t))
                return ERR_INVALID;
            continue;
        }
        *why = "a member of the wrong kind, or twice";
        if (seen & 1u << m || read_member(&j, (enum member)m, t, e) < 0)
            return ERR_INVALID;
        *why = "no JSON object";
        seen |= 1u << m;
    }
    if (t != JSON_OBJECT_END || json_next(&j) != JSON_END)
        return ERR_INVALID;
    *why = "t, type, user, key, activity or sku is missing";
    return (seen & 0x3f) == 0x3f ? 0 : ERR_INVALID;
}
