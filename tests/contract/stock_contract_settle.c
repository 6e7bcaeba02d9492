/* The stock's contract, settle: rules 2 to 5 and 7. */
#include "stock_contract.h"

/* Rules 2–4: each verdict from an unsettled reservation. */
void settle_table(void **state)
{
    (void)state;
    static const struct {
        struct verdict v;
        bool give_back;
        enum reservation_status status;
        int free, buyers;
    } rows[] = {
        {{VERDICT_SUCCEEDED, REASON_NONE}, false, RESERVATION_ORDERED, 4, 1},
        {{VERDICT_SOLD_OUT, REASON_PG_STOCK_EXHAUSTED},
         false,
         RESERVATION_RELEASED,
         4,
         0}, /* that unit never existed */
        {{VERDICT_REJECTED, REASON_ID_COLLISION}, true, RESERVATION_RELEASED, 5, 0},
        {{VERDICT_REJECTED, REASON_IDEMPOTENCY_KEY_REUSED}, true, RESERVATION_RELEASED, 5, 0},
        {{VERDICT_FAILED, REASON_VOID}, true, RESERVATION_RELEASED, 5, 0},
        {{VERDICT_FAILED, REASON_LOST_RESERVATION}, false, RESERVATION_RELEASED, 4, 0},
        {{VERDICT_CANCELLED, REASON_EXPIRED},
         true,
         RESERVATION_RELEASED,
         5,
         0}, /* from any lower rank */
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct item item = client_sale(5);
        reserve(item, 7, 1, 100);
        struct item_version before = info(item).version, after;
        struct stock_settle_row row = client_row(7, 1, 100, rows[i].v, rows[i].give_back);
        assert_int_equal(client_settle(item, &row, 1, &after), 0);
        assert_int_equal(row.result, STOCK_SETTLED);
        struct reservation r = record(item, 7, 1);
        assert_int_equal(r.status, rows[i].status);
        assert_int_equal(r.verdict.state, rows[i].v.state);
        assert_int_equal(r.verdict.reason, rows[i].v.reason);
        assert_free(item, rows[i].free, rows[i].buyers, 0);
        /* Rule 7: what changed buyers or raised stock moved seq, and nothing else did. */
        bool changed = rows[i].buyers == 0 || rows[i].free == 5;
        assert_int_equal(after.seq, before.seq + changed);
        /* Each once. */
        assert_int_equal(client_settle_one(item, row), STOCK_IGNORED);
        assert_free(item, rows[i].free, rows[i].buyers, 0);
        assert_int_equal(info(item).version.seq, after.seq);
    }
}

/* Rule 3. */
void ranks(void **state)
{
    (void)state;
    struct item item = client_sale(5);
    reserve(item, 7, 1, 100);
    assert_int_equal(client_settle_one(item, client_row(7, 1, 100, SUCCEEDED, false)),
                     STOCK_SETTLED);
    assert_int_equal(client_settle_one(item, client_row(7, 1, 100, because(REASON_VOID), true)),
                     STOCK_IGNORED);
    assert_free(item, 4, 1, 0);
    assert_int_equal(
        client_settle_one(item, client_row(7, 1, 100, because(REASON_CANCELLED), true)),
        STOCK_SETTLED);
    assert_free(item, 5, 0, 0);
    assert_int_equal(client_settle_one(item, client_row(7, 1, 100, SUCCEEDED, false)),
                     STOCK_IGNORED);
    assert_int_equal(record(item, 7, 1).verdict.state, VERDICT_CANCELLED);
    assert_int_equal(record(item, 7, 1).status, RESERVATION_RELEASED); /* final (rule 1) */

    reserve(item, 8, 1, 101); /* cancelled before its order was heard of */
    assert_int_equal(
        client_settle_one(item, client_row(8, 1, 101, because(REASON_CANCELLED), true)),
        STOCK_SETTLED);
    assert_int_equal(client_settle_one(item, client_row(8, 1, 101, SUCCEEDED, false)),
                     STOCK_IGNORED);
    assert_free(item, 5, 0, 0);

    reserve(item, 9, 1, 102); /* PostgreSQL lost it */
    assert_int_equal(client_settle_one(item, client_row(9, 1, 102, SUCCEEDED, false)),
                     STOCK_SETTLED);
    assert_int_equal(
        client_settle_one(item, client_row(9, 1, 102, because(REASON_LOST_ORDER), true)),
        STOCK_SETTLED);
    assert_int_equal(record(item, 9, 1).verdict.reason, REASON_LOST_ORDER);
    assert_free(item, 5, 0, 0);

    reserve(item, 10, 1, 103); /* a release cannot be overtaken by one of the same rank */
    assert_int_equal(client_settle_one(item, client_row(10, 1, 103, because(REASON_VOID), true)),
                     STOCK_SETTLED);
    assert_int_equal(client_settle_one(item, client_row(10, 1, 103, SUCCEEDED, false)),
                     STOCK_IGNORED);
    assert_int_equal(
        client_settle_one(item, client_row(10, 1, 103, because(REASON_CANCELLED), true)),
        STOCK_SETTLED);
    assert_free(item, 5, 0, 0); /* the unit went back once */
}

void a_released_key_tells_its_reason(void **state)
{
    (void)state;
    struct item item = client_sale(5);
    struct stock_reserve r;
    reserve(item, 7, 1, 100);
    assert_int_equal(client_settle_one(item, client_row(7, 1, 100, because(REASON_VOID), true)),
                     STOCK_SETTLED);
    assert_int_equal(client_reserve(item, 7, 1, 101, &r), STOCK_REPLAY);
    assert_int_equal(r.found.status, RESERVATION_RELEASED);
    assert_int_equal(r.found.verdict.state, VERDICT_FAILED);
    assert_int_equal(r.found.verdict.reason, REASON_VOID);
    assert_int_equal(client_reserve(item, 7, 2, 102, &r),
                     STOCK_CREATED); /* a new key may compete again */
}

/* Rule 5: bought again, an old release changes nothing. */
void buyers_only_if_mine(void **state)
{
    (void)state;
    struct item item = client_sale(5);
    reserve(item, 7, 1, 100);
    assert_int_equal(client_settle_one(item, client_row(7, 1, 100, because(REASON_VOID), true)),
                     STOCK_SETTLED);
    reserve(item, 7, 2, 101);
    assert_free(item, 4, 1, 1);
    assert_int_equal(client_settle_one(item, client_row(7, 1, 100, because(REASON_EXPIRED), true)),
                     STOCK_SETTLED);
    assert_free(item, 4, 1, 1);
    assert_int_equal(holder(item, 7), 101);
}

static struct stock_settle_row with_other(struct stock_settle_row row, int64_t request, int64_t n)
{
    row.other_order_id = n;
    row.other_reservation_id = RESERVATION(n);
    row.other_request_id = REQUEST(request);
    return row;
}

void one_user_one_order(void **state)
{
    (void)state;
    struct item item = client_sale(5);
    /* The order that exists is of a reservation Redis no longer knows: buyers says what
     * DUPLICATE_ORDER must answer. */
    reserve(item, 7, 1, 100);
    struct stock_settle_row row = client_row(7, 1, 100, because(REASON_ONE_USER_ONE_ORDER), true);
    row = with_other(row, 50, 500);
    assert_int_equal(client_settle_one(item, row), STOCK_SETTLED);
    assert_free(item, 4, 1, 0); /* it took no unit here, and keeps this one with the entry */
    assert_int_equal(holder(item, 7), 500);
    assert_int_equal(record(item, 7, 1).status, RESERVATION_RELEASED);
    for (int again = 0; again < 2; again++) { /* it ends: so do both, once */
        row = client_row(7, 50, 500, because(REASON_CANCELLED), true);
        assert_int_equal(client_settle_one(item, row), again ? STOCK_IGNORED : STOCK_SETTLED);
        assert_free(item, 5, 0, 0);
    }
    /* … is RELEASED by now: the entry goes. */
    reserve(item, 8, 1, 110);
    assert_int_equal(
        client_settle_one(item, client_row(8, 1, 110, because(REASON_CANCELLED), true)),
        STOCK_SETTLED);
    reserve(item, 8, 2, 111);
    row = with_other(client_row(8, 2, 111, because(REASON_ONE_USER_ONE_ORDER), true), 1, 110);
    assert_int_equal(client_settle_one(item, row), STOCK_SETTLED);
    assert_free(item, 5, 0, 0);
    assert_int_equal(holder(item, 8), 0);
}

/* The same key's earlier order (rule 19), of which nothing else is known here: that order's state
 * and ids, and the own unit is that order's. */
void the_same_keys_earlier_order(void **state)
{
    (void)state;
    struct item item = client_sale(5);
    reserve(item, 7, 1, 100);
    struct stock_settle_row row = with_other(client_row(7, 1, 100, SUCCEEDED, true), 1, 500);
    assert_int_equal(client_settle_one(item, row), STOCK_SETTLED);
    struct reservation r = record(item, 7, 1);
    assert_int_equal(r.status, RESERVATION_ORDERED);
    assert_int_equal(r.order_id, 500);
    assert_uuid(r.reservation_id, RESERVATION(500));
    assert_free(item, 4, 1, 0);
    assert_int_equal(holder(item, 7), 500);
    assert_int_equal(client_settle_one(item, row), STOCK_IGNORED);
    row = client_row(7, 1, 500, because(REASON_CANCELLED), true);
    assert_int_equal(client_settle_one(item, row), STOCK_SETTLED); /* the unit goes back once */
    assert_free(item, 5, 0, 0);
}

/* Rule 2. */
void another_epoch(void **state)
{
    (void)state;
    struct item item = client_sale(5);
    struct reservation r;
    reserve(item, 7, 1, 100);
    backend_set_epoch(item, 2);
    assert_int_equal(client_settle_one(item, client_row(7, 1, 100, because(REASON_VOID), true)),
                     STOCK_LATER);
    assert_free(item, 4, 1, 1);
    assert_int_equal(record(item, 7, 1).verdict.state, VERDICT_QUEUED);
    assert_int_equal(client_settle_one(item, client_row(8, 1, 101, SUCCEEDED, false)),
                     STOCK_LATER); /* what is not there may come back */
    assert_int_equal(client_claim(item, 7, 1, 100, &r), 1);
    backend_set_epoch(item, 1);
    assert_int_equal(client_settle_one(item, client_row(7, 1, 100, SUCCEEDED, false)),
                     STOCK_SETTLED);
}

void unknown_reservations(void **state)
{
    (void)state;
    struct item item = client_sale(5);
    reserve(item, 7, 1, 100);
    assert_int_equal(client_settle_one(item, client_row(7, 1, 999, because(REASON_VOID), true)),
                     STOCK_IGNORED);
    assert_int_equal(client_settle_one(item, client_row(7, 2, 100, because(REASON_VOID), true)),
                     STOCK_IGNORED);
    assert_int_equal(client_settle_one(item, client_row(8, 1, 100, because(REASON_VOID), true)),
                     STOCK_IGNORED);
    assert_int_equal(
        client_settle_one(backend_item(), client_row(7, 1, 100, because(REASON_VOID), true)),
        STOCK_IGNORED);
    assert_free(item, 4, 1, 1);
}

void many_rows_at_once(void **state)
{
    (void)state;
    enum { N = 128 };
    struct item item = client_sale(N);
    static struct stock_settle_row rows[2 * N];
    for (int i = 0; i < N; i++) {
        reserve(item, i + 1, 1, i + 1);
        rows[i] = client_row(i + 1, 1, i + 1, i % 2 ? SUCCEEDED : because(REASON_VOID), i % 2 == 0);
        rows[N + i] = rows[i]; /* and each twice */
    }
    assert_free(item, 0, N, N);
    struct item_version v, before = info(item).version;
    assert_int_equal(client_settle(item, rows, 2 * N, &v), 0);
    for (int i = 0; i < N; i++) {
        assert_int_equal(rows[i].result, STOCK_SETTLED);
        assert_int_equal(rows[N + i].result, STOCK_IGNORED);
    }
    assert_free(item, N / 2, N / 2, 0);
    assert_true(v.seq > before.seq);
    static int64_t users[N];
    assert_int_equal(client_buyers(item, users, N), N / 2);
    int64_t sum = 0;
    for (int i = 0; i < N / 2; i++)
        sum += users[i];
    assert_int_equal(sum, N / 2 * (N / 2 + 1)); /* 2 + 4 + … */
}
