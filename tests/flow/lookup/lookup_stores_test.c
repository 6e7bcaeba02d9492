/* What a buyer hears of a request and of an order, for everything that either store may say, and
 * every way in which it may not say it: the table of lookup.h. */
#include "lookup_fixture.h"

/* --- the table --- */

enum world_redis { FINAL, YOUNG, OLD, ABSENT, REDIS_WORLDS };
enum world_pg { SETTLED, QUARANTINED, NOTHING, PG_WORLDS };

static void build(struct fixture *f, enum world_redis redis, enum world_pg pg)
{
    fixture_init(f, SETUP);
    if (redis != ABSENT)
        fixture_reserve(f, 5, 1);
    if (redis == FINAL)
        fixture_settle(f, 5, 1, (struct verdict){VERDICT_SUCCEEDED, REASON_NONE});
    if (redis == OLD || redis == FINAL) /* what is final is not asked about, however old */
        fixture_run_ms(f, 3000);
    if (pg == SETTLED)
        fixture_place(f, 5, 1);
    if (pg == QUARANTINED)
        fixture_quarantine(f, 5, 1);
}

/* Both stores work. */
static const char *const table[REDIS_WORLDS][PG_WORLDS] = {
    [FINAL] = {"ANSWER@1.0 200 SUCCEEDED redis", "ANSWER@1.0 200 SUCCEEDED redis",
               "ANSWER@1.0 200 SUCCEEDED redis"},
    [YOUNG] = {"ANSWER@1.0 200 QUEUED redis", "ANSWER@1.0 200 QUEUED redis",
               "ANSWER@1.0 200 QUEUED redis"},
    [OLD] = {"PG@1.0 ANSWER@3.0 200 SUCCEEDED postgresql",
             "PG@1.0 ANSWER@3.0 200 PROCESSING postgresql", "PG@1.0 ANSWER@3.0 200 QUEUED redis"},
    [ABSENT] = {"PG@1.0 ANSWER@3.0 200 SUCCEEDED postgresql",
                "PG@1.0 ANSWER@3.0 200 PROCESSING postgresql",
                "PG@1.0 ITEM@3.0 ANSWER@4.0 404 NOT_FOUND none"},
};

static void test_both_work(void **state)
{
    (void)state;
    for (int redis = 0; redis < REDIS_WORLDS; redis++) {
        for (int pg = 0; pg < PG_WORLDS; pg++) {
            struct fixture f;
            build(&f, redis, pg);
            fixture_ask(&f, 5, 1);
            assert_string_equal(f.trace, table[redis][pg]);
            assert_int_equal(fixture_pg_calls(&f, MEM_ORDERS_FIND_REQUEST), redis >= OLD);
            fixture_deinit(&f);
        }
    }
}

/* Every fault of Redis, with the time at which it is known. */
static const struct {
    enum mem_fault_kind kind;
    int64_t delay_us;
    int ms;
} redis_faults[] = {
    {MEM_FAULT_NOT_DONE, 0, 1},           {MEM_FAULT_REPLY_LOST, 0, 1},
    {MEM_FAULT_REQUEST_LOST, 0, 1},       {MEM_FAULT_REPLY_LATE, 5000 * MS, 60},
    {MEM_FAULT_HELD_BACK, 5000 * MS, 60}, {MEM_FAULT_ANSWER, ERR_INTERNAL, 1},
    {MEM_FAULT_ANSWER, ERR_OVERLOAD, 1},  {MEM_FAULT_ANSWER, ERR_DEADLINE, 1},
    {MEM_FAULT_ANSWER, ERR_CANCELED, 1},
};

static void test_redis_fails(void **state)
{
    (void)state;
    static const char *const told[PG_WORLDS] = {"200 SUCCEEDED postgresql",
                                                "200 PROCESSING postgresql", NULL};
    for (size_t i = 0; i < sizeof redis_faults / sizeof redis_faults[0]; i++) {
        for (int redis = 0; redis < REDIS_WORLDS; redis++) {
            for (int pg = 0; pg < PG_WORLDS; pg++) {
                struct fixture f;
                char expected[128];
                bool internal = redis_faults[i].delay_us == ERR_INTERNAL;
                build(&f, redis, pg);
                fixture_stock_fault(&f, MEM_STOCK_LOOKUP, 1, redis_faults[i].kind,
                                    redis_faults[i].delay_us);
                fixture_ask(&f, 5, 1);
                /* Unknown is never "not found". */
                snprintf(expected, sizeof expected, "PG@%d.0 ANSWER@%d.0 %s", redis_faults[i].ms,
                         redis_faults[i].ms + 2,
                         told[pg]   ? told[pg]
                         : internal ? "500 INTERNAL_ERROR none"
                                    : "503 DEPENDENCY_UNAVAILABLE none");
                assert_string_equal(f.trace, expected);
                fixture_run_ms(&f, 6000);
                fixture_deinit(&f);
            }
        }
    }
}

/* Every fault of PostgreSQL, and a crew that takes no more. */
static const struct {
    enum mem_fault_kind kind;
    int64_t delay_us;
    int ms;
} pg_faults[] = {
    {MEM_FAULT_NOT_DONE, 0, 2},
    {MEM_FAULT_REPLY_LOST, 0, 2},
    {MEM_FAULT_REQUEST_LOST, 0, 2},
    {MEM_FAULT_REPLY_LATE, 5000 * MS, 400},
    {MEM_FAULT_HELD_BACK, 5000 * MS, 400},
    {MEM_FAULT_ANSWER, ERR_INTERNAL, 2},
    {MEM_FAULT_ANSWER, ERR_CONFLICT, 2},
    {MEM_FAULT_ANSWER, ERR_DEADLINE, 2},
    {MEM_FAULT_ANSWER, ERR_CANCELED, 2},
};

static void test_postgresql_fails(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof pg_faults / sizeof pg_faults[0]; i++) {
        for (int redis = OLD; redis <= ABSENT; redis++) {
            for (int pg = 0; pg < PG_WORLDS; pg++) {
                struct fixture f;
                char expected[128];
                bool internal = pg_faults[i].delay_us == ERR_INTERNAL;
                build(&f, redis, pg);
                mem_jobs_fault_all(f.jobs, MEM_ORDERS_FIND_REQUEST, 1, pg_faults[i].kind,
                                   pg_faults[i].delay_us);
                fixture_ask(&f, 5, 1);
                snprintf(expected, sizeof expected, "PG@1.0 ANSWER@%d.0 %s", pg_faults[i].ms + 1,
                         redis == OLD ? "200 QUEUED redis"
                         : internal   ? "500 INTERNAL_ERROR none"
                                      : "503 DEPENDENCY_UNAVAILABLE none");
                assert_string_equal(f.trace, expected);
                fixture_deinit(&f);
            }
        }
    }
}

static void test_both_fail(void **state)
{
    (void)state;
    for (size_t r = 0; r < sizeof redis_faults / sizeof redis_faults[0]; r++) {
        for (size_t p = 0; p < sizeof pg_faults / sizeof pg_faults[0]; p++) {
            struct fixture f;
            build(&f, FINAL, SETTLED);
            fixture_stock_fault(&f, MEM_STOCK_LOOKUP, 1, redis_faults[r].kind,
                                redis_faults[r].delay_us);
            mem_jobs_fault_all(f.jobs, MEM_ORDERS_FIND_REQUEST, 1, pg_faults[p].kind,
                               pg_faults[p].delay_us);
            fixture_ask(&f, 5, 1);
            assert_int_equal(f.last.answer, pg_faults[p].delay_us == ERR_INTERNAL
                                                ? ANSWER_INTERNAL_ERROR
                                                : ANSWER_DEPENDENCY_UNAVAILABLE);
            assert_true(f.sched.now_us - f.trace_us <= 1000 * MS);
            fixture_run_ms(&f, 6000);
            fixture_deinit(&f);
        }
    }
}

/* Reading twice is reading; a little late is in time. */
static void test_harmless_faults(void **state)
{
    (void)state;
    for (int redis = 0; redis < REDIS_WORLDS; redis++) {
        for (int pg = 0; pg < PG_WORLDS; pg++) {
            struct fixture f;
            build(&f, redis, pg);
            fixture_stock_fault(&f, MEM_STOCK_LOOKUP, 1, MEM_FAULT_TWICE, 0);
            fixture_stock_fault(&f, MEM_STOCK_ITEM, 1, MEM_FAULT_TWICE, 0);
            mem_jobs_fault_all(f.jobs, MEM_ORDERS_FIND_REQUEST, 1, MEM_FAULT_TWICE, 0);
            fixture_ask(&f, 5, 1);
            assert_string_equal(f.trace, table[redis][pg]);
            fixture_stock_fault(&f, MEM_STOCK_LOOKUP, 1, MEM_FAULT_REPLY_LATE, 50 * MS);
            mem_jobs_fault_all(f.jobs, MEM_ORDERS_FIND_REQUEST, 1, MEM_FAULT_REPLY_LATE, 300 * MS);
            enum answer before = f.last.answer;
            fixture_ask(&f, 5, 1);
            assert_int_equal(f.last.answer, before);
            fixture_deinit(&f);
        }
    }
}

/* --- nobody is told "not found" after a 202 --- */

/* Rule 34: the item is listed, its state is gone: Redis lost something. */
static void test_item_lost(void **state)
{
    struct fixture f;
    (void)state;
    build(&f, YOUNG, NOTHING);
    mem_stock_lose_item(f.stock, f.item);
    fixture_ask(&f, 5, 1);
    assert_string_equal(f.trace, "PG@1.0 ITEM@3.0 ANSWER@4.0 503 DEPENDENCY_UNAVAILABLE none");
    f.item.sku_id = 9; /* never sold */
    fixture_ask(&f, 5, 1);
    assert_string_equal(f.trace, "PG@1.0 ITEM@3.0 ANSWER@4.0 404 NOT_FOUND none");
    fixture_deinit(&f);
}

/* A view of the item from before the loss proves nothing about a record that was read after it. */
static void test_item_lost_behind_a_fresh_view(void **state)
{
    struct fixture f;
    (void)state;
    build(&f, YOUNG, NOTHING);
    fixture_ask_item(&f, f.item);
    assert_int_equal(f.last.answer, ANSWER_OK);
    mem_stock_lose_item(f.stock, f.item);
    fixture_ask(&f, 5, 1);
    assert_string_equal(f.trace, "PG@1.0 ITEM@3.0 ANSWER@4.0 503 DEPENDENCY_UNAVAILABLE none");
    fixture_deinit(&f);
}

static void test_item_unknown(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof redis_faults / sizeof redis_faults[0]; i++) {
        struct fixture f;
        build(&f, ABSENT, NOTHING);
        fixture_stock_fault(&f, MEM_STOCK_ITEM, 1, redis_faults[i].kind, redis_faults[i].delay_us);
        fixture_ask(&f, 5, 1);
        assert_int_equal(f.last.answer, redis_faults[i].delay_us == ERR_INTERNAL
                                            ? ANSWER_INTERNAL_ERROR
                                            : ANSWER_DEPENDENCY_UNAVAILABLE);
        fixture_run_ms(&f, 6000);
        fixture_deinit(&f);
    }
}

/* --- who may see it --- */

static void test_only_the_owner(void **state)
{
    struct fixture f;
    (void)state;
    build(&f, FINAL, SETTLED);
    fixture_ask(&f, 6, 1); /* somebody else, the same request id */
    struct lookup_answer theirs = f.last;
    fixture_ask(&f, 6, 77); /* no such request */
    assert_int_equal(theirs.answer, ANSWER_NOT_FOUND);
    theirs.request_id = f.last.request_id;
    assert_memory_equal(&theirs, &f.last, sizeof theirs); /* nothing tells them apart */

    fixture_ask_order(&f, fixture_order_id(5, 1), 5);
    assert_string_equal(f.trace, "ANSWER@2.0 200 CREATED postgresql");
    assert_int_equal(f.last.order.user_id, 5);
    fixture_ask_order(&f, fixture_order_id(5, 1), 6);
    theirs = f.last;
    assert_string_equal(f.trace, "ANSWER@2.0 404 NOT_FOUND none");
    fixture_ask_order(&f, 4711, 6);
    assert_memory_equal(&theirs, &f.last, sizeof theirs);
    fixture_deinit(&f);
}

/* An item's request is not another item's. */
static void test_only_of_the_item(void **state)
{
    struct fixture f;
    (void)state;
    build(&f, FINAL, SETTLED);
    f.item.sku_id = 2002;
    fixture_ask(&f, 5, 1);
    assert_int_equal(f.last.answer, ANSWER_NOT_FOUND);
    fixture_deinit(&f);
}

static void test_order_faults(void **state)
{
    struct fixture f;
    (void)state;
    build(&f, FINAL, SETTLED);
    for (size_t i = 0; i < sizeof pg_faults / sizeof pg_faults[0]; i++) {
        mem_jobs_fault_all(f.jobs, MEM_ORDERS_FIND_ORDER, 1, pg_faults[i].kind,
                           pg_faults[i].delay_us);
        fixture_ask_order(&f, fixture_order_id(5, 1), 5);
        assert_int_equal(f.last.answer, pg_faults[i].delay_us == ERR_INTERNAL
                                            ? ANSWER_INTERNAL_ERROR
                                            : ANSWER_DEPENDENCY_UNAVAILABLE);
    }
    fixture_ask_order(&f, fixture_order_id(5, 1), 5);
    assert_int_equal(f.last.answer, ANSWER_OK);
    fixture_deinit(&f);
}

/* --- what is told --- */

static void test_ids(void **state)
{
    struct fixture f;
    (void)state;
    build(&f, OLD, SETTLED);
    fixture_ask(&f, 5, 1);
    assert_int_equal(f.last.source, LOOKUP_FROM_PG);
    assert_int_equal(f.last.order_id, fixture_order_id(5, 1));
    assert_false(uuid_is_nil(&f.last.reservation_id));
    int64_t created_ms = f.last.created_at_ms; /* the record's */
    assert_true(created_ms < mem_clock_wall_ms(&f.sched) - 2000);
    assert_int_equal(mem_db_cancel(f.db, f.last.order_id, REASON_EXPIRED), 0);
    fixture_ask(&f, 5, 1);
    assert_int_equal(f.last.verdict.state, VERDICT_CANCELLED);
    assert_int_equal(f.last.verdict.reason, REASON_EXPIRED);
    assert_int_equal(f.last.created_at_ms, created_ms);
    fixture_deinit(&f);

    /* A tombstone that PostgreSQL alone knows has no ids; with the record beside it, it has. */
    build(&f, ABSENT, NOTHING);
    fixture_void(&f, 5, 1);
    fixture_ask(&f, 5, 1);
    assert_string_equal(f.trace, "PG@1.0 ANSWER@3.0 200 FAILED postgresql");
    assert_int_equal(f.last.verdict.reason, REASON_VOID);
    assert_int_equal(f.last.order_id, 0);
    assert_true(uuid_is_nil(&f.last.reservation_id));
    fixture_deinit(&f);
    build(&f, OLD, NOTHING);
    fixture_void(&f, 5, 1);
    fixture_ask(&f, 5, 1);
    assert_int_equal(f.last.verdict.state, VERDICT_FAILED);
    assert_int_equal(f.last.order_id, fixture_order_id(5, 1));
    fixture_deinit(&f);
}

/* The order that stands instead: as settle writes it into the record (rule 5). */
static void test_the_other_order(void **state)
{
    struct fixture f;
    (void)state;
    build(&f, OLD, NOTHING);
    fixture_place(&f, 5, 2); /* another request of the user won */
    fixture_place(&f, 5, 1);
    fixture_ask(&f, 5, 1);
    assert_int_equal(f.last.verdict.state, VERDICT_REJECTED);
    assert_int_equal(f.last.verdict.reason, REASON_ONE_USER_ONE_ORDER);
    assert_int_equal(f.last.order_id, fixture_order_id(5, 2));
    fixture_deinit(&f);
}

/* Retention took the inbox row: the order alone tells how it ended. */
static void test_decide_without_inbox(void **state)
{
    static const struct {
        const char *status;
        enum verdict_state state;
    } orders[] = {{"CREATED", VERDICT_SUCCEEDED},
                  {"PAYING", VERDICT_SUCCEEDED},
                  {"PAID", VERDICT_SUCCEEDED},
                  {"CANCELLED", VERDICT_CANCELLED},
                  {"CLOSED", VERDICT_CANCELLED}};
    (void)state;
    for (size_t i = 0; i < sizeof orders / sizeof orders[0]; i++) {
        struct lookup_seen seen = {.redis_rc = 1, .asked_pg = true};
        struct lookup_answer a = {.kind = LOOKUP_OF_REQUEST};
        seen.pg.order = (struct orders_order){.order_id = 9, .user_id = 5, .created_at_ms = 7000};
        str_copy(seen.pg.order.status, sizeof seen.pg.order.status, str_of(orders[i].status));
        assert_int_equal(lookup_decide_request(&seen, &a), LOOKUP_ANSWER);
        assert_int_equal(a.answer, ANSWER_OK);
        assert_int_equal(a.verdict.state, orders[i].state);
        assert_int_equal(a.order_id, 9);
        assert_int_equal(a.created_at_ms, 7000);
    }
}

/* Rule 19: the key was used before, that ended without an order, and Redis lost the record: the
 * reservation that it has now may become an order. With an order it ends as that one. */
static void test_an_earlier_use_of_the_key(void **state)
{
    (void)state;
    for (int same = 0; same < 2; same++) {
        for (int ordered = 0; ordered < 2; ordered++) {
            struct lookup_seen seen = {.asked_pg = true};
            struct lookup_answer a = {.kind = LOOKUP_OF_REQUEST};
            seen.redis.message_id = fixture_key(1);
            seen.pg.row = (struct orders_inbox){.found = true,
                                                .message_id = fixture_key(same ? 1 : 2),
                                                .verdict = {VERDICT_FAILED, REASON_VOID}};
            if (ordered)
                seen.pg.order = (struct orders_order){.order_id = 9, .user_id = 5};
            assert_int_equal(lookup_decide_request(&seen, &a), LOOKUP_ANSWER);
            assert_int_equal(a.verdict.state, same || ordered ? VERDICT_FAILED : VERDICT_QUEUED);
        }
    }
}

/* Rule 36: a record that a rebuild did not find is no last word, nor is what a store says that has
 * gone back: PostgreSQL knows of a later end. */
static void test_a_final_record_of_before(void **state)
{
    (void)state;
    for (int rebuilt = 0; rebuilt < 2; rebuilt++) {
        struct fixture f;
        fixture_init(&f, SETUP);
        fixture_reserve(&f, 5, 1);
        fixture_place(&f, 5, 1);
        fixture_settle(&f, 5, 1, (struct verdict){VERDICT_SUCCEEDED, REASON_NONE});
        fixture_reserve(&f, 6, 2);
        fixture_ask(&f, 6, 2); /* the store is at seq 2 */
        assert_int_equal(mem_db_cancel(f.db, fixture_order_id(5, 1), REASON_CANCELLED), 0);
        fixture_ask(&f, 5, 1);
        assert_string_equal(f.trace, "ANSWER@1.0 200 SUCCEEDED redis");
        mem_stock_set_version(f.stock, f.item,
                              (struct item_version){rebuilt ? 2 : 1, rebuilt ? 9 : 1});
        fixture_ask(&f, 5, 1);
        assert_string_equal(f.trace, "PG@1.0 ANSWER@3.0 200 CANCELLED postgresql");
        fixture_deinit(&f);
    }
}

/* Rules 36, 37: unsettled, of an older epoch, and nobody's: lost, as with a token. */
static void test_a_record_that_nobody_holds(void **state)
{
    struct fixture f;
    (void)state;
    fixture_init(&f, SETUP);
    fixture_reserve(&f, 5, 1);
    mem_stock_set_version(f.stock, f.item, (struct item_version){2, 1});
    mem_db_rebuilt(f.db, f.item, 2, MAX_HOLD_MS * MS);
    fixture_ask(&f, 5, 1);
    assert_string_equal(f.trace, "PG@1.0 EPOCH@3.0 ANSWER@5.0 200 QUEUED redis");
    fixture_run_ms(&f, MAX_HOLD_MS);
    fixture_ask(&f, 5, 1);
    assert_string_equal(f.trace, "PG@1.0 EPOCH@3.0 ANSWER@5.0 200 FAILED redis");
    assert_int_equal(f.last.verdict.reason, REASON_LOST_RESERVATION);
    fixture_deinit(&f);
}

/* Within one answer the higher rank wins, whoever says it (I7). */
static void test_rank_never_falls(void **state)
{
    (void)state;
    for (int r = 0; r < VERDICT_STATES; r++) {
        for (int p = 0; p < VERDICT_STATES; p++) {
            struct lookup_seen seen = {.asked_pg = true};
            struct lookup_answer a = {.kind = LOOKUP_OF_REQUEST};
            seen.redis.verdict.state = (enum verdict_state)r;
            seen.pg.row.found = true;
            seen.pg.row.verdict.state = (enum verdict_state)p;
            assert_int_equal(lookup_decide_request(&seen, &a), LOOKUP_ANSWER);
            assert_true(verdict_rank(a.verdict.state) >= verdict_rank((enum verdict_state)r));
            assert_true(verdict_rank(a.verdict.state) >= verdict_rank((enum verdict_state)p));
            /* At equal rank the first word stays. An inbox row without an outcome is rank 2. */
            int told =
                verdict_rank((enum verdict_state)p) > 2 ? verdict_rank((enum verdict_state)p) : 2;
            assert_int_equal(a.source, told > verdict_rank((enum verdict_state)r)
                                           ? LOOKUP_FROM_PG
                                           : LOOKUP_FROM_REDIS);
        }
    }
}

/* An order that both stores have lost, and of which an old copy of Redis still tells. */
static void test_an_order_that_no_rebuild_has_found_is_not_believed(void **state)
{
    struct fixture f;
    (void)state;
    fixture_init(&f, SETUP);
    fixture_reserve(&f, 5, 1);
    fixture_settle(&f, 5, 1, (struct verdict){VERDICT_SUCCEEDED, REASON_NONE});
    fixture_ask(&f, 5, 1);
    assert_string_equal(f.trace, "ANSWER@1.0 200 SUCCEEDED redis");
    mem_stock_set_epoch(f.stock, f.item, 2);
    fixture_ask(&f, 5, 1);
    assert_string_equal(f.trace, "PG@1.0 ITEM@3.0 ANSWER@4.0 404 NOT_FOUND none"); /* no token */
    fixture_place(&f, 5, 1);
    fixture_ask(&f, 5, 1);
    assert_string_equal(f.trace, "PG@1.0 ANSWER@3.0 200 SUCCEEDED postgresql");
    fixture_deinit(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_both_work),
        cmocka_unit_test(test_redis_fails),
        cmocka_unit_test(test_postgresql_fails),
        cmocka_unit_test(test_both_fail),
        cmocka_unit_test(test_harmless_faults),
        cmocka_unit_test(test_item_lost),
        cmocka_unit_test(test_item_lost_behind_a_fresh_view),
        cmocka_unit_test(test_item_unknown),
        cmocka_unit_test(test_only_the_owner),
        cmocka_unit_test(test_only_of_the_item),
        cmocka_unit_test(test_order_faults),
        cmocka_unit_test(test_ids),
        cmocka_unit_test(test_the_other_order),
        cmocka_unit_test(test_decide_without_inbox),
        cmocka_unit_test(test_an_earlier_use_of_the_key),
        cmocka_unit_test(test_a_final_record_of_before),
        cmocka_unit_test(test_a_record_that_nobody_holds),
        cmocka_unit_test(test_rank_never_falls),
        cmocka_unit_test(test_an_order_that_no_rebuild_has_found_is_not_believed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
