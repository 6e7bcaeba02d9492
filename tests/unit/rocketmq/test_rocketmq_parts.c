/* What needs no proxy: ids, the signature, codes, messages and hostile bytes, receipts, choices. */
#include "rocketmq_test.h"

#include "adapter/rocketmq/config.h"
#include "adapter/rocketmq/message.h"
#include "adapter/rocketmq/receipt.h"
#include "adapter/rocketmq/remoting.h"
#include "adapter/rocketmq/route.h"
#include "base/err.h"
#include "base/rng.h"
#include <stdio.h>
#include <stdlib.h>

static void message_id(void **state)
{
    (void)state;
    struct uuid u;
    char id[RMQ_MESSAGE_ID + 1];
    assert_int_equal(uuid_parse(STR("0190b2c4-5a6f-7d8e-9fab-cdef01234567"), &u), 0);
    rmq_message_id(&u, id);
    assert_string_equal(id, "010190B2C45A6F7D8E9FABCDEF01234567");
}

/* Made by the official Node client (the design's rocketmq.md, section 2). */
static void signature(void **state)
{
    (void)state;
    char hex[41];
    rmq_sign("sk", "20261130T125511Z", hex);
    assert_string_equal(hex, "F7072DDBBFE13269B6CED3A82E44F796B24BFC70");
    struct rmq_signer s = {.access_key = "ak", .secret_key = "sk"};
    rmq_signer_at(&s, INT64_C(1796043311) * 1000000 + 999999);
    assert_string_equal(s.date, "20261130T125511Z");
    assert_string_equal(s.authorization,
                        "MQv2-HMAC-SHA1 Credential=ak, SignedHeaders=x-mq-date-time, "
                        "Signature=F7072DDBBFE13269B6CED3A82E44F796B24BFC70");
    rmq_signer_at(&s, INT64_C(1796043312) * 1000000);
    assert_string_equal(s.date, "20261130T125512Z");
    assert_null(strstr(s.authorization, "F7072DDB"));
    struct rmq_signer none = {.access_key = "", .secret_key = ""};
    rmq_signer_at(&none, INT64_C(1796043311) * 1000000);
    assert_string_equal(none.date, "20261130T125511Z");
    assert_string_equal(none.authorization, "");
}

static void keys_and_names(void **state)
{
    (void)state;
    char z[512];
    assert_true(rmq_keys_fit("", ""));
    assert_true(rmq_keys_fit("ak", "sk"));
    assert_false(rmq_keys_fit("ak", ""));
    assert_false(rmq_keys_fit("", "sk"));
    static const char *const wrong[] = {"a/k", "a,k", "a\nk", "a k", "\xc3\xa4"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_false(rmq_keys_fit(wrong[i], "sk"));
    static const struct {
        const char *z;
        bool fits;
    } names[] = {{"seckill-order_1", true},
                 {"%DLQ%a|B", true},
                 {"", false},
                 {"a b", false},
                 {"a.b", false},
                 {"a/b", false},
                 {"\xc3\xa4", false}};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        assert_int_equal(rmq_name_fits(names[i].z, RMQ_TOPIC_MAX), names[i].fits);
    /* Each bound, and one more. */
    memset(z, 'x', sizeof z);
    z[RMQ_ACCESS_KEY_MAX + 1] = '\0';
    assert_false(rmq_keys_fit(z, "sk"));
    z[RMQ_ACCESS_KEY_MAX] = '\0';
    assert_true(rmq_keys_fit(z, "sk"));
    memset(z, 'x', sizeof z);
    z[RMQ_SECRET_KEY_MAX + 1] = '\0';
    assert_false(rmq_keys_fit("ak", z));
    z[RMQ_SECRET_KEY_MAX] = '\0';
    assert_true(rmq_keys_fit("ak", z));
    z[RMQ_GROUP_MAX + 1] = '\0';
    assert_false(rmq_name_fits(z, RMQ_GROUP_MAX));
    z[RMQ_GROUP_MAX] = '\0';
    assert_true(rmq_name_fits(z, RMQ_GROUP_MAX));
}

/* What the configuration lets through is signed whole, over gRPC and at the name server. */
static void the_longest_keys(void **state)
{
    (void)state;
    char ak[RMQ_ACCESS_KEY_MAX + 1], sk[RMQ_SECRET_KEY_MAX + 1];
    memset(ak, 'x', sizeof ak - 1);
    memset(sk, 'x', sizeof sk - 1);
    ak[sizeof ak - 1] = sk[sizeof sk - 1] = '\0';
    assert_true(rmq_keys_fit(ak, sk));
    struct rmq_signer s = {.access_key = ak, .secret_key = sk};
    char hex[41];
    rmq_signer_at(&s, INT64_C(1796043311) * 1000000);
    rmq_sign(sk, s.date, hex);
    const char *end = strstr(s.authorization, "Signature=");
    assert_non_null(end);
    assert_string_equal(end + strlen("Signature="), hex);
    struct loop *l = loop_new();
    struct remoting *r = remoting_new(l, "127.0.0.1:1", ak, sk);
    assert_non_null(r);
    remoting_free(r);
    loop_free(l);
}

static void codes(void **state)
{
    (void)state;
    static const struct {
        int code;
        enum rmq_class class;
        int rc;
    } expected[] = {
        {20000, RMQ_OK, 0},
        {30000, RMQ_MIXED, 0},
        {40000, RMQ_REFUSED, ERR_INVALID},
        {40007, RMQ_REFUSED, ERR_INVALID},
        {40013, RMQ_EXPIRED, ERR_NOTFOUND},
        {40014, RMQ_MISSING_TOPIC, ERR_UNAVAIL},
        {40015, RMQ_RESYNC, ERR_UNAVAIL},
        {40100, RMQ_DENIED, ERR_DENIED},
        {40300, RMQ_NO_QUEUE, ERR_UNAVAIL},
        {40401, RMQ_EMPTY, 0},
        {40402, RMQ_MISSING_TOPIC, ERR_UNAVAIL},
        {40403, RMQ_MISSING_GROUP, ERR_UNAVAIL},
        {41301, RMQ_REFUSED, ERR_INVALID},
        {42900, RMQ_THROTTLED, ERR_UNAVAIL},
        {50001, RMQ_UNKNOWN, ERR_UNCERTAIN},
        {50002, RMQ_UNKNOWN, ERR_UNCERTAIN},
        {50400, RMQ_UNKNOWN, ERR_UNCERTAIN},
        {50401, RMQ_UNKNOWN, ERR_UNCERTAIN},
        {50402, RMQ_UNKNOWN, ERR_UNCERTAIN},
        {12345, RMQ_UNKNOWN, ERR_UNCERTAIN}, /* one that we have never heard of */
        {0, RMQ_UNKNOWN, ERR_UNCERTAIN},
    };
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        assert_int_equal(rmq_class_of(expected[i].code), expected[i].class);
        assert_int_equal(rmq_class_rc(expected[i].class), expected[i].rc);
    }
    assert_string_equal(rmq_code_name(42900), "TOO_MANY_REQUESTS");
    assert_string_equal(rmq_code_name(7), "?");
}

static size_t pack_event(uint8_t *out, size_t cap)
{
    struct event e;
    struct rmq_event_text text;
    struct rmq_message m;
    struct rmq_send_request request;
    test_event(&e, 1);
    assert_int_equal(rmq_message_of_event(&e, "T", &text, &m), 0);
    const ProtobufCMessage *r =
        rmq_message_request(&m, "T", "here", INT64_C(1780000000123456), &request);
    assert_true(protobuf_c_message_get_packed_size(r) <= cap);
    return protobuf_c_message_pack(r, out);
}

/* Rule 27: the tag says which command it is. */
static void tags_of_commands(void **state)
{
    (void)state;
    static struct rmq_event_text text;
    static const char *const tags[EVENT_COMMANDS] = {
        "ORDER_CREATE_REQUESTED", "ORDER_CANCEL_REQUESTED", "ORDER_PAY_REQUESTED"};
    for (int c = 0; c < EVENT_COMMANDS; c++) {
        struct event e;
        struct rmq_message m;
        test_event(&e, 1);
        e.command = (enum event_command)c;
        e.payment_id = STR("pay_1");
        assert_int_equal(rmq_message_of_event(&e, "T", &text, &m), 0);
        assert_string_equal(m.tag, tags[c]);
        assert_int_equal(!memmem(m.body.ptr, m.body.len, tags[c], strlen(tags[c])), c == 0);
    }
}

static void message_there_and_back(void **state)
{
    (void)state;
    uint8_t bytes[8192];
    size_t n = pack_event(bytes, sizeof bytes);
    Rmq__SendMessageRequest *r = rmq__send_message_request__unpack(NULL, n, bytes);
    assert_non_null(r);
    assert_int_equal(r->n_messages, 1);
    const Rmq__Message *m = r->messages[0];
    const Rmq__SystemProperties *s = m->system_properties;
    assert_string_equal(m->topic->name, "T");
    assert_string_equal(s->message_id, "010102030405060708090A0B0C0D0E0F10");
    assert_string_equal(s->tag, "ORDER_CREATE_REQUESTED");
    assert_int_equal(s->n_keys, 3);
    assert_string_equal(s->keys[0], "01020304-0506-0708-090a-0b0c0d0e0f10");
    assert_string_equal(s->keys[1], "1001:2001:80818283-8485-8687-8889-8a8b8c8d8e8f");
    assert_string_equal(s->keys[2], "40414243-4445-4647-4849-4a4b4c4d4e4f");
    assert_string_equal(s->born_host, "here");
    assert_int_equal(s->born_timestamp->seconds, 1780000000);
    assert_int_equal(s->born_timestamp->nanos, 123456000);
    assert_int_equal(rmq_timestamp_ms(s->born_timestamp), INT64_C(1780000000123));
    assert_string_equal(s->trace_context,
                        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
    assert_int_equal(m->n_user_properties, 2);
    assert_string_equal(m->user_properties[0]->key, "sk_origin_topic");
    assert_string_equal(m->user_properties[0]->value, "T");
    assert_string_equal(m->user_properties[1]->key, "traceparent");
    struct event back;
    const char *why;
    struct str body = {(const char *)m->body.data, m->body.len};
    assert_int_equal(event_decode(body, &back, &why), 0);
    assert_int_equal(back.order_id, 9001);
    rmq__send_message_request__free_unpacked(r, NULL);
}

/* Each prefix and each changed byte of a good message, and bytes that ask for much memory: decoded
 * or not, never out of bounds (ASan) and never beyond the arena's bound. */
static void hostile_bytes(void **state)
{
    (void)state;
    enum { MAX = 1 << 20 };
    struct rmq_arena a;
    uint8_t good[8192], bytes[8192];
    size_t n = pack_event(good, sizeof good);
    rmq_arena_init(&a, MAX);
    const ProtobufCMessageDescriptor *d = &rmq__send_message_request__descriptor;
    assert_non_null(protobuf_c_message_unpack(d, &a.allocator, n, good));
    for (size_t cut = 0; cut < n; cut++) {
        rmq_arena_reset(&a);
        uint8_t *exact = malloc(cut + 1);
        memcpy(exact, good, cut);
        protobuf_c_message_unpack(d, &a.allocator, cut, exact);
        free(exact);
    }
    struct rng rng;
    rng_init_seed(&rng, 4);
    for (int i = 0; i < 20000; i++) {
        rmq_arena_reset(&a);
        memcpy(bytes, good, n);
        for (int k = 0; k < 4; k++)
            bytes[rng_below(&rng, n)] = (uint8_t)rng_u64(&rng);
        protobuf_c_message_unpack(d, &a.allocator, n, bytes);
        assert_true(a.used <= a.max);
    }
    /* Two bytes each for an empty message of the answer: a hundred times that in memory. */
    uint8_t *many = malloc(MAX);
    for (size_t i = 0; i < MAX; i += 2) {
        many[i] = 0x12;
        many[i + 1] = 0;
    }
    rmq_arena_reset(&a);
    assert_null(
        protobuf_c_message_unpack(&rmq__query_route_response__descriptor, &a.allocator, MAX, many));
    assert_true(a.used <= a.max);
    free(many);
    rmq_arena_reset(&a);
    assert_non_null(protobuf_c_message_unpack(d, &a.allocator, n, good)); /* and it goes on */
    rmq_arena_deinit(&a);
}

static void statuses(void **state)
{
    (void)state;
    const char *text;
    Rmq__Status s = RMQ__STATUS__INIT;
    s.has_code = true;
    s.code = 42900;
    Rmq__SendMessageResponse r = RMQ__SEND_MESSAGE_RESPONSE__INIT;
    assert_int_equal(rmq_method_status(RMQ_SEND, &r.base, &text), 0);
    assert_string_equal(text, "");
    r.status = &s;
    s.message = (char *)(uintptr_t) "slow down";
    assert_int_equal(rmq_method_status(RMQ_SEND, &r.base, &text), 42900);
    assert_string_equal(text, "slow down");
    Rmq__ReceiveMessageResponse v = RMQ__RECEIVE_MESSAGE_RESPONSE__INIT;
    v.content_case = RMQ__RECEIVE_MESSAGE_RESPONSE__CONTENT_STATUS;
    v.status = &s;
    assert_int_equal(rmq_method_status(RMQ_RECEIVE, &v.base, &text), 42900);
    Rmq__Message m = RMQ__MESSAGE__INIT;
    v.content_case = RMQ__RECEIVE_MESSAGE_RESPONSE__CONTENT_MESSAGE;
    v.message = &m;
    assert_int_equal(rmq_method_status(RMQ_RECEIVE, &v.base, &text), 0);
}

/* Rule 14, and: a receipt that does not fit is an error that loses nothing. */
static void receipts(void **state)
{
    (void)state;
    static const struct {
        int code;
        struct rmq_receipt receipt;
        int rc;
        bool odd;
    } expected[] = {
        {20000, {1, 20000, true, 1}, 0, false},
        {20000, {0, 0, false, 1}, ERR_UNCERTAIN, true},
        {20000, {2, 0, false, 1}, ERR_UNCERTAIN, true},
        {20000, {1, 20000, false, 1}, ERR_UNCERTAIN, true},
        {20000, {1, 50401, true, 1}, ERR_UNCERTAIN, true},
        {30000, {1, 20000, true, 1}, ERR_UNCERTAIN, true},
        {30000, {0, 0, false, 1}, ERR_UNCERTAIN, false},
        {40014, {0, 0, false, 1}, ERR_UNAVAIL, false},
        {40014, {1, 40014, false, 1}, ERR_UNAVAIL, false},
        {40014, {1, 20000, true, 1}, ERR_UNCERTAIN, true}, /* stored, whatever the frame says */
        {42900, {0, 0, false, 1}, ERR_UNAVAIL, false},
        {50001, {0, 0, false, 1}, ERR_UNCERTAIN, false},
        /* of three messages: one receipt, or three that agree */
        {20000, {1, 20000, false, 3}, 0, false},
        {20000, {3, 20000, true, 3}, 0, false},
        {20000, {2, 20000, true, 3}, ERR_UNCERTAIN, true},
        {20000, {0, 0, false, 3}, ERR_UNCERTAIN, true},
        {20000, {1, 50401, false, 3}, ERR_UNCERTAIN, true},
        {20000, {3, -1, true, 3}, ERR_UNCERTAIN, true},
        {30000, {3, -1, true, 3}, ERR_UNCERTAIN, true},
        {42900, {0, 0, false, 3}, ERR_UNAVAIL, false},
    };
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        struct rmq_answer a = {.method = RMQ_SEND, .code = expected[i].code, .text = ""};
        bool odd;
        a.class = rmq_class_of(a.code);
        a.rc = rmq_class_rc(a.class);
        assert_int_equal(rmq_receipt_judge(&a, &expected[i].receipt, &odd), expected[i].rc);
        assert_int_equal(odd, expected[i].odd);
    }
    struct rmq_answer lost = {.class = RMQ_UNKNOWN, .rc = ERR_UNCERTAIN, .transport = true};
    struct rmq_answer unsent = {.class = RMQ_UNKNOWN, .rc = ERR_UNAVAIL, .transport = true};
    bool odd;
    assert_int_equal(rmq_receipt_judge(&lost, &(struct rmq_receipt){0}, &odd), ERR_UNCERTAIN);
    assert_int_equal(rmq_receipt_judge(&unsent, &(struct rmq_receipt){0}, &odd), ERR_UNAVAIL);
    assert_int_equal(rmq_again_after(&lost, ERR_UNCERTAIN), RMQ_AGAIN_ANYWHERE);
    assert_int_equal(rmq_again_after(&unsent, ERR_CANCELED), RMQ_AGAIN_NO);
}

static void choices(void **state)
{
    (void)state;
    struct rmq_channel c[3] = {0};
    struct rmq_channel *all[3] = {&c[0], &c[1], &c[2]};
    unsigned turn = 0;
    /* in turn */
    assert_ptr_equal(rmq_choose(all, 3, &turn, NULL, 2), &c[0]);
    assert_ptr_equal(rmq_choose(all, 3, &turn, NULL, 2), &c[1]);
    assert_ptr_equal(rmq_choose(all, 3, &turn, NULL, 2), &c[2]);
    assert_ptr_equal(rmq_choose(all, 3, &turn, NULL, 2), &c[0]);
    /* not the isolated, not the one that failed */
    c[1].isolated = true;
    turn = 1;
    assert_ptr_equal(rmq_choose(all, 3, &turn, NULL, 2), &c[2]);
    turn = 2;
    assert_ptr_equal(rmq_choose(all, 3, &turn, &c[2], 2), &c[0]);
    /* not the full one; all full: nowhere, rather than to the isolated one */
    c[0].sends = 2;
    turn = 0;
    assert_ptr_equal(rmq_choose(all, 3, &turn, NULL, 2), &c[2]);
    c[2].sends = 2;
    assert_null(rmq_choose(all, 3, &turn, NULL, 2));
    /* the one that failed is still better than an isolated one, and all isolated are used */
    c[0].sends = c[2].sends = 0;
    c[0].isolated = true;
    assert_ptr_equal(rmq_choose(all, 3, &turn, &c[2], 2), &c[2]);
    c[2].isolated = true;
    turn = 2;
    assert_ptr_equal(rmq_choose(all, 3, &turn, &c[2], 2), &c[0]);
    assert_ptr_equal(rmq_choose(all, 1, &turn, &c[0], 2), &c[0]);
    assert_null(rmq_choose(all, 0, &turn, NULL, 2));
}

static void bad_configuration(void **state)
{
    (void)state;
    struct loop *l = loop_new();
    const struct rocketmq_config wrong[] = {
        {.topic = "T"},
        {.endpoints = "a:1"},
        {.endpoints = "a:1,b", .topic = "T"},
        {.endpoints = "a:1", .topic = "a b"},
        {.endpoints = "a:1", .topic = "T", .access_key = "x"},
        {.endpoints = "a:1", .topic = "T", .endpoint_map = "a:1"},
        {.endpoints = "a:1", .topic = "T", .max_sends = -1},
        {.endpoints = "a:1", .topic = "T", .request_us = -1},
        {.endpoints = "a:1", .topic = "T", .consume = true, .max_in_hand = 1},
        {.endpoints = "a:1", .topic = "T", .tls = true, .ca_file = "/nowhere"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        char err[200] = "";
        assert_null(rocketmq_queue_new(l, &wrong[i], err, sizeof err));
        assert_true(err[0]);
    }
    loop_free(l);
}

/* tests/docs does not see them: its programs have the default queue. */
static void each_metric_is_documented(void **state)
{
    (void)state;
    struct rmq_metrics m;
    rmq_metrics_init(&m, "rocketmq");
    assert_true(test_metrics_documented() >= 15);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(message_id),
        cmocka_unit_test(signature),
        cmocka_unit_test(keys_and_names),
        cmocka_unit_test(the_longest_keys),
        cmocka_unit_test(codes),
        cmocka_unit_test(tags_of_commands),
        cmocka_unit_test(message_there_and_back),
        cmocka_unit_test(hostile_bytes),
        cmocka_unit_test(statuses),
        cmocka_unit_test(receipts),
        cmocka_unit_test(choices),
        cmocka_unit_test(bad_configuration),
        cmocka_unit_test(each_metric_is_documented),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
