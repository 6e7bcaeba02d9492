/* A result: what became of one reservation or order, as other systems read it from the result topic
 * (docs/results.md has the schema). One per outbox row. Delivered at least once and in any order: a
 * reader keeps, per message_id, the one with the highest version. */
#pragma once

#include "core/item.h"
#include "core/uuid.h"
#include "core/verdict.h"

#define RESULT_SCHEMA_VERSION 1
#define RESULT_MAX_BYTES 1024
#define RESULT_EVENT_MAX 32

struct result {
    int64_t id;                   /* of the outbox row: the same in each delivery */
    char event[RESULT_EVENT_MAX]; /* ORDER_CREATED, RESERVATION_SETTLED, RESERVATION_REJECTED,
                                     ORDER_CANCELLED */
    struct uuid message_id, request_id, reservation_id;
    struct item item;
    int64_t user_id;
    int64_t order_id; /* the order that stands for the request; 0: none */
    struct verdict verdict;
    int64_t decided_at_ms; /* PostgreSQL's clock */
};

/* The order that stands for the request, as told: own of the message, other instead of it (0:
 * none).
 */
int64_t result_order(struct verdict verdict, int64_t own, int64_t other);
/* Appends the body, at most RESULT_MAX_BYTES. */
void result_encode(const struct result *r, struct strbuf *out);
/* Names this result to a transport that knows repeats by an id: the same in each delivery. */
struct uuid result_key(const struct result *r);
