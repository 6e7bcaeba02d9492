/* The order event: the JSON body of seed 000 §8.3 (twelve fields and trace) plus epoch and seq; the
 * same on each queue. Unknown fields are ignored, an older schema_version is consumed, a newer one
 * is refused (and quarantined).
 *
 * A command about that order has the same body and "command"; of a payment also payment_id and
 * accepted_at. Its schema_version is 2: a reader of version 1 would make an order of it
 * (docs/decisions/0012). */
#pragma once

#include "core/item.h"
#include "core/uuid.h"

#define EVENT_SCHEMA_VERSION 1 /* of an order event */
#define EVENT_SCHEMA_COMMAND 2 /* of a command: the newest that is read */
#define EVENT_MAX_BYTES 4096
#define EVENT_TRACE_MAX 512
#define EVENT_PAYMENT_ID_MAX 128
/* The logical consumer, whatever the transport (rule 16). */
#define EVENT_GROUP "seckill-order-create-v1"

enum event_command { EVENT_CREATE, EVENT_CANCEL, EVENT_PAY, EVENT_COMMANDS };

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
    enum event_command command;
    struct str payment_id;  /* EVENT_PAY: borrowed */
    int64_t accepted_at_ms; /* EVENT_PAY: by the store's clock */
};

/* "ORDER_CREATE_REQUESTED" …: the tag of a message, and of a command what its body says. Static,
 * zero-terminated. */
const char *event_command_name(enum event_command c);
/* 1…128 letters, digits and ".:_-", and not what a cancel's name looks like. */
bool event_payment_id_ok(struct str id);
/* The message_id of a command (rule 27): the same for every repeat, whoever makes it. */
struct uuid event_cancel_id(const struct uuid *reservation_id);
struct uuid event_pay_id(struct str payment_id);

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
