/* The body of POST /v1/orders, read strictly: {"activity_id":1001,"sku_id":2001} and nothing else.
 * Pure, allocates nothing; any thread. */
#pragma once

#include "base/str.h"
#include "core/item.h"

enum order_body {
    ORDER_BODY_OK = 0,
    /* Empty, not well-formed, no object, a key twice, an unknown key, something behind the object:
     * this takes precedence over what the values are. */
    ORDER_BODY_INVALID_JSON,
    /* A key missing, or its value no integer from 1 to 2^63 − 1 (1.0 and 1e3 are none). */
    ORDER_BODY_INVALID_ARGUMENT,
};

/* *item is set on ORDER_BODY_OK only; *why on the others: a static sentence. */
enum order_body order_body_parse(struct str body, struct item *item, const char **why);
