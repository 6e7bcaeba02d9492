/* What reconciliation asks and does: rules 5, 7, 40. */
#include "stock_contract.h"

void inspect_tells_what_item_tells(void **state)
{
    (void)state;
    struct item item = client_sale(5);
    struct stock_inspect o;
    assert_int_equal(client_inspect(backend_item(), &o), 1);
    reserve(item, 7, 1, 100);
    struct item_version before = info(item).version;
    assert_int_equal(client_inspect(item, &o), 0);
    assert_int_equal(o.info.total, 5);
    assert_int_equal(o.info.free, 4);
    assert_int_equal(o.info.buyers, 1);
    assert_int_equal(o.info.pending, 1);
    assert_int_equal(o.info.state, STOCK_STATE_OPEN);
    assert_int_equal(item_version_cmp(o.info.version, before), 0);
}

void holders_and_what_is_held(void **state)
{
    (void)state;
    enum { N = 700 };
    static struct stock_holder rows[N];
    struct item item = client_sale(N);
    for (int i = 1; i <= N; i++)
        reserve(item, i, 1, 100 + i);
    assert_int_equal(client_settle_one(item, client_row(2, 1, 102, SUCCEEDED, false)),
                     STOCK_SETTLED);
    assert_int_equal(client_settle_one(item, client_row(3, 1, 103, because(REASON_VOID), true)),
                     STOCK_SETTLED);
    assert_int_equal(client_holders(item, rows, N), N - 1);
    for (int i = 0; i < N - 1; i++) {
        assert_int_equal(rows[i].order_id, 100 + rows[i].user_id);
        assert_uuid(rows[i].reservation_id, RESERVATION(100 + rows[i].user_id));
        assert_uuid(rows[i].request_id, REQUEST(1));
    }
    backend_remove_buyer(item, 4);
    struct stock_held_row held[5];
    struct item_version v;
    for (int i = 0; i < 5; i++)
        held[i] = (struct stock_held_row){.user_id = i + 1, .request_id = REQUEST(1)};
    held[4].request_id = REQUEST(2); /* never heard of */
    assert_int_equal(client_held(item, held, 5, &v), 0);
    assert_int_equal(item_version_cmp(v, info(item).version), 0);
    assert_int_equal(held[0].result, STOCK_ROW_GOOD);
    assert_true(held[0].pending && held[0].has_entry);
    assert_uuid(held[0].entry.reservation_id, held[0].record.reservation_id);
    assert_int_equal(held[0].entry.order_id, 101);
    assert_false(held[1].pending);
    assert_int_equal(held[1].record.status, RESERVATION_ORDERED);
    assert_false(held[2].has_entry);
    assert_int_equal(held[2].record.status, RESERVATION_RELEASED);
    assert_true(held[3].pending && !held[3].has_entry);
    assert_int_equal(held[4].result, STOCK_ROW_GONE);
    assert_true(held[4].has_entry);
    assert_uuid(held[4].entry.request_id, REQUEST(1));
}

void mend_follows_the_record(void **state)
{
    (void)state;
    struct item item = client_sale(5);
    for (int user = 1; user <= 3; user++)
        reserve(item, user, 1, 100 + user);
    struct reservation one = record(item, 1, 1), two = record(item, 2, 1);
    assert_int_equal(client_settle_one(item, client_row(2, 1, 102, because(REASON_VOID), true)),
                     STOCK_SETTLED);
    int64_t seq = info(item).version.seq;
    assert_int_equal(client_mend(item, 1, 1, 101), 1);
    backend_remove_buyer(item, 1);
    backend_forget_pending(item, &one);
    backend_put_buyer(item, &two);
    assert_free(item, 3, 2, 1);
    assert_int_equal(client_mend(item, 1, 1, 999), 1); /* another reservation's */
    assert_int_equal(client_mend(item, 1, 1, 101), 0);
    assert_int_equal(client_mend(item, 2, 1, 102), 0);
    assert_int_equal(info(item).version.seq, seq + 2);
    assert_free(item, 3, 2, 2);
    assert_int_equal(holder(item, 1), 101);
    assert_int_equal(holder(item, 2), 0);
    backend_remove_buyer(item, 3);
    backend_set_epoch(item, 2);
    assert_int_equal(client_mend(item, 3, 1, 103), 1); /* the rebuild decides on it */
}

void lower_takes_only_what_is_too_many(void **state)
{
    (void)state;
    struct item item = client_sale(5);
    int64_t taken;
    assert_int_equal(client_lower(backend_item(), 5, 5, &taken), 1);
    reserve(item, 1, 1, 101);
    struct item_version before = info(item).version;
    assert_int_equal(client_lower(item, 5, 5, &taken), 0);
    assert_int_equal(taken, 0);
    assert_int_equal(item_version_cmp(info(item).version, before), 0);
    backend_add_free(item, 2);
    assert_int_equal(client_lower(item, 5, 5, &taken), 0);
    assert_int_equal(taken, 2);
    assert_int_equal(info(item).version.seq, before.seq + 1);
    assert_free(item, 4, 1, 1);
    backend_add_free(item, -3); /* missing ones are not put back */
    assert_int_equal(client_lower(item, 5, 5, &taken), 0);
    assert_free(item, 1, 1, 1);
    assert_int_equal(client_lower(item, 6, 3, &taken), 0); /* it is not that any more */
    assert_int_equal(client_lower(item, 5, 9, &taken), 0); /* never up */
    assert_int_equal(info(item).total, 5);
    assert_int_equal(client_lower(item, 5, 3, &taken), 0); /* of it two were missing already */
    assert_int_equal(taken, 0);
    assert_free(item, 1, 1, 1);
    assert_int_equal(client_lower(item, 3, 0, &taken), 0); /* what is held stays held */
    assert_int_equal(taken, 1);
    assert_int_equal(info(item).total, 0);
    assert_free(item, 0, 1, 1);
}

void total_up_and_down(void **state)
{
    (void)state;
    struct item item = client_sale(2);
    struct stock_set_total o;
    assert_int_equal(client_set_total(backend_item(), 1, 2, &o), 1);
    reserve(item, 1, 1, 101);
    int64_t seq = info(item).version.seq;
    assert_int_equal(client_set_total(item, 2, 4, &o), 0);
    assert_int_equal(o.total, 4);
    assert_int_equal(o.free, 3);
    assert_int_equal(info(item).version.seq, seq + 1);
    assert_int_equal(client_set_total(item, 2, 9, &o), 3); /* another has changed it since */
    assert_int_equal(o.total, 4);
    assert_int_equal(client_set_total(item, 4, 0, &o), 2); /* one is held */
    assert_int_equal(o.free, 3);
    assert_int_equal(client_set_total(item, 4, 1, &o), 0);
    assert_int_equal(client_set_total(item, 4, 1, &o), 0); /* it is so */
    assert_int_equal(info(item).version.seq, seq + 2);
    assert_free(item, 0, 1, 1);
}
