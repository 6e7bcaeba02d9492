#include "app/body_fields.h"

static enum order_body refuse(const char **why, const char *text)
{
    *why = text;
    return ORDER_BODY_INVALID_JSON;
}

enum order_body body_fields_read(struct str body, const struct body_field *fields, int n,
                                 bool (*read)(struct json *j, enum json_type type, int i,
                                              void *into),
                                 void *into, const char **why)
{
    struct json j;
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
        while (i < n && !json_is(&j, fields[i].name))
            i++;
        if (i == n)
            return refuse(why, "a field is not known");
        if (seen & 1u << i)
            return refuse(why, fields[i].twice);
        seen |= 1u << i;
        type = json_next(&j);
        if (!read(&j, type, i, into) && !wrong)
            wrong = fields[i].wrong;
        if (!json_skip(&j, type))
            return refuse(why, "not well-formed");
    }
    if (type != JSON_OBJECT_END || json_next(&j) != JSON_END)
        return refuse(why, "not well-formed, or something stands behind the object");
    for (int i = 0; i < n && !wrong; i++) {
        if (!(seen & 1u << i))
            wrong = fields[i].missing;
    }
    if (wrong) {
        *why = wrong;
        return ORDER_BODY_INVALID_ARGUMENT;
    }
    return ORDER_BODY_OK;
}
