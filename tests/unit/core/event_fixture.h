/* The seed's event, as text and as a struct. */
#pragma once

#include "base/err.h"
#include "core/event.h"
#include "unit.h"

#define N(a) (sizeof(a) / sizeof *(a))

/* Seed 000 §8.3, to the letter, and epoch and seq. */
static const char seed[] =
    "{\"message_id\":\"019f2db9-8af0-7a21-88e1-2df337730001\","
    "\"message_key\":\"1001:2001:019f2db9-8af0-7a21-88e1-2df337730002\","
    "\"request_id\":\"019f2db9-8af0-7a21-88e1-2df337730003\","
    "\"reservation_id\":\"019f2db9-8af0-7a21-88e1-2df337730002\","
    "\"activity_id\":1001,\"sku_id\":2001,\"user_id\":3001,\"order_id\":900000000000001,"
    "\"schema_version\":1,\"created_at\":\"2026-06-25T12:00:00.123456Z\",\"retry_count\":0,"
    "\"trace\":{\"traceparent\":\"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\","
    "\"tracestate\":\"\"}";
static const char tail[] = ",\"epoch\":7,\"seq\":42}";

static inline struct uuid id(const char *text)
{
    struct uuid u;
    assert_int_equal(uuid_parse(str_of(text), &u), 0);
    return u;
}

static inline struct event seed_event(void)
{
    return (struct event){
        .message_id = id("019f2db9-8af0-7a21-88e1-2df337730001"),
        .request_id = id("019f2db9-8af0-7a21-88e1-2df337730003"),
        .reservation_id = id("019f2db9-8af0-7a21-88e1-2df337730002"),
        .item = {1001, 2001},
        .user_id = 3001,
        .order_id = INT64_C(900000000000001),
        .created_at_us = INT64_C(1782388800123456),
        .schema_version = 1,
        .version = {7, 42},
        .traceparent = STR("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
        .tracestate = STR(""),
    };
}

static inline void assert_same(const struct event *a, const struct event *b)
{
    assert_true(uuid_eq(&a->message_id, &b->message_id));
    assert_true(uuid_eq(&a->request_id, &b->request_id));
    assert_true(uuid_eq(&a->reservation_id, &b->reservation_id));
    assert_true(item_eq(a->item, b->item));
    assert_int_equal(a->user_id, b->user_id);
    assert_int_equal(a->order_id, b->order_id);
    assert_int_equal(a->created_at_us, b->created_at_us);
    assert_int_equal(a->schema_version, b->schema_version);
    assert_int_equal(a->retry_count, b->retry_count);
    assert_int_equal(item_version_cmp(a->version, b->version), 0);
    assert_true(str_eq(a->traceparent, b->traceparent));
    assert_true(str_eq(a->tracestate, b->tracestate));
    assert_int_equal(a->command, b->command);
    assert_true(str_eq(a->payment_id, b->payment_id));
    assert_int_equal(a->accepted_at_ms, b->accepted_at_ms);
}

static inline void assert_decodes(struct str body, struct event *e)
{
    const char *why = NULL;
    int rc = event_decode(body, e, &why);
    if (rc)
        print_error("%s in " STR_FMT "\n", why, STR_ARG(body));
    assert_int_equal(rc, 0);
}
