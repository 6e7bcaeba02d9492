/* The body of POST /v1/payments, read strictly:
 * {"payment_id":"…","activity_id":1001,"sku_id":2001,"user_id":3001,"request_id":"…","order_id":"…"}
 * and nothing else. Pure, allocates nothing; any thread. */
#pragma once

#include "app/order_body.h"
#include "core/uuid.h"

struct payment_body {
    struct str payment_id; /* borrowed from the body */
    struct item item;
    int64_t user_id, order_id;
    struct uuid request_id;
};

/* As order_body_parse. */
enum order_body payment_body_parse(struct str body, struct payment_body *out, const char **why);
