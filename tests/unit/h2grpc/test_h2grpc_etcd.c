/* The client against a real gRPC server: etcd, with protobuf written by hand. */
#include "h2grpc_test.h"

#include "base/clock.h"
#include "support/private_etcd.h"
#include <stdio.h>
#include <stdlib.h>

#define KV "/etcdserverpb.KV/"

static struct loop *loop;
static struct private_etcd etcd;
static struct h2grpc *channel;

/* --- protobuf, as far as it is needed: fields below 16 --- */

static size_t put_bytes(unsigned char *at, int field, const char *text)
{
    size_t n = strlen(text);
    assert_true(n < 128);
    at[0] = (unsigned char)(field << 3 | 2);
    at[1] = (unsigned char)n;
    memcpy(at + 2, text, n);
    return n + 2;
}

static size_t put_varint(unsigned char *at, int field, uint64_t v)
{
    size_t n = 0;
    at[n++] = (unsigned char)(field << 3);
    for (; v >= 128; v >>= 7)
        at[n++] = (unsigned char)(v | 128);
    at[n++] = (unsigned char)v;
    return n;
}

static size_t get_varint(const unsigned char *at, uint64_t *v)
{
    size_t n = 0;
    *v = 0;
    do
        *v |= (uint64_t)(at[n] & 127) << 7 * n;
    while (at[n++] & 128);
    return n;
}

/* The first field of that number at the top level; false: there is none. */
static bool get_field(const unsigned char *at, size_t n, int field, uint64_t *v)
{
    for (size_t i = 0; i < n;) {
        uint64_t tag, value;
        i += get_varint(at + i, &tag);
        i += get_varint(at + i, &value);
        if ((int)(tag >> 3) == field) {
            *v = value;
            return true;
        }
        if ((tag & 7) == 2)
            i += value;
    }
    return false;
}

static struct str view(const unsigned char *bytes, size_t n)
{
    return (struct str){(const char *)bytes, n};
}

static bool contains(const struct test_call *t, const char *text)
{
    return memmem(t->last, t->last_n, text, strlen(text)) != NULL;
}

static int put(const char *key, const char *value)
{
    unsigned char m[256];
    size_t n = put_bytes(m, 1, key);
    n += put_bytes(m + n, 2, value);
    struct test_call t;
    test_call_init(&t, KV "Put", view(m, n), in(5 * SECONDS));
    return test_call_run(loop, channel, &t);
}

static int range(struct test_call *t, const char *key)
{
    unsigned char m[256];
    test_call_init(t, KV "Range", view(m, put_bytes(m, 1, key)), in(5 * SECONDS));
    return test_call_run(loop, channel, t);
}

/* --- tests --- */

static void unary_calls(void **state)
{
    (void)state;
    struct test_call t;
    assert_int_equal(put("item", "seven"), 0);
    assert_int_equal(range(&t, "item"), 0);
    assert_int_equal(t.messages, 1);
    assert_true(t.end.from_server);
    assert_true(contains(&t, "seven"));
    assert_true(t.call.sent_us > 0);
    assert_true(h2grpc_up(channel));
}

static void a_refusal_is_the_servers_word(void **state)
{
    (void)state;
    struct test_call t;
    test_call_init(&t, "/etcdserverpb.KV/Nothing", STR(""), in(5 * SECONDS));
    assert_int_equal(test_call_run(loop, channel, &t), ERR_INVALID);
    assert_int_equal(t.end.status, GRPC_UNIMPLEMENTED);
    assert_true(t.end.from_server);
    assert_int_equal(t.messages, 0);
    /* An empty key: etcd's own check. */
    test_call_init(&t, KV "Put", STR(""), in(5 * SECONDS));
    assert_int_equal(test_call_run(loop, channel, &t), ERR_INVALID);
    assert_int_equal(t.end.status, GRPC_INVALID_ARGUMENT);
    assert_non_null(strstr(t.text, "key is not provided"));
}

static void start_watch(struct test_call *t, const char *key, unsigned char *m)
{
    size_t n = put_bytes(m + 2, 1, key);
    m[0] = 1 << 3 | 2; /* create_request */
    m[1] = (unsigned char)n;
    test_call_init(t, "/etcdserverpb.Watch/Watch", view(m, n + 2), INT64_MAX);
    t->call.streaming = true;
    h2grpc_start(channel, &t->call);
}

static void a_watch_sees_puts_until_it_is_cancelled(void **state)
{
    (void)state;
    unsigned char m[64];
    struct test_call w;
    start_watch(&w, "seen", m);
    UNTIL(loop, w.messages == 1); /* created */
    for (int i = 0; i < 20; i++) {
        char value[16];
        snprintf(value, sizeof value, "value-%d", i);
        assert_int_equal(put("seen", value), 0);
        UNTIL(loop, w.messages == 2 + i);
        assert_true(contains(&w, value));
    }
    h2grpc_cancel(&w.call);
    assert_int_equal(w.ends, 0);
    UNTIL(loop, w.ends);
    assert_int_equal(w.end.rc, ERR_UNCERTAIN);
    assert_int_equal(w.end.status, GRPC_CANCELLED);
    assert_int_equal(put("seen", "again"), 0);
    assert_int_equal(w.messages, 21);
    assert_int_equal(w.ends, 1);
}

static void a_lease_is_kept_alive_message_by_message(void **state)
{
    (void)state;
    unsigned char m[64];
    struct test_call grant, keep;
    test_call_init(&grant, "/etcdserverpb.Lease/LeaseGrant", view(m, put_varint(m, 1, 60)),
                   in(5 * SECONDS));
    assert_int_equal(test_call_run(loop, channel, &grant), 0);
    uint64_t id, kept, ttl;
    assert_true(get_field(grant.last, grant.last_n, 2, &id));
    size_t n = put_varint(m, 1, id);
    test_call_init(&keep, "/etcdserverpb.Lease/LeaseKeepAlive", (struct str){0}, in(30 * SECONDS));
    keep.call.streaming = true;
    h2grpc_start(channel, &keep.call);
    for (int i = 0; i < 10; i++) {
        assert_int_equal(h2grpc_write(&keep.call, view(m, n)), 0);
        UNTIL(loop, keep.messages == i + 1);
        assert_true(get_field(keep.last, keep.last_n, 2, &kept));
        assert_true(get_field(keep.last, keep.last_n, 3, &ttl));
        assert_true(kept == id && ttl == 60);
    }
    h2grpc_close_send(&keep.call);
    assert_int_equal(h2grpc_write(&keep.call, view(m, n)), ERR_INVALID);
    UNTIL(loop, keep.ends);
    assert_int_equal(keep.end.rc, 0);
    assert_int_equal(h2grpc_write(&keep.call, view(m, n)), ERR_INVALID); /* over */
}

static void a_frozen_server_costs_the_deadline_and_nothing_else(void **state)
{
    (void)state;
    struct test_call t;
    unsigned char m[64];
    assert_int_equal(put("a", "b"), 0);
    private_etcd_freeze(&etcd);
    test_call_init(&t, KV "Range", view(m, put_bytes(m, 1, "a")), 0);
    assert_int_equal(test_call_expire(loop, channel, &t, 50 * MS), ERR_UNCERTAIN);
    assert_int_equal(t.end.status, GRPC_DEADLINE_EXCEEDED);
    assert_false(t.end.from_server);
    private_etcd_thaw(&etcd);
    assert_int_equal(range(&t, "a"), 0);
}

static void a_killed_server_is_found_again(void **state)
{
    (void)state;
    struct test_call w, t;
    unsigned char m[64], k[64];
    start_watch(&w, "x", m);
    UNTIL(loop, w.messages == 1);
    private_etcd_kill(&etcd);
    UNTIL(loop, w.ends);
    assert_int_equal(w.end.rc, ERR_UNCERTAIN);
    assert_false(h2grpc_up(channel));
    test_call_init(&t, KV "Range", view(k, put_bytes(k, 1, "a")), in(5 * SECONDS));
    t.call.fail_fast = true;
    assert_int_equal(test_call_run(loop, channel, &t), ERR_UNAVAIL);
    private_etcd_again(&etcd);
    assert_int_equal(range(&t, "a"), 0);
    assert_true(h2grpc_up(channel));
}

struct load {
    int left, under_way, failed;
};
static struct load load;

static void next(struct test_call *t)
{
    load.under_way -= load.left == 0;
    if (t->end.rc || t->messages != 1)
        load.failed++;
    if (load.under_way == 0)
        loop_stop(loop);
    if (load.left == 0)
        return;
    load.left--;
    t->messages = t->ends = 0;
    t->call.deadline_us = loop_now_us(loop) + 10 * SECONDS;
    h2grpc_start(channel, &t->call);
}

static void run_load(int calls, int at_once)
{
    static struct test_call t[64];
    static unsigned char m[16];
    size_t n = put_bytes(m, 1, "item");
    load = (struct load){.left = calls - at_once, .under_way = at_once};
    int64_t began = clock_mono_us(), cpu = clock_cpu_us();
    for (int i = 0; i < at_once; i++) {
        test_call_init(&t[i], KV "Range", view(m, n), in(60 * SECONDS));
        t[i].then = next;
        h2grpc_start(channel, &t[i].call);
    }
    loop_run(loop); /* each has its deadline */
    assert_int_equal(load.under_way, 0);
    assert_int_equal(load.failed, 0);
    print_message("%d Range calls, %d at once: %.1f us of CPU and %.1f us each\n", calls, at_once,
                  (double)(clock_cpu_us() - cpu) / calls,
                  (double)(clock_mono_us() - began) / calls);
}

/* SECKILL_BENCH=calls for figures. */
static void many_calls_at_once(void **state)
{
    (void)state;
    const char *bench = getenv("SECKILL_BENCH");
    int calls = bench ? atoi(bench) : 3000;
    assert_int_equal(put("item", "seven"), 0);
    run_load(calls, 64);
    run_load(bench ? calls / 4 : 300, 1);
}

static int set_up(void **state)
{
    (void)state;
    private_etcd_start(&etcd);
    loop = loop_new();
    char err[128] = "";
    channel =
        h2grpc_new(loop, &(struct h2grpc_config){.target = etcd.target, .metric_link = "etcd"}, err,
                   sizeof err);
    assert_string_equal(err, "");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    h2grpc_free(channel);
    loop_free(loop);
    private_etcd_stop(&etcd);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unary_calls),
        cmocka_unit_test(a_refusal_is_the_servers_word),
        cmocka_unit_test(a_watch_sees_puts_until_it_is_cancelled),
        cmocka_unit_test(a_lease_is_kept_alive_message_by_message),
        cmocka_unit_test(a_frozen_server_costs_the_deadline_and_nothing_else),
        cmocka_unit_test(many_calls_at_once),
        cmocka_unit_test(a_killed_server_is_found_again),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
