/* Rule 34a: a store that has gone back does not sell, until it has caught up or was rebuilt; and
 * nothing else is taken for that. */
#include "reserve_fixture.h"

#include "base/err.h"

#define SOLD "ACCEPTED"
#define BEHIND "DEPENDENCY_UNAVAILABLE"

/* What a buyer with a new key is answered. */
static const char *buy(struct fixture *f, int64_t user)
{
    int before = f->answers;
    assert_int_equal(fixture_submit(f, user, (unsigned)user, NULL), RESERVE_STARTED);
    fixture_run_ms(f, 100);
    assert_int_equal(f->answers, before + 1);
    return answer_info(f->last.answer)->code;
}

static void lose(struct fixture *f, int64_t user)
{
    struct reserve_request q = fixture_request(f, user, (unsigned)user);
    mem_stock_lose_record(f->stock, f->item, user, &q.request_id);
}

static int64_t stands_at(struct fixture *f)
{
    struct stock_item_info i;
    assert_true(mem_stock_info(f->stock, f->item, &i));
    return i.version.seq;
}

static void go_back_to(struct fixture *f, int64_t epoch, int64_t seq)
{
    mem_stock_set_version(f->stock, f->item, (struct item_version){epoch, seq});
}

static bool reported(const struct fixture *f)
{
    return mem_stock_reported(f->stock, f->item);
}

static void test_its_version_is_lower(void **state)
{
    struct fixture f;
    (void)state;
    fixture_init(&f, 100, 8);
    for (int64_t user = 1; user <= 5; user++)
        assert_string_equal(buy(&f, user), SOLD);
    go_back_to(&f, 1, 3); /* over the same connection: behind a proxy, it is another Redis */
    int64_t held = fixture_held(&f);
    assert_string_equal(buy(&f, 6), BEHIND);
    assert_string_equal(buy(&f, 7), BEHIND);
    assert_int_equal(fixture_held(&f), held);
    assert_true(reported(&f));
    assert_int_equal(mem_stock_faults(f.stock)->calls[MEM_STOCK_REPORT], 1); /* one a second */
    /* Others sell on until it is where it was. */
    go_back_to(&f, 1, 5);
    mem_stock_reconnect(f.stock);
    assert_string_equal(buy(&f, 8), SOLD);
    fixture_deinit(&f);
}

static void test_its_epoch_is_lower(void **state)
{
    struct fixture f;
    (void)state;
    fixture_init(&f, 100, 8);
    go_back_to(&f, 2, 0);
    assert_string_equal(buy(&f, 1), SOLD);
    go_back_to(&f, 1, 900);
    assert_string_equal(buy(&f, 2), BEHIND);
    go_back_to(&f, 3, 0); /* rebuilt: all that was known is of the past */
    lose(&f, 1);
    mem_stock_reconnect(f.stock);
    assert_string_equal(buy(&f, 3), SOLD);
    fixture_deinit(&f);
}

/* Others have raised the version again before this loop comes back. */
static void test_its_last_confirmed_is_gone(void **state)
{
    struct fixture f;
    (void)state;
    fixture_init(&f, 100, 8);
    for (int64_t user = 1; user <= 3; user++)
        assert_string_equal(buy(&f, user), SOLD);
    lose(&f, 3);
    go_back_to(&f, 1, 50);
    mem_stock_reconnect(f.stock);
    assert_string_equal(buy(&f, 4), BEHIND);
    assert_true(reported(&f));
    go_back_to(&f, 1, 60);
    mem_stock_reconnect(f.stock); /* another one does not help */
    assert_string_equal(buy(&f, 5), BEHIND);
    fixture_run_ms(&f, 30000); /* nor does time */
    assert_string_equal(buy(&f, 6), BEHIND);
    go_back_to(&f, 2, 0);
    assert_string_equal(buy(&f, 7), SOLD);
    fixture_deinit(&f);
}

/* Nobody rebuilds: perhaps an operator took that one away. It is not refused for ever. */
static void test_a_missing_one_is_given_up(void **state)
{
    struct fixture f;
    (void)state;
    fixture_init(&f, 100, 8);
    assert_string_equal(buy(&f, 1), SOLD);
    lose(&f, 1);
    mem_stock_reconnect(f.stock);
    assert_string_equal(buy(&f, 2), BEHIND);
    fixture_run_ms(&f, PAST_MISSING_US / MS - 1000);
    assert_string_equal(buy(&f, 3), BEHIND);
    fixture_run_ms(&f, 1000);
    assert_string_equal(buy(&f, 4), SOLD);
    assert_string_equal(buy(&f, 5), SOLD);
    fixture_deinit(&f);
}

/* It came back after all: a replica that was behind was not made the master. */
static void test_it_is_there_again(void **state)
{
    struct fixture f;
    (void)state;
    fixture_init(&f, 100, 8);
    assert_string_equal(buy(&f, 1), SOLD);
    assert_string_equal(buy(&f, 2), SOLD);
    go_back_to(&f, 1, 1);
    mem_stock_reconnect(f.stock);
    assert_string_equal(buy(&f, 3), BEHIND);
    go_back_to(&f, 1, 2);
    assert_string_equal(buy(&f, 4), SOLD);
    assert_string_equal(buy(&f, 5), SOLD);
    fixture_deinit(&f);
}

/* A harmless reconnect costs nobody anything, and one look per connection. */
static void test_a_reconnect_alone(void **state)
{
    struct fixture f;
    (void)state;
    fixture_init(&f, 100, 8);
    for (int64_t user = 1; user <= 40; user++) {
        if (user % 3 == 0)
            mem_stock_reconnect(f.stock);
        assert_string_equal(buy(&f, user), SOLD);
    }
    assert_false(reported(&f));
    fixture_deinit(&f);
}

/* The reservations of more than 10 s before the item was last heard of are not looked for, nor are
 * those of others; an outage of any length does not count. */
static void test_how_long_it_is_looked_for(void **state)
{
    struct fixture f;
    (void)state;
    fixture_init(&f, 2, 8);
    assert_string_equal(buy(&f, 1), SOLD);
    assert_string_equal(buy(&f, 2), SOLD);
    fixture_run_ms(&f, 11000);
    assert_string_equal(buy(&f, 3), "SOLD_OUT");
    lose(&f, 2);
    go_back_to(&f, 1, 2);
    mem_stock_reconnect(f.stock);
    assert_string_equal(buy(&f, 4), SOLD); /* for PostgreSQL's comparison to find (34b) */
    fixture_run_ms(&f, 3600000);
    lose(&f, 4);
    mem_stock_reconnect(f.stock);
    assert_string_equal(buy(&f, 5), BEHIND);
    fixture_deinit(&f);
}

/* A call that waited while the connection was made anew goes over the new one. */
static void test_what_was_under_way(void **state)
{
    struct fixture f;
    (void)state;
    fixture_init(&f, 100, 8);
    assert_string_equal(buy(&f, 1), SOLD);
    for (int64_t user = 2; user <= 6; user++) {
        if (user == 4) {
            lose(&f, 1);
            mem_stock_reconnect(f.stock);
        }
        assert_int_equal(fixture_submit(&f, user, (unsigned)user, NULL), RESERVE_STARTED);
    }
    fixture_run_ms(&f, 100);
    /* what went over the old connection was asked nothing */
    assert_int_equal(f.answers, 6);
    assert_int_equal(stands_at(&f), 3);
    assert_int_equal(fixture_held(&f), 2);
    fixture_deinit(&f);
}

/* `strict` took it away: it was never confirmed. */
static void test_a_released_one_is_not_missed(void **state)
{
    struct fixture f;
    (void)state;
    fixture_init_queue(&f, 100, 8, true);
    assert_string_equal(buy(&f, 1), SOLD);
    mem_faults_add(mem_queue_faults(f.queue), MEM_QUEUE_PUBLISH, 1, MEM_FAULT_NOT_DONE, 0);
    assert_string_equal(buy(&f, 2), BEHIND); /* the same words: the queue's refusal */
    assert_null(fixture_record(&f, 2, 2));
    mem_stock_reconnect(f.stock);
    assert_string_equal(buy(&f, 3), SOLD);
    assert_false(reported(&f));
    fixture_deinit(&f);
}

/* Heard of by PUBLISH, not by an answer. */
static void test_news_count(void **state)
{
    struct fixture f;
    (void)state;
    fixture_init(&f, 100, 8);
    assert_string_equal(buy(&f, 1), SOLD);
    past_heard(&f.past, f.item, (struct item_version){1, 7});
    assert_string_equal(buy(&f, 2), BEHIND);
    fixture_deinit(&f);
}

/* More items than places: the surplus is sold without a past, and a place that is idle is used. */
static void test_more_items_than_places(void **state)
{
    struct fixture f;
    struct stock_reserve r = {.version = {1, 1}, .connection = 1};
    (void)state;
    fixture_init(&f, 100, 8);
    int known = 0;
    for (int64_t sku = 1; sku <= 4 * PAST_ITEMS; sku++) {
        r.item = (struct item){1, sku};
        past_answered(&f.past, &r, STOCK_SOLD_OUT, f.sched.now_us);
    }
    for (int64_t sku = 1; sku <= 4 * PAST_ITEMS; sku++)
        known += past_of(&f.past, (struct item){1, sku}, f.sched.now_us).seen.epoch == 1;
    assert_int_equal(known, PAST_ITEMS);
    r.item = (struct item){2, 1};
    past_answered(&f.past, &r, STOCK_SOLD_OUT, f.sched.now_us);
    assert_int_equal(past_of(&f.past, r.item, f.sched.now_us).seen.epoch, 0);
    past_answered(&f.past, &r, STOCK_SOLD_OUT, f.sched.now_us + PAST_IDLE_US);
    assert_int_equal(past_of(&f.past, r.item, f.sched.now_us).seen.epoch, 1);
    fixture_deinit(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_its_version_is_lower),
        cmocka_unit_test(test_its_epoch_is_lower),
        cmocka_unit_test(test_its_last_confirmed_is_gone),
        cmocka_unit_test(test_a_missing_one_is_given_up),
        cmocka_unit_test(test_it_is_there_again),
        cmocka_unit_test(test_a_reconnect_alone),
        cmocka_unit_test(test_how_long_it_is_looked_for),
        cmocka_unit_test(test_what_was_under_way),
        cmocka_unit_test(test_a_released_one_is_not_missed),
        cmocka_unit_test(test_news_count),
        cmocka_unit_test(test_more_items_than_places),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
