/* Commands on the queue: the order event's body and what makes it a command (rule 27,
 * docs/decisions/0012). */
#include "event_fixture.h"

static struct event command_event(enum event_command c)
{
    struct event e = seed_event();
    e.command = c;
    e.schema_version = EVENT_SCHEMA_COMMAND;
    e.payment_id = STR("");
    if (c == EVENT_PAY) {
        e.payment_id = STR("pay_2026:06-25.1");
        e.accepted_at_ms = INT64_C(1782388801007);
    }
    return e;
}

static void encode(const struct event *e, struct strbuf *b)
{
    strbuf_init(b, EVENT_MAX_BYTES);
    event_encode(e, false, b);
    assert_false(b->failed);
}

static void test_an_order_event_says_no_command(void **state)
{
    (void)state;
    struct event e = seed_event();
    struct strbuf b;
    encode(&e, &b);
    assert_int_equal(b.len, sizeof seed - 1 + sizeof tail - 1);
    assert_memory_equal(b.ptr + sizeof seed - 1, tail, sizeof tail - 1);
    strbuf_deinit(&b);
}

static void test_there_and_back(void **state)
{
    (void)state;
    static const char *const ends[EVENT_COMMANDS] = {
        [EVENT_CANCEL] = ",\"epoch\":7,\"seq\":42,\"command\":\"ORDER_CANCEL_REQUESTED\"}",
        [EVENT_PAY] = ",\"epoch\":7,\"seq\":42,\"command\":\"ORDER_PAY_REQUESTED\",\"payment_id\":"
                      "\"pay_2026:06-25.1\",\"accepted_at\":\"2026-06-25T12:00:01.007000Z\"}",
    };
    for (int c = EVENT_CANCEL; c < EVENT_COMMANDS; c++) {
        struct event e = command_event((enum event_command)c), back;
        struct strbuf b;
        encode(&e, &b);
        size_t n = strlen(ends[c]);
        assert_memory_equal(b.ptr + b.len - n, ends[c], n);
        assert_decodes(strbuf_str(&b), &back);
        assert_same(&e, &back);
        strbuf_deinit(&b);
    }
}

/* The largest of all bodies is inside the bound. */
static void test_the_longest(void **state)
{
    (void)state;
    static char id[EVENT_PAYMENT_ID_MAX], trace[EVENT_TRACE_MAX];
    memset(id, 'x', sizeof id);
    memset(trace, 't', sizeof trace);
    struct event e = command_event(EVENT_PAY), back;
    e.payment_id = (struct str){id, sizeof id};
    e.traceparent = e.tracestate = (struct str){trace, sizeof trace};
    e.item = (struct item){INT64_MAX, INT64_MAX};
    e.user_id = e.order_id = INT64_MAX;
    e.version = (struct item_version){INT64_MAX, INT64_MAX};
    struct strbuf b;
    encode(&e, &b);
    assert_decodes(strbuf_str(&b), &back);
    assert_same(&e, &back);
    strbuf_deinit(&b);
}

static void assert_reason(const char *extra, int schema, const char *reason)
{
    char body[2048];
    size_t n = (size_t)snprintf(body, sizeof body, "%s%s}", seed, extra);
    char *version = strstr(body, "\"schema_version\":1");
    assert_non_null(version);
    version[sizeof "\"schema_version\":1" - 2] = (char)('0' + schema);
    struct event e;
    const char *why = NULL;
    int rc = event_decode((struct str){body, n}, &e, &why);
    if (!reason) {
        assert_int_equal(rc, 0);
        return;
    }
    assert_int_equal(rc, ERR_INVALID);
    assert_string_equal(why, reason);
}

#define CANCEL ",\"command\":\"ORDER_CANCEL_REQUESTED\""
#define PAY ",\"command\":\"ORDER_PAY_REQUESTED\""
#define ID ",\"payment_id\":\"p\""
#define AT ",\"accepted_at\":\"2026-06-25T12:00:01Z\""

static void test_what_is_refused(void **state)
{
    (void)state;
    assert_reason(CANCEL, 2, NULL);
    assert_reason(PAY ID AT, 2, NULL);
    assert_reason(",\"command\":\"ORDER_CREATE_REQUESTED\"", 2, NULL);
    assert_reason("", 2, NULL);
    /* A reader of version 1 would have made an order of it. */
    assert_reason(CANCEL, 1, "a command of schema_version 1");
    assert_reason(PAY ID AT, 1, "a command of schema_version 1");
    assert_reason(CANCEL, 3, "schema_version");
    assert_reason(PAY AT, 2, "payment_id is missing");
    assert_reason(PAY ID, 2, "accepted_at is missing");
    assert_reason(PAY ID ID AT, 2, "payment_id comes twice");
    assert_reason(CANCEL CANCEL, 2, "command comes twice");
    assert_reason(",\"command\":\"ORDER_SHIP_REQUESTED\"", 2, "command is wrong");
    assert_reason(",\"command\":\"\"", 2, "command is wrong");
    assert_reason(",\"command\":null", 2, "command is wrong");
    assert_reason(",\"command\":[1]", 2, "command is wrong");
    assert_reason(PAY AT ",\"payment_id\":\"\"", 2, "payment_id is wrong");
    assert_reason(PAY AT ",\"payment_id\":\"a b\"", 2, "payment_id is wrong");
    assert_reason(PAY AT ",\"payment_id\":7", 2, "payment_id is wrong");
    assert_reason(PAY ID ",\"accepted_at\":\"yesterday\"", 2, "accepted_at is wrong");
    assert_reason(PAY ID ",\"accepted_at\":1782388801007", 2, "accepted_at is wrong");
}

static void test_payment_ids(void **state)
{
    (void)state;
    char text[EVENT_PAYMENT_ID_MAX + 2];
    memset(text, 'a', sizeof text);
    assert_true(event_payment_id_ok((struct str){text, EVENT_PAYMENT_ID_MAX}));
    assert_false(event_payment_id_ok((struct str){text, EVENT_PAYMENT_ID_MAX + 1}));
    assert_false(event_payment_id_ok(STR("")));
    assert_true(event_payment_id_ok(STR("AZaz09.:_-")));
    assert_true(event_payment_id_ok(STR("cance")));
    assert_false(event_payment_id_ok(STR("cancel")));
    assert_false(event_payment_id_ok(STR("cancel019f2db9-8af0-7a21-88e1-2df337730002")));
    for (int c = 0; c < 256; c++) {
        text[0] = (char)c;
        bool letter = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
        bool sign = c && strchr(".:_-", c);
        assert_int_equal(event_payment_id_ok((struct str){text, 1}), letter || sign);
    }
}

/* Rule 27; the values are Python's uuid.uuid5. */
static void test_rule_27_message_ids(void **state)
{
    (void)state;
    struct uuid reservation = id("019f2db9-8af0-7a21-88e1-2df337730002");
    struct uuid cancel = event_cancel_id(&reservation), pay = event_pay_id(STR("pay_1"));
    assert_string_equal(uuid_text(&cancel).z, "c7ac69d4-47e2-5353-8dd8-4c2a91b02d42");
    assert_string_equal(uuid_text(&pay).z, "e6b2bd6d-90e8-5ed3-9f0a-a7121f25e818");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_order_event_says_no_command),
        cmocka_unit_test(test_there_and_back),
        cmocka_unit_test(test_the_longest),
        cmocka_unit_test(test_what_is_refused),
        cmocka_unit_test(test_payment_ids),
        cmocka_unit_test(test_rule_27_message_ids),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
