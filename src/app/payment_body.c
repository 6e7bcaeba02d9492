#include "app/payment_body.h"

#include "base/parse.h"
#include "core/event.h"

enum { PAYMENT_ID, ACTIVITY_ID, SKU_ID, USER_ID, REQUEST_ID, ORDER_ID, FIELDS };

static const struct body_field fields[FIELDS] = {
    [PAYMENT_ID] = BODY_FIELD("payment_id", "1 to 128 letters, digits and \".:_-\", not beginning "
                                            "with \"cancel\""),
    [ACTIVITY_ID] = BODY_FIELD("activity_id", BODY_NUMBER),
    [SKU_ID] = BODY_FIELD("sku_id", BODY_NUMBER),
    [USER_ID] = BODY_FIELD("user_id", BODY_NUMBER),
    [REQUEST_ID] = BODY_FIELD("request_id", "a UUID"),
    [ORDER_ID] = BODY_FIELD("order_id", "text with " BODY_NUMBER),
};

static bool is_text(const struct json *j, enum json_type type)
{
    return type == JSON_STRING && !j->escaped;
}

static bool read(struct json *j, enum json_type type, int field, void *into)
{
    struct payment_body *out = into;
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
    struct payment_body found = {0};
    enum order_body rc = body_fields_read(body, fields, FIELDS, read, &found, why);
    if (rc == ORDER_BODY_OK)
        *out = found;
    return rc;
}
