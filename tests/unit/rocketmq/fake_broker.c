#include "fake_broker.h"

#include <stdio.h>

static struct fake_broker *broker_of(struct fake_call *x)
{
    return container_of(x->conn->proxy, struct fake_broker, proxy);
}

static int64_t ms_of(const Rmq__Duration *d)
{
    return d ? d->seconds * 1000 + d->nanos / 1000000 : -1;
}

/* Without one a proxy answers 50001. */
static int64_t ms_of_timeout(const char *z)
{
    char unit = 0;
    long long n;
    assert_int_equal(sscanf(z, "%8lld%c", &n, &unit), 2);
    assert_non_null(strchr("Smu", unit));
    return unit == 'S' ? n * 1000 : unit == 'm' ? n : n / 1000;
}

static char *text(const char *z)
{
    return (char *)(uintptr_t)z;
}

static void take_poll(struct fake_broker *b, struct fake_call *x, struct str request)
{
    Rmq__ReceiveMessageRequest *r =
        rmq__receive_message_request__unpack(NULL, request.len, (const uint8_t *)request.ptr);
    assert_non_null(r);
    assert_true(b->n_polls < BROKER_POLLS);
    assert_true(r->has_auto_renew && !r->auto_renew);
    assert_string_equal(r->filter_expression->expression, "*");
    struct fake_poll *p = &b->polls[b->n_polls++];
    *p = (struct fake_poll){.call = x,
                            .batch = r->batch_size,
                            .lease_ms = ms_of(r->invisible_duration),
                            .wait_ms = ms_of(r->long_polling_timeout)};
    str_copy(p->topic, sizeof p->topic, str_of(r->message_queue->topic->name));
    str_copy(p->group, sizeof p->group, str_of(r->group->name));
    str_copy(p->broker, sizeof p->broker, str_of(r->message_queue->broker->name));
    assert_true(p->batch >= 1 && p->batch <= 32);
    p->deadline_ms = ms_of_timeout(x->timeout);
    rmq__receive_message_request__free_unpacked(r, NULL);
}

static int rule_for(const struct fake_broker *b, const char *handle)
{
    for (size_t i = 0; i < sizeof b->ack_rules / sizeof b->ack_rules[0]; i++) {
        if (b->ack_rules[i].handle && strcmp(b->ack_rules[i].handle, handle) == 0)
            return (int)i;
    }
    return -1;
}

static void answer_acks(struct fake_broker *b, struct fake_call *x, const Rmq__AckMessageRequest *r)
{
    Rmq__AckMessageResponse out = RMQ__ACK_MESSAGE_RESPONSE__INIT;
    Rmq__AckMessageResultEntry entries[128], *list[128];
    Rmq__Status codes[128], ok = RMQ__STATUS__INIT;
    ok.has_code = true;
    ok.code = 20000;
    out.status = &ok;
    out.entries = list;
    for (size_t i = 0; i < r->n_entries; i++) {
        int rule = rule_for(b, r->entries[i]->receipt_handle);
        int code = rule < 0 ? 20000 : b->ack_rules[rule].code;
        for (int turn = 0; turn < (rule >= 0 && b->ack_rules[rule].twice ? 2 : 1); turn++) {
            if (turn)
                code = 20000;
            if (code == 0)
                continue;
            if (code != 20000)
                ok.code = 30000;
            size_t n = out.n_entries++;
            rmq__ack_message_result_entry__init(&entries[n]);
            rmq__status__init(&codes[n]);
            codes[n].has_code = true;
            codes[n].code = code;
            entries[n].status = &codes[n];
            entries[n].receipt_handle = r->entries[i]->receipt_handle;
            list[n] = &entries[n];
        }
    }
    /* From the end, as nothing promises an order. */
    for (size_t i = 0; i < out.n_entries / 2; i++) {
        Rmq__AckMessageResultEntry *e = list[i];
        list[i] = list[out.n_entries - 1 - i];
        list[out.n_entries - 1 - i] = e;
    }
    fake_say(x, &out.base);
    fake_end(x, 0, "");
}

static void take_ack(struct fake_broker *b, struct fake_call *x, struct str request)
{
    Rmq__AckMessageRequest *r =
        rmq__ack_message_request__unpack(NULL, request.len, (const uint8_t *)request.ptr);
    assert_non_null(r);
    b->ack_requests++;
    for (size_t i = 0; i < r->n_entries; i++) {
        assert_true(b->n_acks < BROKER_ASKED);
        struct fake_asked *a = &b->acks[b->n_acks++];
        *a = (struct fake_asked){.call = x};
        str_copy(a->handle, sizeof a->handle, str_of(r->entries[i]->receipt_handle));
        str_copy(a->topic, sizeof a->topic, str_of(r->topic->name));
        str_copy(a->group, sizeof a->group, str_of(r->group->name));
    }
    if (!b->hold_acks)
        answer_acks(b, x, r);
    rmq__ack_message_request__free_unpacked(r, NULL);
}

void fake_change_answer(struct fake_broker *b, int n, int code, const char *handle)
{
    Rmq__ChangeInvisibleDurationResponse r = RMQ__CHANGE_INVISIBLE_DURATION_RESPONSE__INIT;
    Rmq__Status status = RMQ__STATUS__INIT;
    status.has_code = true;
    status.code = code;
    r.status = &status;
    r.receipt_handle = text(handle);
    fake_say(b->changes[n].call, &r.base);
    fake_end(b->changes[n].call, 0, "");
}

static void take_change(struct fake_broker *b, struct fake_call *x, struct str request)
{
    Rmq__ChangeInvisibleDurationRequest *r = rmq__change_invisible_duration_request__unpack(
        NULL, request.len, (const uint8_t *)request.ptr);
    assert_non_null(r);
    assert_true(b->n_changes < BROKER_ASKED);
    struct fake_asked *a = &b->changes[b->n_changes++];
    *a = (struct fake_asked){.call = x, .ms = ms_of(r->invisible_duration)};
    str_copy(a->handle, sizeof a->handle, str_of(r->receipt_handle));
    str_copy(a->topic, sizeof a->topic, str_of(r->topic->name));
    str_copy(a->group, sizeof a->group, str_of(r->group->name));
    rmq__change_invisible_duration_request__free_unpacked(r, NULL);
    char renewed[80];
    snprintf(renewed, sizeof renewed, "%s'", a->handle);
    if (!b->hold_changes)
        fake_change_answer(b, b->n_changes - 1, b->change_code,
                           b->no_handle || b->change_code != 20000 ? NULL : renewed);
}

static bool on_call(struct fake_call *x, struct str request)
{
    struct fake_broker *b = broker_of(x);
    if (b->proxy.faults[x->method].n > 0)
        return false;
    if (x->method == RMQ_RECEIVE)
        take_poll(b, x, request);
    else if (x->method == RMQ_ACK)
        take_ack(b, x, request);
    else if (x->method == RMQ_CHANGE_INVISIBLE)
        take_change(b, x, request);
    else if (x->method == RMQ_QUERY_ROUTE && b->dead_topic) {
        /* Of any topic, the same. */
        Rmq__QueryRouteRequest *r =
            rmq__query_route_request__unpack(NULL, request.len, (const uint8_t *)request.ptr);
        b->proxy.topic = strcmp(r->topic->name, "T") == 0 ? "T" : "%DLQ%G";
        rmq__query_route_request__free_unpacked(r, NULL);
        return false;
    } else
        return false;
    return true;
}

void fake_broker_start(struct fake_broker *b, struct loop *l)
{
    memset(b, 0, sizeof *b);
    fake_proxy_start(&b->proxy, l);
    b->proxy.on_call = on_call;
    b->change_code = 20000;
}

struct fake_poll *fake_poll_at(struct fake_broker *b, int n)
{
    assert_true(n < b->n_polls);
    struct fake_poll *p = &b->polls[n];
    assert_non_null(p->call);
    assert_non_null(p->call->conn);
    return p;
}

int fake_polls_open(const struct fake_broker *b, const char *topic)
{
    int n = 0;
    for (int i = 0; i < b->n_polls; i++)
        n += b->polls[i].call && strcmp(b->polls[i].topic, topic) == 0;
    return n;
}

/* --- what a poll brings --- */
void fake_poll_ok(struct fake_poll *p)
{
    Rmq__Status status = RMQ__STATUS__INIT;
    Rmq__ReceiveMessageResponse r = RMQ__RECEIVE_MESSAGE_RESPONSE__INIT;
    status.has_code = true;
    status.code = 20000;
    r.content_case = RMQ__RECEIVE_MESSAGE_RESPONSE__CONTENT_STATUS;
    r.status = &status;
    fake_say(p->call, &r.base);
}

void fake_poll_message(struct fake_poll *p, struct said m)
{
    Rmq__Message message = RMQ__MESSAGE__INIT;
    Rmq__SystemProperties sys = RMQ__SYSTEM_PROPERTIES__INIT;
    Rmq__Timestamp stored = RMQ__TIMESTAMP__INIT;
    Rmq__Digest digest = RMQ__DIGEST__INIT;
    Rmq__Property trace = RMQ__PROPERTY__INIT, other = RMQ__PROPERTY__INIT,
                  *properties[] = {&trace, &other};
    char *keys[] = {text("k1"), text("k2")};
    message.system_properties = &sys;
    sys.message_id = text(m.id);
    sys.receipt_handle = text(m.handle);
    sys.tag = text("TAG");
    sys.keys = keys;
    sys.n_keys = 2;
    sys.store_timestamp = &stored;
    stored.has_seconds = stored.has_nanos = true;
    stored.seconds = 1780000000;
    stored.nanos = 123000000;
    sys.has_delivery_attempt = m.attempt > 0;
    sys.delivery_attempt = m.attempt;
    sys.has_body_encoding = true;
    sys.body_encoding = m.gzip ? RMQ__ENCODING__GZIP : RMQ__ENCODING__IDENTITY;
    if (m.digest) {
        sys.body_digest = &digest;
        digest.has_type = true;
        digest.type = RMQ__DIGEST_TYPE__MD5;
        digest.checksum = text(m.digest);
    }
    trace.key = text("traceparent");
    trace.value = text("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
    other.key = text("TRACE_CONTEXT");
    other.value = text("of the server");
    message.user_properties = properties;
    message.n_user_properties = 2;
    message.has_body = true;
    message.body.data = (uint8_t *)(uintptr_t)m.body;
    message.body.len = m.body_n ? (size_t)m.body_n : strlen(m.body);
    Rmq__ReceiveMessageResponse r = RMQ__RECEIVE_MESSAGE_RESPONSE__INIT;
    r.content_case = RMQ__RECEIVE_MESSAGE_RESPONSE__CONTENT_MESSAGE;
    r.message = &message;
    fake_say(p->call, &r.base);
}

void fake_poll_end(struct fake_poll *p)
{
    Rmq__Timestamp at = RMQ__TIMESTAMP__INIT;
    Rmq__ReceiveMessageResponse r = RMQ__RECEIVE_MESSAGE_RESPONSE__INIT;
    r.content_case = RMQ__RECEIVE_MESSAGE_RESPONSE__CONTENT_DELIVERY_TIMESTAMP;
    r.delivery_timestamp = &at;
    fake_say(p->call, &r.base);
    fake_end(p->call, 0, "");
    p->call = NULL;
}

void fake_poll_code(struct fake_poll *p, int code)
{
    fake_say_code(p->call, code, "as the test wants it");
    p->call = NULL;
}

void fake_poll_messages(struct fake_poll *p, int from, int n)
{
    fake_poll_ok(p);
    for (int i = from; i < from + n; i++) {
        char id[16], handle[16];
        snprintf(id, sizeof id, "m%d", i);
        snprintf(handle, sizeof handle, "h%d", i);
        fake_poll_message(p, (struct said){.id = id, .handle = handle, .body = "x", .attempt = 1});
    }
    fake_poll_end(p);
}
