/* The order event: the JSON body of seed 000 §8.3 (twelve fields and trace) plus epoch and seq; the
 * same on each queue. Unknown fields are ignored, an older schema_version is consumed, a newer one
 * is refused (and quarantined). */
#pragma once

#include "core/item.h"
#include "core/uuid.h"

#define EVENT_SCHEMA_VERSION 1
#define EVENT_MAX_BYTES 4096
#define EVENT_TRACE_MAX 512
/* The logical consumer, whatever the transport (rule 16). */
#define EVENT_GROUP "seckill-order-create-v1"

struct event {
    struct uuid message_id, request_id, reservation_id;
    struct item item;
    int64_t user_id, order_id;
    int64_t created_at_us;           /* wall clock */
    int schema_version, retry_count; /* retry_count: our own republishes */
    struct item_version
        version; /* 0,0 when the body is still to be completed by the reserve script */
    struct str traceparent,
        tracestate; /* borrowed; "" when none, and when it is over EVENT_TRACE_MAX or would have to
                     * be unescaped: a trace is never worth an order */
};

/* The trace-id of a traceparent of the form that W3C gives version 00 (its 32 digits, borrowed),
 * for logs; {NULL, 0} of anything shorter. */
struct str event_trace_id(struct str traceparent);

/* Appends the body, at most EVENT_MAX_BYTES. With `open`, the closing `,"epoch":E,"seq":S}` is left
 * out: the reserve script appends it, since only it knows them. */
void event_encode(const struct event *e, bool open, struct strbuf *out);
/* 0; ERR_INVALID with the reason (a static string) in *why: "schema_version" alone means a newer
 * one, whatever else is wrong then. *out is written on 0, and for a newer schema if all of our
 * fields are there and right, so that it can be quarantined by its ids; otherwise it is left as it
 * was. traceparent and tracestate point into body. */
int event_decode(struct str body, struct event *out, const char **why);
