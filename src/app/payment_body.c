#include "app/payment_body.h"

#include "base/json.h"
#include "base/parse.h"
#include "core/event.h"

enum { PAYMENT_ID, ACTIVITY_ID, SKU_ID, USER_ID, REQUEST_ID, ORDER_ID, FIELDS };

#define FIELD(n, form)                                                                             \
    {                                                                                              \
        STR(n), n " stands there twice", n " is missing", n " must be " form                       \
    }
#define NUMBER "an integer from 1 to 9223372036854775807"

static const struct {
    struct str name;
    const char *twice, *missing, *wrong;
} fields[FIELDS] = {
    [PAYMENT_ID] = FIELD("payment_id", "1 to 128 letters, digits and \".:_-\", not beginning with "
                                       "\"cancel\""),
    [ACTIVITY_ID] = FIELD("activity_id", NUMBER),
    [SKU_ID] = FIELD("sku_id", NUMBER),
    [USER_ID] = FIELD("user_id", NUMBER),
    [REQUEST_ID] = FIELD("request_id", "a UUID"),
    [ORDER_ID] = FIELD("order_id", "text with " NUMBER),
};

static enum order_body refuse(const char **why, const char *text)
{
    *why = text;
    return ORDER_BODY_INVALID_JSON;
}

static bool is_text(const struct json *j, enum json_type type)
{
    return type == JSON_STRING && !j->escaped;
}

static bool read(struct json *j, enum json_type type, int field, struct payment_body *out)
{
    switch (field) {
    case PAYMENT_ID:
        out->payment_id = is_text(j, type) ? j->raw : STR("");
        return event_payment_id_ok(out->payment_id);
    case ACTIVITY_ID:
        return json_i64(j, 1, INT64_MAX, &out->item.activity_id) == 0;
    case SKU_ID:
        return json_i64(j, 1, INT64_MAX, &out->item.sku_id) == 0;
    case USER_ID:
        return json_i64(j, 1, INT64_MAX, &out->user_id) == 0;
    case REQUEST_ID:
        return is_text(j, type) && uuid_parse(j->raw, &out->request_id) == 0;
    default: /* JSON's numbers end at 2^53 */
        return is_text(j, type) && parse_i64(j->raw, 1, INT64_MAX, &out->order_id) == 0;
    }
}

enum order_body payment_body_parse(struct str body, struct payment_body *out, const char **why)
{
    struct json j;
    struct payment_body p = {0};
    unsigned seen = 0;
    const char *wrong = NULL; /* told only if the rest is JSON */
    enum json_type type;

    if (body.len == 0)
        return refuse(why, "the body is empty");
    json_init(&j, body);
    type = json_next(&j);
    if (type != JSON_OBJECT)
        return refuse(why, type == JSON_ERROR ? "not well-formed" : "the body must be an object");
    while ((type = json_next(&j)) == JSON_KEY) {
        int i = 0;
        while (i < FIELDS && !json_is(&j, fields[i].name))
            i++;
        if (i == FIELDS)
            return refuse(why, "a field is not known");
        if (seen & 1u << i)
            return refuse(why, fields[i].twice);
        seen |= 1u << i;
        type = json_next(&j);
        if (!read(&j, type, i, &p) && !wrong)
            wrong = fields[i].wrong;
        if (!json_skip(&j, type))
            return refuse(why, "not well-formed");
    }
    if (type != JSON_OBJECT_END || json_next(&j) != JSON_END)
        return refuse(why, "not well-formed, or something stands behind the object");
    for (int i = 0; i < FIELDS && !wrong; i++) {
        if (!(seen & 1u << i))
            wrong = fields[i].missing;
    }
    if (wrong) {
        *why = wrong;
        return ORDER_BODY_INVALID_ARGUMENT;
    }
    *out = p;
    return ORDER_BODY_OK;
}
