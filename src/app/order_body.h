/* The body of POST /v1/orders, read strictly: {"activity_id":1001,"sku_id":2001} and nothing else.
 * Pure, allocates nothing; any thread. */
#pragma once

#include "app/body_fields.h"
#include "core/item.h"

/* INVALID_ARGUMENT: a key is missing, or its value no integer from 1 to 2^63 − 1 (1.0 and 1e3 are
 * none). *item is set on ORDER_BODY_OK only; *why on the others: a static sentence. */
enum order_body order_body_parse(struct str body, struct item *item, const char **why);
