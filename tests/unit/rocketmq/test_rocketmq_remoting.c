/* The remoting protocol's frames and the bodies that the backlog is read from: what a broker
 * writes, cut at each byte, with each byte changed, and nonsense. */
#include "adapter/rocketmq/backlog.h"
#include "adapter/rocketmq/remoting.h"
#include "adapter/rocketmq/remoting_json.h"
#include "base/err.h"
#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

/* As a 5.5.0 broker writes it. */
static const char stats[] =
    "{\"consumeTps\":0.0,\"offsetTable\":{"
    "{\"brokerName\":\"b0\",\"queueId\":0,\"topic\":\"T\"}:{\"brokerOffset\":7,\"consumerOffset\":"
    "3,"
    "\"lastTimestamp\":0,\"pullOffset\":3},"
    "{\"brokerName\":\"b0\",\"queueId\":0,\"topic\":\"%RETRY%G_T\"}:{\"brokerOffset\":2,"
    "\"consumerOffset\":1,\"lastTimestamp\":17,\"pullOffset\":1},"
    "{\"brokerName\":\"b0\",\"queueId\":1,\"topic\":\"T\"}:{\"brokerOffset\":5,\"consumerOffset\":-"
    "1,"
    "\"lastTimestamp\":0,\"pullOffset\":3}}}";
static const char spans[] =
    "{\"consumeTimeSpanSet\":[{\"consumeTimeStamp\":0,\"delayTime\":0,\"maxTimeStamp\":5,"
    "\"messageQueue\":{\"brokerName\":\"b0\",\"queueId\":1,\"topic\":\"T\"},\"minTimeStamp\":1},"
    "{\"delayTime\":4711,\"messageQueue\":{\"brokerName\":\"b0\",\"queueId\":0,\"topic\":\"T\"}}]}";
static const char route[] =
    "{\"brokerDatas\":[{\"brokerAddrs\":{0:\"127.0.0.1:10911\",1:\"127.0.0.1:20911\"},"
    "\"brokerName\":"
    "\"b0\",\"cluster\":\"DefaultCluster\",\"enableActingMaster\":false},{\"brokerAddrs\":{0:"
    "\"broker-1.example:10911\"},\"brokerName\":\"b1\"}],\"filterServerTable\":{},\"queueDatas\":[{"
    "\"brokerName\":\"b0\",\"perm\":6,\"readQueueNums\":4,\"topicSysFlag\":0,\"writeQueueNums\":4}]"
    "}";

/* A copy on the heap, to the byte, so that the sanitizer sees a read beyond it. */
struct copy {
    char *mem;
    struct str s;
};
static struct copy copy_of(const char *bytes, size_t n)
{
    struct copy c = {.mem = malloc(n ? n : 1)};
    assert_non_null(c.mem);
    memcpy(c.mem, bytes, n);
    c.s = (struct str){c.mem, n};
    return c;
}

static int waiting(struct str body, const char *topic, int64_t *n)
{
    *n = 0;
    return backlog_waiting(body, topic, n);
}

static void what_a_broker_writes(void **state)
{
    (void)state;
    int64_t n, ms = 0;
    char masters[BACKLOG_BROKERS][BACKLOG_ADDRESS];
    assert_int_equal(waiting(str_of(stats), "T", &n), 2);
    assert_int_equal(n, 4 + 5);
    assert_int_equal(waiting(str_of(stats), "%RETRY%G_T", &n), 1);
    assert_int_equal(n, 1);
    assert_int_equal(waiting(str_of(stats), "%RETRY%*", &n), 1);
    assert_int_equal(n, 1);
    assert_int_equal(waiting(str_of(stats), "*", &n), 3);
    assert_int_equal(n, 10);
    assert_int_equal(waiting(str_of(stats), "other", &n), 0);
    assert_int_equal(n, 0);
    assert_int_equal(waiting(STR("{\"consumeTps\":0.0,\"offsetTable\":{}}"), "T", &n), 0);
    assert_int_equal(n, 0);
    assert_int_equal(backlog_oldest_ms(str_of(spans), &ms), 0);
    assert_int_equal(ms, 4711);
    assert_int_equal(backlog_oldest_ms(STR("{\"consumeTimeSpanSet\":[]}"), &ms), 0);
    assert_int_equal(ms, 4711); /* the most of all that was asked */
    assert_int_equal(backlog_masters(str_of(route), masters), 2);
    assert_string_equal(masters[0], "127.0.0.1:10911");
    assert_string_equal(masters[1], "broker-1.example:10911");
}

/* Unknown is never zero (rule 31): whatever is cut off makes the whole unknown. */
static void cut_at_each_byte(void **state)
{
    (void)state;
    for (size_t cut = 0; cut < sizeof stats - 1; cut++) {
        struct copy c = copy_of(stats, cut);
        int64_t n;
        assert_int_equal(waiting(c.s, "T", &n), ERR_INTERNAL);
        free(c.mem);
    }
    for (size_t cut = 0; cut < sizeof spans - 1; cut++) {
        struct copy c = copy_of(spans, cut);
        int64_t ms = 0;
        assert_int_equal(backlog_oldest_ms(c.s, &ms), ERR_INTERNAL);
        free(c.mem);
    }
    for (size_t cut = 0; cut < sizeof route - 1; cut++) {
        struct copy c = copy_of(route, cut);
        char masters[BACKLOG_BROKERS][BACKLOG_ADDRESS];
        assert_int_equal(backlog_masters(c.s, masters), ERR_INTERNAL);
        free(c.mem);
    }
}

static void changed_anywhere(void **state)
{
    (void)state;
    struct rng rng;
    rng_init_seed(&rng, 4);
    for (int turn = 0; turn < 20000; turn++) {
        static const char alphabet[] = "{}[]:,\"\\0129-+e.xT \0\xff";
        struct copy c = copy_of(stats, sizeof stats - 1), d = copy_of(route, sizeof route - 1);
        for (int k = (int)rng_below(&rng, 3); k >= 0; k--) {
            c.mem[rng_below(&rng, c.s.len)] = alphabet[rng_below(&rng, sizeof alphabet)];
            d.mem[rng_below(&rng, d.s.len)] = alphabet[rng_below(&rng, sizeof alphabet)];
        }
        char masters[BACKLOG_BROKERS][BACKLOG_ADDRESS];
        int64_t n, ms = 0;
        if (waiting(c.s, "T", &n) >= 0)
            assert_true(n >= 0);
        backlog_masters(d.s, masters);
        backlog_oldest_ms(c.s, &ms);
        free(c.mem);
        free(d.mem);
    }
}

static void nonsense(void **state)
{
    (void)state;
    static const char *const bodies[] = {
        "",
        "{}",
        "[]",
        "null",
        "{\"offsetTable\":null}",
        "{\"offsetTable\":[]}",
        "{\"offsetTable\":{{\"queueId\":0}:{\"brokerOffset\":1,\"consumerOffset\":1}}}",
        "{\"offsetTable\":{{\"topic\":\"T\"}:{\"brokerOffset\":1}}}",
        "{\"offsetTable\":{{\"topic\":\"T\"}:{\"brokerOffset\":\"1\",\"consumerOffset\":0}}}",
        "{\"offsetTable\":{{\"topic\":\"T\"}:{\"brokerOffset\":-9223372036854775808,"
        "\"consumerOffset\":0}}}",
        "{\"offsetTable\":{{\"topic\":\"T\"}:{\"brokerOffset\":99999999999999999999,"
        "\"consumerOffset\":0}}}",
        "{\"offsetTable\":{{\"topic\":\"T\"}:{\"brokerOffset\":1.5,\"consumerOffset\":0}}}",
        "{\"offsetTable\":{}} {}",
        "{\"offsetTable\":{},}",
        "{\"offsetTable\":{{{{{{{{{{{{{{{{{{{{{{{{{{",
    };
    for (size_t i = 0; i < sizeof bodies / sizeof bodies[0]; i++) {
        int64_t n, ms = 0;
        char masters[BACKLOG_BROKERS][BACKLOG_ADDRESS];
        assert_int_equal(waiting(str_of(bodies[i]), "T", &n), ERR_INTERNAL);
        assert_int_equal(backlog_oldest_ms(str_of(bodies[i]), &ms), ERR_INTERNAL);
        assert_int_equal(backlog_masters(str_of(bodies[i]), masters), ERR_INTERNAL);
    }
    int64_t ms = 0;
    assert_int_equal(backlog_oldest_ms(STR("{\"consumeTimeSpanSet\":[{}]}"), &ms), ERR_INTERNAL);
    assert_int_equal(/* "since 1970": it could not look */
                     backlog_oldest_ms(
                         STR("{\"consumeTimeSpanSet\":[{\"delayTime\":1780000000001}]}"), &ms),
                     ERR_INTERNAL);
    /* Consumed beyond the end, for a moment: nothing waits. */
    int64_t n;
    assert_int_equal(waiting(STR("{\"offsetTable\":{{\"topic\":\"T\"}:{\"brokerOffset\":1,"
                                 "\"consumerOffset\":2}}}"),
                             "T", &n),
                     1);
    assert_int_equal(n, 0);
}

/* As 5.5.0 says it before the group's first receive. */
static void a_group_without_a_position(void **state)
{
    (void)state;
    int64_t ms = 0;
    assert_int_equal(
        backlog_oldest_ms(STR("{\"consumeTimeSpanSet\":[{\"consumeTimeStamp\":-1,\"delayTime\":"
                              "1796067134376,\"maxTimeStamp\":-1,\"minTimeStamp\":-1}]}"),
                          &ms),
        0);
    assert_int_equal(ms, 0);
    assert_int_equal(
        backlog_oldest_ms(STR("{\"consumeTimeSpanSet\":[{\"delayTime\":1796067136518,"
                              "\"maxTimeStamp\":1796067135096,\"minTimeStamp\":1796067134942}]}"),
                          &ms),
        0);
    assert_int_equal(ms, 1576);
}

/* Unknown, and nothing that the sanitizer would see. */
static void spans_out_of_this_world(void **state)
{
    (void)state;
    static const char *const delays[] = {"9223372036854775807", "9223372036854775806",
                                         "9007199254740992", "1780000000001"};
    static const char *const times[][2] = {{"-1", "5"},  {"5", "-1"}, {NULL, "5"}, {"5", NULL},
                                           {NULL, NULL}, {"-2", "5"}, {"1", "5"}};
    for (size_t i = 0; i < sizeof delays / sizeof delays[0]; i++) {
        for (size_t k = 0; k < sizeof times / sizeof times[0]; k++) {
            char body[256];
            struct strbuf b;
            int64_t ms = 7;
            strbuf_init_fixed(&b, body, sizeof body);
            strbuf_printf(&b, "{\"consumeTimeSpanSet\":[{\"delayTime\":%s", delays[i]);
            if (times[k][0])
                strbuf_printf(&b, ",\"minTimeStamp\":%s", times[k][0]);
            if (times[k][1])
                strbuf_printf(&b, ",\"maxTimeStamp\":%s", times[k][1]);
            strbuf_printf(&b, "}]}");
            assert_int_equal(backlog_oldest_ms(strbuf_str(&b), &ms), ERR_INTERNAL);
            assert_int_equal(ms, 7);
        }
    }
}

static void brokers_without_a_master(void **state)
{
    (void)state;
    char masters[BACKLOG_BROKERS][BACKLOG_ADDRESS];
    assert_int_equal(
        backlog_masters(STR("{\"brokerDatas\":[{\"brokerAddrs\":{0:\"a:1\"}},{\"brokerAddrs\":{1:"
                            "\"b:1\"}}]}"),
                        masters),
        ERR_UNAVAIL); /* its backlog cannot be asked for */
    for (int n = BACKLOG_BROKERS; n <= BACKLOG_BROKERS + 1; n++) {
        struct strbuf b;
        strbuf_init(&b, 1 << 16);
        strbuf_add_str(&b, STR("{\"brokerDatas\":["));
        for (int i = 0; i < n; i++)
            strbuf_printf(&b, "%s{\"brokerAddrs\":{0:\"a:%d\"}}", i ? "," : "", i);
        strbuf_add_str(&b, STR("]}"));
        assert_int_equal(backlog_masters(strbuf_str(&b), masters),
                         n == BACKLOG_BROKERS ? n : ERR_OVERLOAD);
        strbuf_deinit(&b);
    }
}

static void addresses(void **state)
{
    (void)state;
    static const struct {
        const char *address;
        bool taken;
    } rows[] = {{"127.0.0.1:10911", true},
                {"broker-1.example:1", true},
                {"[::1]:10911", true},
                {"a", false},
                {"a:", false},
                {":1", false},
                {"a:0", false},
                {"a:65536", false},
                {"a b:1", false},
                {"::1:10911", false},
                {"a:1x", false},
                {"", false}};
    struct loop *l = loop_new();
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct remoting *r = remoting_new(l, rows[i].address, NULL, NULL);
        assert_int_equal(r != NULL, rows[i].taken);
        remoting_free(r);
    }
    loop_free(l);
}

/* --- frames --- */
static struct str frame_of(struct strbuf *b, const char *header, const char *body)
{
    size_t h = strlen(header), n = strlen(body);
    unsigned char lengths[8] = {0, 0, (unsigned char)((4 + h + n) >> 8), (unsigned char)(4 + h + n),
                                0, 0, (unsigned char)(h >> 8),           (unsigned char)h};
    strbuf_add(b, lengths, 8);
    strbuf_add(b, header, h);
    strbuf_add(b, body, n);
    return strbuf_str(b);
}

static void request(void **state)
{
    (void)state;
    char mem[1024];
    struct strbuf b;
    const struct remoting_field fields[] = {{"consumerGroup", "G"}, {"topic", "%RETRY%G_T"}};
    strbuf_init_fixed(&b, mem, sizeof mem);
    remoting_encode(&b, 208, 5, fields, 2, NULL, NULL);
    static const char expected[] =
        "{\"code\":208,\"flag\":0,\"language\":\"OTHER\",\"opaque\":5,\"serializeTypeCurrentRPC\":"
        "\"JSON\",\"version\":500,\"extFields\":{\"consumerGroup\":\"G\",\"topic\":\"%RETRY%G_T\"}"
        "}";
    assert_int_equal(b.len, 8 + sizeof expected - 1);
    assert_memory_equal(b.ptr + 8, expected, sizeof expected - 1);
    assert_int_equal(remoting_frame_length(strbuf_str(&b), 4096), b.len);
    /* HMAC-SHA1("secret", "akG%RETRY%G_T"), computed with Python's hmac. */
    strbuf_clear(&b);
    remoting_encode(&b, 208, 6, fields, 2, "ak", "secret");
    strbuf_add_char(&b, '\0');
    assert_non_null(strstr(b.ptr + 8, "\"extFields\":{\"AccessKey\":\"ak\",\"Signature\":\""
                                      "ePtv8tv8zOpX0eiTlU+kV8hDuwg=\","));
    /* A buffer that is too small is told. */
    char tiny[64];
    strbuf_init_fixed(&b, tiny, sizeof tiny);
    remoting_encode(&b, 208, 6, fields, 2, NULL, NULL);
    assert_true(b.failed);
}

static void answers(void **state)
{
    (void)state;
    char mem[512];
    struct strbuf b;
    struct remoting_answer a;
    strbuf_init_fixed(&b, mem, sizeof mem);
    struct str whole = frame_of(
        &b, "{\"code\":17,\"extFields\":{\"a\":\"b\"},\"flag\":1,\"opaque\":9,\"remark\":\"No\"}",
        "body");
    assert_int_equal(remoting_decode(whole, &a), 0);
    assert_int_equal(a.code, REMOTING_NO_TOPIC);
    assert_int_equal(a.opaque, 9);
    assert_true(str_eq(a.remark, STR("No")));
    assert_true(str_eq(a.body, STR("body")));
    for (size_t cut = 0; cut < whole.len; cut++) {
        struct copy c = copy_of(whole.ptr, cut);
        int64_t n = remoting_frame_length(c.s, 4096);
        assert_true(n == (cut < 4 ? 0 : (int64_t)whole.len));
        assert_int_equal(remoting_decode(c.s, &a), ERR_INTERNAL);
        free(c.mem);
    }
    for (size_t at = 0; at < whole.len; at++) {
        for (int bit = 0; bit < 8; bit++) {
            struct copy c = copy_of(whole.ptr, whole.len);
            c.mem[at] = (char)(c.mem[at] ^ 1 << bit);
            remoting_decode(c.s, &a); /* whatever it says, it reads inside */
            free(c.mem);
        }
    }
    /* A question of the broker's own is no answer. */
    strbuf_clear(&b);
    whole = frame_of(&b, "{\"code\":40,\"flag\":0,\"opaque\":9}", "");
    assert_int_equal(remoting_decode(whole, &a), 0);
    assert_int_equal(a.code, -1);
    static const char *const headers[] = {
        "", "{}", "[]", "{\"flag\":1}", "{\"code\":\"0\",\"flag\":1}", "{\"code\":0,\"flag\":1}x"};
    for (size_t i = 0; i < sizeof headers / sizeof headers[0]; i++) {
        strbuf_clear(&b);
        assert_int_equal(remoting_decode(frame_of(&b, headers[i], ""), &a), ERR_INTERNAL);
    }
}

static void lengths(void **state)
{
    (void)state;
    assert_int_equal(remoting_frame_length(STR("\0\0\0\3"), 4096), ERR_INTERNAL);
    assert_int_equal(remoting_frame_length(STR("\xff\xff\xff\xff"), 4096), ERR_INTERNAL);
    assert_int_equal(remoting_frame_length(STR("\0\0\x10\0"), 4096), ERR_INTERNAL); /* 4 too many */
    assert_int_equal(remoting_frame_length(STR("\0\0\x0f\xfc"), 4096), 4096);
    assert_int_equal(remoting_frame_length(STR("HTTP/1.1 400"), 4096), ERR_INTERNAL);
    struct remoting_answer a;
    assert_int_equal(remoting_decode(STR("\0\0\0\6\1\0\0\2{}"), &a), ERR_INTERNAL); /* ROCKETMQ */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_broker_writes),
        cmocka_unit_test(cut_at_each_byte),
        cmocka_unit_test(changed_anywhere),
        cmocka_unit_test(nonsense),
        cmocka_unit_test(a_group_without_a_position),
        cmocka_unit_test(spans_out_of_this_world),
        cmocka_unit_test(brokers_without_a_master),
        cmocka_unit_test(addresses),
        cmocka_unit_test(request),
        cmocka_unit_test(answers),
        cmocka_unit_test(lengths),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
