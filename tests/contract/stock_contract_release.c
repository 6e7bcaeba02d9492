/* release: a reservation is taken away as if it had been refused. Rules 1, 7, 8. */
#include "stock_contract.h"

static void assert_left_alone(struct item item, int64_t user, int64_t n)
{
    struct item_version v, before = info(item).version;
    struct stock_item_info had = info(item);
    assert_int_equal(client_release(item, user, 1, n, &v), 1);
    assert_int_equal(item_version_cmp(v, before), 0);
    assert_int_equal(item_version_cmp(info(item).version, before), 0);
    assert_free(item, had.free, had.buyers, had.pending);
}

/* Rule 8: as if it had been refused, so that the same key gets a unit of its own; rule 7: seq + 1.
 */
void a_released_key_competes_again(void **state)
{
    (void)state;
    if (contract_streams())
        return; /* published in the same call: never RESERVED */
    struct item item = client_sale(1);
    struct item_version v;
    struct stock_reserve r;
    struct reservation none;
    reserve(item, 7, 1, 100);
    assert_int_equal(client_reserve(item, 8, 1, 101, &r), STOCK_SOLD_OUT);
    int64_t seq = info(item).version.seq;
    assert_int_equal(client_release(item, 7, 1, 100, &v), 0);
    assert_int_equal(v.epoch, 1);
    assert_int_equal(v.seq, seq + 1);
    assert_int_equal(item_version_cmp(info(item).version, v), 0);
    assert_int_equal(client_lookup(item, 7, 1, &none), 1);
    assert_free(item, 1, 0, 0);
    assert_left_alone(item, 7, 100); /* once */
    reserve(item, 7, 1, 102);
    assert_uuid(record(item, 7, 1).reservation_id, RESERVATION(102));
    assert_left_alone(item, 7, 100); /* the new one is not the old one's */
    assert_free(item, 0, 1, 1);
    assert_int_equal(holder(item, 7), 102);
}

/* Rules 1, 8: whatever says that something may have been published, or is over, stays. */
void release_only_from_reserved(void **state)
{
    (void)state;
    struct item item = client_sale(9);
    struct reservation found;
    reserve(item, 1, 1, 101);
    assert_true(client_mark(item, 1, 1, 101, RESERVATION_MQ_SENT) >= 0);
    reserve(item, 2, 1, 102);
    assert_true(client_mark(item, 2, 1, 102, RESERVATION_MQ_PENDING) >= 0);
    reserve(item, 3, 1, 103);
    assert_int_equal(client_claim(item, 3, 1, 103, &found), 0); /* recovery has it */
    reserve(item, 4, 1, 104);
    assert_int_equal(client_settle_one(item, client_row(4, 1, 104, SUCCEEDED, false)),
                     STOCK_SETTLED);
    reserve(item, 5, 1, 105);
    assert_int_equal(client_settle_one(item, client_row(5, 1, 105, because(REASON_VOID), true)),
                     STOCK_SETTLED);
    for (int user = 1; user <= 5; user++) {
        enum reservation_status was = record(item, user, 1).status;
        assert_left_alone(item, user, 100 + user);
        assert_int_equal(record(item, user, 1).status, was);
    }
    assert_free(item, 5, 4, 3);
}

void release_of_what_is_not_there(void **state)
{
    (void)state;
    struct item item = client_sale(2);
    struct item_version v;
    reserve(item, 7, 1, 100);
    assert_left_alone(item, 8, 100);
    assert_left_alone(item, 7, 999); /* another reservation of the same request */
    assert_int_equal(client_release(backend_item(), 7, 1, 100, &v), 1);
    backend_set_epoch(item, 2);
    assert_left_alone(item, 7, 100); /* the rebuild decides on it */
    assert_int_equal(record(item, 7, 1).order_id, 100);
}
