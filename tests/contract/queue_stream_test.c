/* What only the queue on Redis Streams has: the streams themselves. */
#include "adapter/redis_stream/redis_stream.h"
#include "queue_backend_redis.h"
#include "queue_client.h"

#include "base/metric.h"
#include <stdlib.h>

#define LEASE backend_lease_us
#define PR(...) private_redis_command(&backend_redis, __VA_ARGS__)
#define DO(...) freeReplyObject(PR(__VA_ARGS__))
#define NUM(...) private_redis_int(&backend_redis, __VA_ARGS__)

static int setup(void **state)
{
    (void)state;
    backend_start();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    backend_stop();
    return 0;
}

static struct queue *consumer(const char *name, struct item item)
{
    struct queue *q = backend_consumer(name, 256);
    q->ops->set_items(q, &item, 1);
    return q;
}

/* Lets time pass until the stream has at most n entries. */
static bool shrinks_to(const char *key, long long n)
{
    for (int i = 0; i < 200 && NUM("XLEN %s", key) > n; i++)
        client_rest(20 * MS);
    return NUM("XLEN %s", key) <= n;
}

static long long consumers_of(const char *key)
{
    redisReply *r = PR("XINFO CONSUMERS %s %s", key, EVENT_GROUP);
    long long n = r->type == REDIS_REPLY_ARRAY ? (long long)r->elements : -1;
    freeReplyObject(r);
    return n;
}

static void trim_keeps_what_is_not_acked(void **state)
{
    (void)state;
    enum { N = 1000, READ = 400, KEPT = 150 };
    struct item item = backend_item();
    struct queue *q = backend_consumer("a", READ);
    struct hand h = {0};
    char key[72], id[N][32];
    backend_key(item, key);
    q->ops->set_items(q, &item, 1);
    for (int i = 0; i < N; i++)
        client_append(item, i, id[i]);
    while (h.n < READ) {
        int room = READ - h.n < 100 ? READ - h.n : 100;
        assert_int_equal(client_receive(q, &h, room, LEASE), 0);
        assert_int_equal(client_extend(q, &h), h.n);
    }
    client_release(q, &h);
    /* Nothing was acked: all of it stays. Then all but one is acked: it and everything behind it
     * stay. */
    client_rest(200 * MS);
    assert_int_equal(NUM("XLEN %s", key), N);
    for (int i = 0; i < READ; i++) {
        if (i != KEPT)
            assert_int_equal(NUM("XACK %s %s %s", key, EVENT_GROUP, id[i]), 1);
    }
    assert_true(shrinks_to(key, N - KEPT + 100)); /* whole nodes of 100 entries go at once */
    client_rest(200 * MS);
    assert_true(NUM("XLEN %s", key) >= N - KEPT);
    redisReply *r = PR("XRANGE %s %s %s", key, id[KEPT], id[KEPT]);
    assert_int_equal(r->elements, 1);
    freeReplyObject(r);
    assert_int_equal(NUM("XACK %s %s %s", key, EVENT_GROUP, id[KEPT]), 1);
    assert_true(shrinks_to(key, N - READ + 100));
    client_rest(200 * MS);
    assert_true(NUM("XLEN %s", key) >= N - READ); /* what nobody received yet */
    int rest = 0;
    while (rest < N - READ) {
        assert_int_equal(client_receive(q, &h, 100, LEASE), 0);
        for (int i = 0; i < h.n; i++)
            assert_int_equal(client_number(h.m[i]), READ + rest + i);
        rest += h.n;
        assert_int_equal(client_ack(q, &h), h.n);
        client_release(q, &h);
    }
    assert_true(shrinks_to(key, 100));
    backend_kill(q);
}

static void a_lost_group_is_made_again(void **state)
{
    (void)state;
    struct item item = backend_item();
    struct queue *q = consumer("a", item);
    struct hand h = {0};
    char key[72];
    backend_key(item, key);
    client_append(item, 1, NULL);
    assert_int_equal(client_receive(q, &h, 5, LEASE), 0);
    assert_int_equal(NUM("XGROUP DESTROY %s %s", key, EVENT_GROUP), 1);
    assert_int_equal(client_extend(q, &h), 0);
    assert_int_equal(client_ack(q, &h), 0);
    client_release(q, &h);
    client_append(item, 2, NULL);
    while (h.n < 2) /* made at 0: all that the stream holds comes again */
        assert_int_equal(client_receive(q, &h, 5, 4 * LEASE), 0);
    assert_int_equal(client_ack(q, &h), 2);
    client_release(q, &h);
    /* The same while a receive waits. */
    struct pending_receive p;
    client_receive_start(&p, q, 5, 20 * LEASE);
    client_rest(100 * MS);
    DO("XGROUP DESTROY %s %s", key, EVENT_GROUP);
    client_append(item, 3, NULL);
    assert_int_equal(client_receive_end(&p, &h), 0);
    assert_true(h.n >= 1);
    client_ack(q, &h);
    client_release(q, &h);
    backend_kill(q);
}

static void a_stream_that_expires(void **state)
{
    (void)state;
    struct item item = backend_item();
    struct queue *q = consumer("a", item);
    struct queue_lag lag;
    struct pending_receive p;
    struct hand h = {0};
    char key[72], id[32];
    backend_key(item, key);
    client_append(item, 1, id);
    assert_int_equal(client_receive(q, &h, 5, LEASE), 0);
    assert_int_equal(NUM("PEXPIRE %s 1", key), 1);
    client_rest(20 * MS);
    assert_int_equal(NUM("EXISTS %s", key), 0);
    assert_int_equal(client_extend(q, &h), 0);
    assert_int_equal(client_ack(q, &h), 0);
    client_release(q, &h);
    assert_int_equal(client_locate(q, item, id), QUEUE_PASSED);
    assert_int_equal(client_lag(q, item, &lag), ERR_NOTFOUND); /* unknown is not zero (rule 31) */
    assert_int_equal(client_publish(q, item, 2, NULL), ERR_UNAVAIL);
    assert_int_equal(NUM("EXISTS %s", key),
                     0); /* never made by a late event, or the item could not be warmed */
    client_receive_start(&p, q, 5, 20 * LEASE);
    client_rest(2 * LEASE);
    assert_false(p.w.done);
    assert_int_equal(NUM("EXISTS %s", key), 0); /* nor by a reader */
    DO("XGROUP CREATE %s %s 0 MKSTREAM", key, EVENT_GROUP);
    int64_t sent = backend_now_us();
    client_append(item, 3, NULL);
    assert_int_equal(client_receive_end(&p, &h), 0);
    assert_int_equal(h.n, 1);
    assert_true(backend_now_us() - sent < LEASE);
    client_release(q, &h);
    backend_kill(q);
}

static char *script(const char *name)
{
    char path[512];
    snprintf(path, sizeof path, SECKILL_SOURCE_DIR "/lua/%s.lua", name);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    char *text = calloc(1, 65536);
    size_t n = fread(text, 1, 65535, f);
    assert_true(n > 0);
    fclose(f);
    return text;
}

static void events_of_the_reserve_script(void **state)
{
    (void)state;
    struct item item = backend_item();
    struct queue *q = consumer("a", item);
    struct pending_receive p;
    struct hand h = {0};
    char k[6][96], mem[EVENT_MAX_BYTES];
    static const char *const names[] = {"meta",    "stock", "buyers", "reservation:7:r",
                                        "pending", "events"};
    for (int i = 0; i < 6; i++)
        snprintf(k[i], sizeof k[i], "sec:{1:%lld}:%s", (long long)item.sku_id, names[i]);
    DO("HSET %s epoch 3 seq 41 state OPEN starts_ms 1 ends_ms 9999999999999 expires_ms "
       "9999999999999",
       k[0]);
    DO("SET %s 5", k[1]);
    struct event e = client_event(item, 7), got;
    struct strbuf open;
    strbuf_init_fixed(&open, mem, sizeof mem);
    event_encode(&e, true, &open);
    char *lua = script("reserve");
    client_receive_start(&p, q, 5, 20 * LEASE);
    client_rest(50 * MS);
    redisReply *r = PR("EVAL %s 6 %s %s %s %s %s %s 7 r res-id 77 msg-id 0 0 0 %b", lua, k[0], k[1],
                       k[2], k[3], k[4], k[5], open.ptr, open.len);
    assert_int_not_equal(r->type, REDIS_REPLY_ERROR);
    freeReplyObject(r);
    free(lua);
    assert_int_equal(client_receive_end(&p, &h), 0);
    assert_int_equal(h.n, 1);
    const char *why = "";
    assert_int_equal(event_decode(h.m[0]->body, &got, &why), 0);
    assert_int_equal(got.order_id, 7);
    assert_int_equal(got.version.epoch, 3);
    assert_int_equal(got.version.seq, 42);
    assert_string_equal(h.m[0]->id, private_redis_text(&backend_redis, "HGET %s queue_id", k[3]));
    client_release(q, &h);
    backend_kill(q);
}

/* Rule 24: what cannot be decoded is handed over all the same, so that it becomes a dead letter. */
static void malformed_entries(void **state)
{
    (void)state;
    struct item item = backend_item();
    struct queue *q = consumer("a", item);
    struct hand h = {0};
    char key[72], *big = calloc(1, 20000);
    memset(big, 'x', 20000);
    backend_key(item, key);
    DO("XADD %s * x y", key);
    DO("XADD %s * b %b", key, big, (size_t)20000);
    DO("XADD %s * x y b %b", key, big, (size_t)10);
    while (h.n < 3)
        assert_int_equal(client_receive(q, &h, 5, LEASE), 0);
    assert_int_equal(h.m[0]->body.len, 0);
    assert_int_equal(h.m[1]->body.len, 8192);
    assert_int_equal(h.m[2]->body.len, 10);
    for (int i = 0; i < 3; i++)
        assert_int_equal(client_number(h.m[i]), -1);
    assert_int_equal(client_ack(q, &h), 3);
    client_release(q, &h);
    free(big);
    backend_kill(q);
}

static void consumers_of_dead_lives(void **state)
{
    (void)state;
    struct item item = backend_item();
    struct queue *q = consumer("alive", item);
    struct hand h = {0};
    char key[72];
    backend_key(item, key);
    client_append(item, 1, NULL);
    DO("XGROUP CREATECONSUMER %s %s dead-idle", key, EVENT_GROUP);
    DO("XREADGROUP GROUP %s dead-pending COUNT 1 STREAMS %s >", EVENT_GROUP, key);
    assert_int_equal(consumers_of(key), 2); /* ours is made lazily */
    for (int i = 0; i < 400 && consumers_of(key) > 1; i++)
        client_rest(20 * MS); /* ten leases without a sign of life */
    client_rest(200 * MS);
    assert_int_equal(consumers_of(key),
                     1); /* with something pending it stays: its message would go with it */
    assert_int_equal(client_receive(q, &h, 5, 3 * LEASE), 0);
    assert_int_equal(h.n, 1);
    assert_int_equal(h.m[0]->deliveries, 2);
    for (int i = 0; i < 400 && consumers_of(key) > 1; i++)
        client_rest(20 * MS);
    assert_int_equal(consumers_of(key), 1); /* taken over: now it goes, and we are here */
    assert_int_equal(client_ack(q, &h), 1);
    client_release(q, &h);
    backend_kill(q);
}

struct closing {
    struct op op;
    struct waiter w;
};

static void on_closed(struct op *op, int rc)
{
    struct closing *c = container_of(op, struct closing, op);
    c->w = (struct waiter){true, rc};
    backend_wake();
}

static void clean_end(void **state)
{
    (void)state;
    struct item item = backend_item();
    struct queue *q = consumer("first", item);
    struct hand h = {0};
    char key[72];
    backend_key(item, key);
    for (int pending = 0; pending < 2; pending++) {
        client_append(item, 1, NULL);
        assert_int_equal(client_receive(q, &h, 5, LEASE), 0);
        assert_int_equal(h.n, 1);
        if (!pending)
            assert_int_equal(client_ack(q, &h), 1);
        client_release(q, &h);
        struct closing c = {.op = {on_closed, backend_now_us() + 1000 * MS}};
        redis_stream_close(q, &c.op);
        assert_false(c.w.done);
        assert_true(backend_run(&c.w.done, 2000 * MS));
        assert_int_equal(c.w.rc, 0);
        assert_int_equal(consumers_of(key), pending); /* never with something pending */
        backend_kill(q);
        q = consumer("second", item);
    }
    backend_kill(q);
}

static void connections_are_cut(void **state)
{
    (void)state;
    struct item item = backend_item();
    struct queue *q = consumer("a", item);
    struct hand h = {0};
    bool seen[201] = {0};
    int distinct = 0;
    for (int i = 1; i <= 200; i++) {
        client_append(item, i, NULL);
        if (i % 40 == 0)
            DO("CLIENT KILL TYPE normal SKIPME yes");
        int rc = client_receive(q, &h, 8, LEASE / 20);
        assert_true(rc == 0 || rc == ERR_UNCERTAIN || rc == ERR_UNAVAIL || rc == ERR_DEADLINE ||
                    rc == ERR_CANCELED);
        for (int k = 0; k < h.n; k++) {
            int64_t number = client_number(h.m[k]);
            distinct += !seen[number];
            seen[number] = true;
        }
        client_ack(q, &h);
        client_release(q, &h);
    }
    for (int64_t until = backend_now_us() + 20 * LEASE;
         distinct < 200 && backend_now_us() < until;) {
        client_receive(q, &h, 8, LEASE);
        for (int k = 0; k < h.n; k++) {
            int64_t number = client_number(h.m[k]);
            distinct += !seen[number];
            seen[number] = true;
        }
        client_ack(q, &h);
        client_release(q, &h);
    }
    assert_int_equal(distinct, 200);
    backend_kill(q);
}

/* A reply that comes after the receive's deadline is not lost to its lease: the next receive gets
 * it. */
static void late_reply(void **state)
{
    (void)state;
    struct item item = backend_item();
    struct queue *q = consumer("a", item);
    struct hand h = {0};
    assert_int_equal(client_receive(q, &h, 5, 50 * MS), 0);
    client_append(item, 1, NULL);
    DO("CLIENT PAUSE 150 ALL");
    int64_t began = backend_now_us();
    assert_int_equal(client_receive(q, &h, 5, 50 * MS), 0);
    assert_int_equal(h.n, 0);
    assert_true(backend_now_us() - began < 140 * MS);
    assert_int_equal(client_receive(q, &h, 5, LEASE), 0);
    assert_int_equal(h.n, 1);
    assert_int_equal(h.m[0]->deliveries, 1);
    assert_true(backend_now_us() - began < LEASE);
    client_ack(q, &h);
    client_release(q, &h);
    backend_kill(q);
}

static long long calls(const char *command)
{
    char prefix[64];
    const char *text = private_redis_text(&backend_redis, "INFO commandstats");
    snprintf(prefix, sizeof prefix, "cmdstat_%s:calls=", command);
    const char *at = strstr(text, prefix);
    return at ? atoll(at + strlen(prefix)) : 0;
}

/* Whatever the others do, a quiet item's event is found at once: not only when nothing else waits,
 * and not only with the backstop of a lease's time. */
static void a_deep_backlog_starves_nobody(void **state)
{
    (void)state;
    enum { QUIET = 3, PROBES = 40 };
    struct item items[1 + QUIET];
    char key[72];
    struct queue *q = backend_consumer("a", 64);
    for (int i = 0; i <= QUIET; i++)
        items[i] = backend_item();
    q->ops->set_items(q, items, 1 + QUIET);
    struct hand h = {0};
    backend_key(items[0], key);
    int64_t sum = 0, worst = 0, sent = 0;
    for (int probe = 0; probe < PROBES;) {
        if (NUM("XLEN %s", key) < 2000) /* endless */
            DO("EVAL %s 1 %s", "for i = 1, 4000 do redis.call('XADD', KEYS[1], '*', 'b', 'x') end",
               key);
        if (!sent) {
            client_rest((probe % 7) * MS);
            sent = backend_now_us();
            client_append(items[1 + probe % QUIET], probe + 1, NULL);
        }
        assert_int_equal(client_receive(q, &h, 64, LEASE), 0);
        assert_true(h.n > 0);
        for (int i = 0; i < h.n; i++) {
            if (item_eq(h.m[i]->item, items[0]))
                continue;
            int64_t took = backend_now_us() - sent;
            assert_int_equal(client_number(h.m[i]), probe + 1);
            sum += took;
            worst = took > worst ? took : worst;
            sent = 0;
            probe++;
        }
        client_rest(2 * MS); /* as if something were done with them */
        client_ack(q, &h);
        client_release(q, &h);
    }
    if (worst >= LEASE / 3 || sum / PROBES >= 50 * MS)
        fail_msg("mean %lld us, worst %lld us", (long long)(sum / PROBES), (long long)worst);
    /* Found by the bell, at a bounded rate: not by asking each item again and again. */
    long long bells = calls("xread"), began = backend_now_us();
    while (backend_now_us() - began < LEASE) {
        client_receive(q, &h, 64, LEASE);
        client_ack(q, &h);
        client_release(q, &h);
    }
    assert_true(calls("xread") - bells <= 30);
    backend_kill(q);
}

static void items_come_and_go(void **state)
{
    (void)state;
    enum { ITEMS = 1500 }; /* there is no number at which it ends */
    static struct item items[ITEMS];
    struct queue *q = backend_consumer("a", 16);
    struct hand h = {0};
    for (int i = 0; i < ITEMS; i++)
        items[i] = backend_item();
    q->ops->set_items(q, items, ITEMS);
    client_receive(q, &h, 16, LEASE);
    assert_int_equal(h.n, 0);
    for (int i = 0; i < ITEMS; i += 499) {
        client_append(items[i], i + 1, NULL);
        while (h.n == 0)
            assert_int_equal(client_receive(q, &h, 16, LEASE), 0);
        assert_int_equal(client_number(h.m[0]), i + 1);
        client_ack(q, &h);
        client_release(q, &h);
    }
    /* In any order, some of them twice, some gone, one of those with an event in hand. */
    client_append(items[1], 1, NULL);
    while (h.n == 0)
        assert_int_equal(client_receive(q, &h, 16, LEASE), 0);
    struct item some[] = {items[7], items[3], items[1499], items[3], items[0]};
    q->ops->set_items(q, some, 5);
    assert_int_equal(client_ack(q, &h), 1);
    client_release(q, &h);
    for (int i = 0; i < 5; i++) {
        client_append(some[i], i + 1, NULL);
        while (h.n == 0)
            assert_int_equal(client_receive(q, &h, 16, LEASE), 0);
        assert_true(item_eq(h.m[0]->item, some[i]));
        client_ack(q, &h);
        client_release(q, &h);
    }
    q->ops->set_items(q, NULL, 0);
    backend_kill(q);
}

static void idle_costs_little(void **state)
{
    (void)state;
    enum { ITEMS = 20, LEASES = 5 };
    struct item items[ITEMS];
    struct queue *q = backend_consumer("a", 16);
    struct pending_receive p;
    struct hand h = {0};
    for (int i = 0; i < ITEMS; i++)
        items[i] = backend_item();
    q->ops->set_items(q, items, ITEMS);
    client_receive_start(&p, q, 5, 60 * LEASE);
    client_rest(3 * LEASE);
    long long bells = calls("xread"), reads = calls("xreadgroup");
    int64_t began = backend_now_us();
    client_rest(LEASES * LEASE);
    bells = calls("xread") - bells;
    reads = calls("xreadgroup") - reads;
    int64_t took = backend_now_us() - began;
    /* The bell once a second; and per item and lease one read as a backstop, with the default ten
     * seconds that is 2/s for these twenty items. */
    assert_true(bells <= took / 1000000 + 2);
    assert_true(reads <= ITEMS * (took / LEASE + 1));
    q->ops->cancel(q, &p.r.op);
    client_receive_end(&p, &h);
    backend_kill(q);
}

/* What others consume rings the bell too, but must not keep it ringing. */
static void others_traffic_costs_little(void **state)
{
    (void)state;
    struct item item = backend_item();
    struct queue *idle = consumer("idle", item), *busy = consumer("busy", item);
    struct pending_receive p;
    struct hand h = {0};
    for (int i = 0; i < 100; i++)
        client_append(item, i, NULL);
    for (int got = 0; got < 100;) {
        assert_int_equal(client_receive(busy, &h, 16, LEASE), 0);
        assert_int_equal(client_ack(busy, &h), h.n);
        got += h.n;
        client_release(busy, &h);
    }
    client_receive_start(&p, idle, 5, 60 * LEASE);
    client_rest(LEASE);
    char key[72];
    for (int i = 0; i < 5; i++) { /* appended and taken in one step, by somebody else */
        backend_key(item, key);
        DO("EVAL %s 1 %s %s",
           "redis.call('XADD', KEYS[1], '*', 'b', 'x') "
           "redis.call('XREADGROUP', 'GROUP', ARGV[1], 'else', 'STREAMS', KEYS[1], '>') "
           "redis.call('XACK', KEYS[1], ARGV[1], redis.call('XREVRANGE', KEYS[1], '+', '-', "
           "'COUNT', 1)[1][1])",
           key, EVENT_GROUP);
    }
    client_rest(LEASE / 2);
    assert_false(p.w.done);
    long long bells = calls("xread"), reads = calls("xreadgroup");
    client_rest(1000 * MS);
    assert_true(calls("xread") - bells <= 5);
    assert_true(calls("xreadgroup") - reads <= 10);
    idle->ops->cancel(idle, &p.r.op);
    client_receive_end(&p, &h);
    backend_kill(idle);
    backend_kill(busy);
}

static void a_broken_key_harms_no_other_item(void **state)
{
    (void)state;
    struct item items[] = {backend_item(), backend_item()};
    struct queue *q = backend_consumer("a", 16);
    struct queue_lag lag;
    struct hand h = {0};
    char key[72];
    backend_key(items[0], key);
    DO("DEL %s", key);
    DO("SET %s x", key);
    q->ops->set_items(q, items, 2);
    for (int i = 0; i < 10; i++) {
        struct pending_receive p;
        client_receive_start(&p, q, 5, 20 * LEASE);
        client_rest(60 * MS);
        client_append(items[1], i, NULL);
        int64_t sent = backend_now_us();
        assert_int_equal(client_receive_end(&p, &h), 0);
        assert_int_equal(h.n, 1);
        assert_true(backend_now_us() - sent < LEASE / 2);
        assert_int_equal(client_ack(q, &h), 1);
        client_release(q, &h);
    }
    assert_true(client_lag(q, items[0], &lag) < 0);
    assert_int_equal(client_publish(q, items[0], 1, NULL), ERR_UNAVAIL);
    backend_kill(q);
}

/* Redis 7 does not know a group's lag after an XDEL of something that waits. */
static void lag_when_redis_does_not_know(void **state)
{
    (void)state;
    struct item item = backend_item();
    struct queue *q = consumer("a", item);
    struct queue_lag lag;
    struct hand h = {0};
    char key[72], id[10][32];
    backend_key(item, key);
    for (int i = 0; i < 10; i++)
        client_append(item, i, id[i]);
    while (h.n < 3)
        assert_int_equal(client_receive(q, &h, 3 - h.n, LEASE), 0);
    assert_int_equal(NUM("XDEL %s %s", key, id[6]), 1);
    redisReply *r = PR("XINFO GROUPS %s", key);
    bool unknown = false;
    for (size_t i = 0; i + 1 < r->element[0]->elements; i += 2)
        unknown |= strcmp(r->element[0]->element[i]->str, "lag") == 0 &&
                   r->element[0]->element[i + 1]->type == REDIS_REPLY_NIL;
    freeReplyObject(r);
    assert_true(unknown);
    assert_int_equal(client_lag(q, item, &lag), 0);
    assert_int_equal(lag.waiting, 6);
    assert_int_equal(lag.in_hand, 3);
    assert_true(lag.oldest_age_ms >= 1);
    /* Without a group everything waits. */
    DO("XGROUP DESTROY %s %s", key, EVENT_GROUP);
    assert_int_equal(client_lag(q, item, &lag), 0);
    assert_int_equal(lag.waiting, 9);
    assert_int_equal(client_locate(q, item, id[0]), QUEUE_WAITING);
    assert_int_equal(client_locate(q, item, id[6]), QUEUE_PASSED);
    client_release(q, &h);
    backend_kill(q);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(trim_keeps_what_is_not_acked),
        T(a_lost_group_is_made_again),
        T(a_stream_that_expires),
        T(events_of_the_reserve_script),
        T(malformed_entries),
        T(consumers_of_dead_lives),
        T(clean_end),
        T(connections_are_cut),
        T(late_reply),
        T(a_deep_backlog_starves_nobody),
        T(items_come_and_go),
        T(idle_costs_little),
        T(others_traffic_costs_little),
        T(a_broken_key_harms_no_other_item),
        T(lag_when_redis_does_not_know),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
