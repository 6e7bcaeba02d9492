/* A request's body: one JSON object of exactly the given members, read strictly. Pure, allocates
 * nothing; any thread. */
#pragma once

#include "base/json.h"

enum order_body {
    ORDER_BODY_OK = 0,
    /* Empty, not well-formed, no object, a key twice, an unknown key, something behind the object:
     * this takes precedence over what the values are. */
    ORDER_BODY_INVALID_JSON,
    /* A key missing, or its value not what it must be. */
    ORDER_BODY_INVALID_ARGUMENT,
};

struct body_field {
    struct str name;
    const char *twice, *missing, *wrong; /* whole sentences: there are no others for the buyer */
};

#define BODY_FIELD(n, form)                                                                        \
    {                                                                                              \
        STR(n), n " stands there twice", n " is missing", n " must be " form                       \
    }
#define BODY_NUMBER "an integer from 1 to 9223372036854775807"

/* read(j, type, i, into): the value of fields[i], whose first token was `type`, into `into`; false:
 * it is not what it must be. n is at most 32. What was read counts on ORDER_BODY_OK only; *why is
 * set on the others: a static sentence. */
enum order_body body_fields_read(struct str body, const struct body_field *fields, int n,
                                 bool (*read)(struct json *j, enum json_type type, int i,
                                              void *into),
                                 void *into, const char **why);
