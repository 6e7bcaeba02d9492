#include "app/order_body.h"

static const struct body_field fields[2] = {
    BODY_FIELD("activity_id", BODY_NUMBER),
    BODY_FIELD("sku_id", BODY_NUMBER),
};

static bool read(struct json *j, enum json_type type, int i, void *into)
{
    struct item *item = into;
    (void)type;
    return json_i64(j, 1, INT64_MAX, i == 0 ? &item->activity_id : &item->sku_id) == 0;
}

enum order_body order_body_parse(struct str body, struct item *item, const char **why)
{
    struct item found = {0};
    enum order_body rc = body_fields_read(body, fields, 2, read, &found, why);
    if (rc == ORDER_BODY_OK)
        *item = found;
    return rc;
}
