#include "app/order_body.h"

#include "base/json.h"

struct field {
    struct str name;
    const char *twice, *missing, *wrong;
};

static const struct field fields[2] = {
    {STR("activity_id"), "activity_id stands there twice", "activity_id is missing",
     "activity_id must be an integer from 1 to 9223372036854775807"},
    {STR("sku_id"), "sku_id stands there twice", "sku_id is missing",
     "sku_id must be an integer from 1 to 9223372036854775807"},
};

static enum order_body refuse(const char **why, const char *text)
{
    *why = text;
    return ORDER_BODY_INVALID_JSON;
}

enum order_body order_body_parse(struct str body, struct item *item, const char **why)
{
    struct json j;
    int64_t value[2] = {0, 0};
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
        int i = json_is(&j, fields[0].name) ? 0 : json_is(&j, fields[1].name) ? 1 : -1;
        if (i < 0)
            return refuse(why, "a field is not known");
        if (seen & 1u << i)
            return refuse(why, fields[i].twice);
        seen |= 1u << i;
        type = json_next(&j);
        if (json_i64(&j, 1, INT64_MAX, &value[i]) < 0 && !wrong)
            wrong = fields[i].wrong;
        if (!json_skip(&j, type))
            return refuse(why, "not well-formed");
    }
    if (type != JSON_OBJECT_END || json_next(&j) != JSON_END)
        return refuse(why, "not well-formed, or something stands behind the object");
    for (int i = 0; i < 2 && !wrong; i++) {
        if (!(seen & 1u << i))
            wrong = fields[i].missing;
    }
    if (wrong) {
        *why = wrong;
        return ORDER_BODY_INVALID_ARGUMENT;
    }
    *item = (struct item){.activity_id = value[0], .sku_id = value[1]};
    return ORDER_BODY_OK;
}
