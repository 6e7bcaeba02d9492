/* The stock port on a real Redis: each operation and each outcome. */
#include "stock_test.h"

#include "base/clock.h"
#include <stdlib.h>

static void reserve_tells_each_outcome(void **state)
{
    (void)state;
    struct stock_reserve r = reserve_of(1, 1);
    assert_int_equal(RUN(reserve, &r), STOCK_NO_ITEM);
    assert_true(r.listed); /* rule 34: there is no catalogue at all */
    private_redis_text(&server, "SADD sec:items 1:1");
    assert_int_equal(RUN(reserve, &r), STOCK_NO_ITEM);
    assert_false(r.listed);
    private_redis_text(&server, "SADD sec:items 1001:2001");
    assert_int_equal(RUN(reserve, &r), STOCK_NO_ITEM);
    assert_true(r.listed);

    open_item(2);
    r = reserve_of(1, 1);
    assert_int_equal(RUN(reserve, &r), STOCK_CREATED);
    assert_int_equal(r.version.epoch, 1);
    assert_int_equal(r.version.seq, 2);
    assert_int_equal(r.found.status, RESERVATION_MQ_SENT);
    assert_int_equal(r.found.order_id, 1000001);
    assert_true(r.found.queue_id[0] != 0);
    assert_true(r.sent_us > 0);

    struct reservation made = r.found;
    r = reserve_of(1, 1);
    r.reservation_id = an_id(77);
    assert_int_equal(RUN(reserve, &r), STOCK_REPLAY);
    assert_memory_equal(&r.found.reservation_id, &made.reservation_id, 16);
    assert_memory_equal(&r.found.message_id, &made.message_id, 16);
    assert_int_equal(r.found.order_id, made.order_id);
    assert_int_equal(r.found.created_at_ms, made.created_at_ms);
    assert_int_equal(r.found.seq, made.seq);
    assert_string_equal(r.found.queue_id, made.queue_id);
    assert_int_equal(r.found.verdict.state, VERDICT_QUEUED);

    r = reserve_of(1, 2);
    assert_int_equal(RUN(reserve, &r), STOCK_DUPLICATE);
    assert_memory_equal(&r.found.reservation_id, &made.reservation_id, 16);
    assert_memory_equal(&r.found.request_id, &made.request_id, 16);
    assert_int_equal(r.found.order_id, made.order_id);

    r = reserve_of(2, 3);
    assert_int_equal(RUN(reserve, &r), STOCK_CREATED);
    r = reserve_of(3, 4);
    assert_int_equal(RUN(reserve, &r), STOCK_SOLD_OUT);
    assert_int_equal(r.version.seq, 3);

    struct stock_control o = {.item = item, .to = STOCK_STATE_PAUSED};
    assert_int_equal(RUN(control, &o), 0);
    assert_int_equal(o.version.seq, 4);
    assert_int_equal(RUN(reserve, &r), STOCK_PAUSED);
    o.to = STOCK_STATE_CLOSED;
    assert_int_equal(RUN(control, &o), 0);
    assert_int_equal(RUN(reserve, &r), STOCK_ENDED);
    o.to = STOCK_STATE_OPEN;
    assert_int_equal(RUN(control, &o), 2);
    private_redis_int(&server, "HSET sec:{1001:2001}:meta starts_ms 9000000000000");
    assert_int_equal(RUN(reserve, &r), STOCK_NOT_OPEN);
}

/* The body that the script completes is the event, whole. */
static void the_event_is_complete(void **state)
{
    (void)state;
    open_item(2);
    struct stock_reserve r = reserve_of(1, 1);
    r.tracestate = STR("vendor=\"a,b\"");
    assert_int_equal(RUN(reserve, &r), STOCK_CREATED);
    redisReply *x = private_redis_command(&server, "XRANGE sec:{1001:2001}:events - +");
    assert_int_equal(x->elements, 1);
    assert_string_equal(x->element[0]->element[0]->str, r.found.queue_id);
    assert_string_equal(x->element[0]->element[1]->element[0]->str, "b");
    redisReply *body = x->element[0]->element[1]->element[1];
    struct event e;
    const char *why = "";
    assert_int_equal(event_decode((struct str){body->str, body->len}, &e, &why), 0);
    assert_memory_equal(&e.reservation_id, &r.reservation_id, 16);
    assert_memory_equal(&e.message_id, &r.message_id, 16);
    assert_int_equal(e.user_id, 1);
    assert_int_equal(e.order_id, r.order_id);
    assert_int_equal(e.version.epoch, 1);
    assert_int_equal(e.version.seq, r.version.seq);
    freeReplyObject(x);
}

static struct stock_settle_row row_of(const struct stock_reserve *r, enum verdict_reason reason)
{
    struct verdict v = verdict_of_reason(reason);
    return (struct stock_settle_row){.user_id = r->user_id,
                                     .request_id = r->request_id,
                                     .reservation_id = r->reservation_id,
                                     .verdict = v,
                                     .give_back = verdict_returns_unit(v)};
}

static struct reservation look_up(const struct stock_reserve *r)
{
    struct stock_lookup l = {.item = item, .user_id = r->user_id, .request_id = r->request_id};
    assert_int_equal(RUN(lookup, &l), 0);
    assert_true(llabs(l.now_ms - clock_wall_us() / 1000) < 2000);
    return l.found;
}

static void settle_and_progress(void **state)
{
    (void)state;
    open_item(10);
    struct stock_reserve r[4];
    struct stock_settle_row rows[4];
    static const enum verdict_reason reasons[] = {REASON_NONE, REASON_PG_STOCK_EXHAUSTED,
                                                  REASON_VOID, REASON_CANCELLED};
    for (int i = 0; i < 4; i++) {
        r[i] = reserve_of(i + 1, i + 1);
        assert_int_equal(RUN(reserve, &r[i]), STOCK_CREATED);
        rows[i] = row_of(&r[i], reasons[i]);
    }
    struct stock_settle s = {.item = item, .rows = rows, .n = 4};
    assert_int_equal(RUN(progress, &s), 0);
    assert_int_equal(look_up(&r[0]).verdict.state, VERDICT_PROCESSING);
    assert_int_equal(RUN(settle, &s), 0);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(rows[i].result, STOCK_SETTLED);
        struct reservation found = look_up(&r[i]);
        assert_int_equal(found.verdict.state, rows[i].verdict.state);
        assert_int_equal(found.verdict.reason, reasons[i]);
        assert_int_equal(found.status, i == 0 ? RESERVATION_ORDERED : RESERVATION_RELEASED);
    }
    assert_int_equal(free_units(), 8); /* rule 4: not for PG_STOCK_EXHAUSTED */
    assert_int_equal(s.version.seq, 6);
    assert_int_equal(RUN(settle, &s), 0);
    for (int i = 0; i < 4; i++)
        assert_int_equal(rows[i].result, STOCK_IGNORED);
    private_redis_int(&server, "HSET sec:{1001:2001}:meta rebuild 2");
    rows[0] = row_of(&r[0], REASON_CANCELLED);
    assert_int_equal(RUN(settle, &s), 0);
    assert_int_equal(rows[0].result, STOCK_LATER); /* rule 2 */
    assert_int_equal(free_units(), 8);
}

/* Rule 5 through the adapter: the other order's record is one of the keys. */
static void settle_with_another_order(void **state)
{
    (void)state;
    open_item(10);
    struct stock_reserve first = reserve_of(1, 1), second = reserve_of(1, 2),
                         lone = reserve_of(2, 3);
    assert_int_equal(RUN(reserve, &first), STOCK_CREATED);
    assert_int_equal(RUN(reserve, &lone), STOCK_CREATED);
    struct stock_settle_row rows[2] = {row_of(&first, REASON_NONE)};
    struct stock_settle s = {.item = item, .rows = rows, .n = 1};
    assert_int_equal(RUN(settle, &s), 0);
    private_redis_int(&server, "HDEL sec:{1001:2001}:buyers 1");
    assert_int_equal(RUN(reserve, &second), STOCK_CREATED);

    rows[0] = row_of(&lone, REASON_NONE);
    rows[1] = row_of(&second, REASON_ONE_USER_ONE_ORDER);
    assert_true(rows[1].give_back);
    rows[1].other_order_id = first.order_id;
    rows[1].other_reservation_id = first.reservation_id;
    rows[1].other_request_id = first.request_id;
    s.n = 2;
    assert_int_equal(RUN(settle, &s), 0);
    assert_int_equal(rows[0].result, STOCK_SETTLED);
    assert_int_equal(rows[1].result, STOCK_SETTLED);
    assert_int_equal(look_up(&second).order_id, first.order_id);
    struct stock_reserve third = reserve_of(1, 4);
    assert_int_equal(RUN(reserve, &third), STOCK_DUPLICATE);
    assert_memory_equal(&third.found.reservation_id, &first.reservation_id, 16);
    assert_int_equal(third.found.order_id, first.order_id);
    assert_int_equal(free_units(), 8);
}

static void the_largest_settle(void **state)
{
    (void)state;
    open_item(300);
    static struct stock_settle_row rows[256];
    for (int i = 0; i < 256; i++) {
        struct stock_reserve r = reserve_of(i + 1, i + 1);
        assert_int_equal(RUN(reserve, &r), STOCK_CREATED);
        rows[i] = row_of(&r, REASON_ONE_USER_ONE_ORDER);
        rows[i].other_order_id = 5;
        rows[i].other_reservation_id = an_id(5000000 + i);
        rows[i].other_request_id = an_id(6000000 + i); /* a record of its own for each */
    }
    struct stock_settle s = {.item = item, .rows = rows, .n = 256};
    assert_int_equal(RUN(settle, &s), 0);
    for (int i = 0; i < 256; i++)
        assert_int_equal(rows[i].result, STOCK_SETTLED);
    assert_int_equal(free_units(), 44); /* those orders keep what was held for them */
}

static void mark_claim_republished(void **state)
{
    (void)state;
    open_item(10);
    struct stock_reserve r = reserve_of(1, 1);
    assert_int_equal(RUN(reserve, &r), STOCK_CREATED);
    struct stock_mark m = {.item = item,
                           .user_id = 1,
                           .request_id = r.request_id,
                           .reservation_id = r.reservation_id,
                           .to = RESERVATION_MQ_PENDING};
    assert_int_equal(RUN(mark, &m), 0);
    assert_int_equal(look_up(&r).status, RESERVATION_MQ_PENDING);
    struct stock_claim c = {
        .item = item, .user_id = 1, .request_id = r.request_id, .reservation_id = r.reservation_id};
    assert_int_equal(RUN(claim, &c), 0);
    assert_int_equal(c.found.republished, 0);
    assert_int_equal(c.found.order_id, r.order_id);
    assert_memory_equal(&c.found.message_id, &r.message_id, 16);
    struct stock_republished p = {.item = item,
                                  .user_id = 1,
                                  .request_id = r.request_id,
                                  .reservation_id = r.reservation_id,
                                  .queue_id = "77-3"};
    assert_int_equal(RUN(republished, &p), 0);
    assert_int_equal(look_up(&r).status, RESERVATION_MQ_SENT);
    assert_string_equal(look_up(&r).queue_id, "77-3");
    assert_int_equal(look_up(&r).republished, 1);
    struct stock_settle_row row = row_of(&r, REASON_NONE);
    struct stock_settle s = {.item = item, .rows = &row, .n = 1};
    assert_int_equal(RUN(settle, &s), 0);
    assert_int_equal(RUN(mark, &m), 1); /* rule 1 */
    assert_int_equal(RUN(claim, &c), 1);
    assert_int_equal(RUN(republished, &p), 1);
}

static void pending_pages(void **state)
{
    (void)state;
    open_item(300);
    for (int i = 1; i <= 200; i++) {
        struct stock_reserve r = reserve_of(i, i);
        assert_int_equal(RUN(reserve, &r), STOCK_CREATED);
    }
    static struct stock_pending p;
    p = (struct stock_pending){
        .item = item, .before_ms = clock_wall_us() / 1000 + 5000, .max = STOCK_PENDING_MAX};
    assert_int_equal(RUN(pending, &p), 0);
    assert_int_equal(p.n, STOCK_PENDING_MAX);
    assert_int_equal(p.total, 200);
    for (int i = 0; i < p.n; i++) {
        assert_true(p.rows[i].user_id >= 1 && p.rows[i].user_id <= 200);
        assert_int_equal(p.rows[i].order_id, 1000000 + p.rows[i].user_id);
        assert_true(i == 0 || p.rows[i].created_at_ms >= p.rows[i - 1].created_at_ms);
    }
    /* Each row has a result of its own: one that is bad takes nothing away from the others. */
    struct uuid gone = p.rows[5].request_id;
    char key[120], text[UUID_TEXT + 1] = {0};
    uuid_format(&gone, text);
    snprintf(key, sizeof key, "sec:{1001:2001}:reservation:%ld:%s", (long)p.rows[5].user_id, text);
    assert_int_equal(private_redis_int(&server, "DEL %s", key), 1);
    uuid_format(&p.rows[7].request_id, text);
    snprintf(key, sizeof key, "sec:{1001:2001}:reservation:%ld:%s", (long)p.rows[7].user_id, text);
    private_redis_int(&server, "DEL %s", key);
    private_redis_text(&server, "SET %s x", key);
    uuid_format(&p.rows[9].request_id, text);
    snprintf(key, sizeof key, "sec:{1001:2001}:reservation:%ld:%s", (long)p.rows[9].user_id, text);
    private_redis_int(&server, "HSET %s status SHIPPED", key);
    uuid_format(&p.rows[11].request_id, text);
    snprintf(key, sizeof key, "sec:{1001:2001}:reservation:%ld:%s", (long)p.rows[11].user_id, text);
    private_redis_int(&server, "HSET %s note %s", key, "a\nb");
    for (int i = 0; i < 3; i++) {
        static const char *const junk[] = {"hello", "a b c", "7:not-a-uuid"};
        private_redis_int(&server, "ZADD sec:{1001:2001}:pending %d %s", i + 1, junk[i]);
    }
    assert_int_equal(RUN(pending, &p), 0);
    assert_int_equal(p.n, STOCK_PENDING_MAX);
    assert_int_equal(p.total, 203);
    for (int i = 0; i < p.n; i++) {
        bool bad = i < 3 || i == 10 || i == 12 || i == 14;
        assert_int_equal(p.results[i], i == 8 ? STOCK_ROW_GONE
                                       : bad  ? STOCK_ROW_UNREADABLE
                                              : STOCK_ROW_GOOD);
        if (p.results[i] == STOCK_ROW_GOOD)
            assert_int_equal(p.rows[i].order_id, 1000000 + p.rows[i].user_id);
    }
    assert_true(uuid_eq(&p.rows[8].request_id, &gone));
    assert_true(p.rows[8].created_at_ms > 0);
    private_redis_int(&server, "ZREMRANGEBYSCORE sec:{1001:2001}:pending 0 10");
    p.offset = 190;
    assert_int_equal(RUN(pending, &p), 0);
    assert_int_equal(p.n, 10);
    p.before_ms = 5;
    p.offset = 0;
    assert_int_equal(RUN(pending, &p), 0);
    assert_int_equal(p.n, 0);
    assert_int_equal(p.total, 200);
}

static void item_items_buyers(void **state)
{
    (void)state;
    struct stock_item_get g = {.item = item};
    assert_int_equal(RUN(item, &g), 1);
    assert_true(g.listed);
    static struct item all[STOCK_ITEMS_PAGE];
    struct stock_items o = {.cursor = "0", .items = all, .max = STOCK_ITEMS_PAGE};
    assert_int_equal(RUN(items, &o), 0);
    assert_int_equal(o.n, 0);
    open_item(3000);
    assert_int_equal(RUN(item, &g), 0);
    assert_true(g.listed);
    assert_int_equal(g.info.state, STOCK_STATE_OPEN);
    assert_int_equal(g.info.total, 3000);
    assert_int_equal(g.info.free, 3000);
    assert_int_equal(g.info.version.epoch, 1);
    assert_true(g.info.starts_ms < g.info.now_ms && g.info.now_ms < g.info.ends_ms);
    private_redis_int(&server, "SADD sec:items 5:6 junk");
    assert_int_equal(RUN(items, &o), 0);
    assert_int_equal(o.n, 2);
    assert_string_equal(o.cursor, "0");
    for (int i = 1; i <= 3000; i++)
        private_redis_int(&server, "SADD sec:items 7:%d", i);
    int distinct = 0, steps = 0;
    static bool listed[3001];
    do {
        assert_int_equal(RUN(items, &o), 0);
        for (int i = 0; i < o.n; i++) {
            if (all[i].activity_id == 7 && !listed[all[i].sku_id]) {
                listed[all[i].sku_id] = true;
                distinct++;
            }
        }
        steps++;
    } while (strcmp(o.cursor, "0") != 0);
    assert_int_equal(distinct, 3000);
    assert_true(steps > 3);
    struct stock_unlist u = {.item = {7, 1}};
    assert_int_equal(RUN(unlist, &u), 0);
    assert_int_equal(private_redis_int(&server, "SISMEMBER sec:items 7:1"), 0);

    for (int i = 1; i <= 2500; i++)
        private_redis_int(&server, "HSET sec:{1001:2001}:buyers %d x", i);
    static int64_t users[1000];
    static bool seen[2501];
    struct stock_buyers b = {.item = item, .cursor = "0", .users = users, .max = 1000};
    int pages = 0;
    do {
        assert_int_equal(RUN(buyers, &b), 0);
        for (int i = 0; i < b.n; i++)
            seen[users[i]] = true;
        pages++;
    } while (strcmp(b.cursor, "0") != 0);
    for (int i = 1; i <= 2500; i++)
        assert_true(seen[i]);
    assert_true(pages > 1);
    struct stock_item_get other = {.item = {1, 1}};
    assert_int_equal(RUN(item, &other), 1);
    assert_false(other.listed);
}

static void warm_and_slot_and_probe(void **state)
{
    (void)state;
    struct stock_warm w = {.item = item,
                           .epoch = 4,
                           .total = 9,
                           .starts_ms = 0,
                           .ends_ms = INT64_MAX,
                           .expires_ms = clock_wall_us() / 1000 + 100000};
    assert_int_equal(RUN(warm, &w), 0); /* times are brought to 13 digits */
    assert_int_equal(RUN(warm, &w), 1);
    assert_int_equal(private_redis_int(&server, "SISMEMBER sec:items 1001:2001"), 1);
    struct stock_slot_lease a = {.slot = 3, .nonce = "first", .highest_ms = 5000, .ttl_ms = 60000};
    assert_int_equal(RUN(slot_lease, &a), 0);
    assert_int_equal(a.floor_ms, 0);
    struct stock_slot_lease b = {.slot = 3, .nonce = "second", .highest_ms = 10, .ttl_ms = 60000};
    assert_int_equal(RUN(slot_lease, &b), 1); /* rule 38 */
    a.ttl_ms = 0;
    assert_int_equal(RUN(slot_lease, &a), 0);
    assert_int_equal(RUN(slot_lease, &b), 0);
    assert_int_equal(b.floor_ms, 5000);
    struct stock_probe p = {0};
    assert_int_equal(RUN(probe, &p), 0);
    private_redis_text(&server, "CONFIG SET maxmemory 1");
    assert_int_equal(RUN(probe, &p), ERR_UNAVAIL);
    private_redis_text(&server, "CONFIG SET maxmemory 0");
}

/* --- news --- */

static struct item news_item;
static struct item_version news_version;
static int news, link_ups;

static void on_version(struct stock_news *n, struct item i, struct item_version v)
{
    (void)n;
    news++;
    news_item = i;
    news_version = v;
}

static void on_link(struct stock_news *n, bool up)
{
    (void)n;
    link_ups += up;
}

static void news_come(void **state)
{
    (void)state;
    struct stock_news n = {.on_version = on_version, .on_link = on_link};
    assert_int_equal(redis_stock_news_start(loop, &(struct redis_config){.url = server.url}, &n),
                     0);
    UNTIL(loop, link_ups == 1);
    open_item(2); /* rule 7: open publishes */
    UNTIL(loop, news == 1);
    assert_true(item_eq(news_item, item));
    assert_int_equal(news_version.epoch, 1);
    assert_int_equal(news_version.seq, 1);
    private_redis_int(&server, "PUBLISH sec:news rubbish");
    private_redis_int(&server, "PUBLISH sec:news %s", "7:8 3 9");
    UNTIL(loop, news == 2);
    assert_int_equal(news_item.activity_id, 7);
    assert_int_equal(news_version.seq, 9);
    redis_stock_news_stop(&n);
    redis_stock_news_stop(&n);
}

static void durability_is_checked(void **state)
{
    (void)state;
    char err[300] = "";
    assert_int_equal(redis_check_durability(server.url, SECONDS, err, sizeof err), 0);
    static const char *const bad[][2] = {
        {"appendfsync everysec", "appendfsync always"},
        {"maxmemory-policy allkeys-lru", "maxmemory-policy noeviction"},
        {"appendonly no", "appendonly yes"},
    };
    for (int i = 0; i < 3; i++) {
        char command[100];
        snprintf(command, sizeof command, "CONFIG SET %s", bad[i][0]);
        redisReply *x = private_redis_command(&server, command, NULL);
        freeReplyObject(x);
        assert_int_equal(redis_check_durability(server.url, SECONDS, err, sizeof err), ERR_DENIED);
        assert_non_null(strstr(err, bad[i][1]));
        snprintf(command, sizeof command, "CONFIG SET %s", bad[i][1]);
        freeReplyObject(private_redis_command(&server, command, NULL));
    }
    assert_int_equal(redis_check_durability("unix:///nowhere", 100 * MS, err, sizeof err),
                     ERR_UNAVAIL);
    assert_int_equal(redis_check_durability("nonsense", 100 * MS, err, sizeof err), ERR_INVALID);
}

static void a_bad_url_is_told(void **state)
{
    (void)state;
    char err[200] = "";
    assert_null(redis_stock_new(loop, &(struct redis_stock_config){.redis = {.url = "x"}}, err,
                                sizeof err));
    assert_non_null(strstr(err, "Redis URL"));
}

#define WITH_STOCK(test) cmocka_unit_test_setup_teardown(test, stock_setup, stock_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_STOCK(reserve_tells_each_outcome),
        WITH_STOCK(the_event_is_complete),
        WITH_STOCK(settle_and_progress),
        WITH_STOCK(settle_with_another_order),
        WITH_STOCK(the_largest_settle),
        WITH_STOCK(mark_claim_republished),
        WITH_STOCK(pending_pages),
        WITH_STOCK(item_items_buyers),
        WITH_STOCK(warm_and_slot_and_probe),
        WITH_STOCK(news_come),
        WITH_STOCK(durability_is_checked),
        WITH_STOCK(a_bad_url_is_told),
    };
    return cmocka_run_group_tests(tests, stock_group_setup, stock_group_teardown);
}
