/* The steps of a rebuild, the reports, the catalogue. Rules 2, 7, 34–36. */
#include "stock_contract.h"

static struct stock_hold hold(int64_t user, int64_t request, int64_t n, bool ordered)
{
    return (struct stock_hold){.reservation_id = RESERVATION(n),
                               .message_id = RESERVATION(n + 500000),
                               .request_id = REQUEST(request),
                               .user_id = user,
                               .order_id = n,
                               .created_at_ms = client_store_ms() - 5000,
                               .ordered = ordered};
}

static void assert_closed(struct item item)
{
    struct stock_reserve r;
    assert_true(info(item).rebuilding);
    assert_int_equal(client_reserve(item, 99, 99, 99, &r), STOCK_PAUSED);
}

/* From what is there, and from nothing. */
void a_rebuild(void **state)
{
    (void)state;
    for (int there = 0; there < 2; there++) {
        struct item item = there ? client_sale(10) : backend_item();
        bool was_there = false;
        if (there) {
            reserve(item, 1, 1, 101);
            reserve(item, 2, 1, 102);
            reserve(item, 3, 1, 103);
        }
        /* An operator raises the total from 7 while it is rebuilt. */
        assert_int_equal(client_rebuild_begin(item, 2, 7, STOCK_STATE_OPEN, &was_there), 0);
        assert_int_equal(was_there, there);
        assert_closed(item);
        assert_int_equal(client_settle_one(item, client_row(3, 1, 103, because(REASON_VOID), true)),
                         STOCK_LATER); /* rule 2 */
        struct stock_hold rows[] = {hold(1, 1, 101, true), hold(2, 1, 102, false)};
        assert_int_equal(client_rebuild_restore(item, 2, 1, &rows[0], 1), 0);
        assert_int_equal(client_rebuild_restore(item, 2, 2, &rows[1], 1), 0);
        assert_closed(item);
        assert_int_equal(client_rebuild_end(item, 2, 3, 8), 0);
        assert_free(item, 8, 2, 1);
        assert_int_equal(info(item).version.epoch, 2);
        assert_int_equal(info(item).version.seq, 1); /* rule 7 */
        assert_int_equal(info(item).total, 10);
        assert_false(info(item).rebuilding);
        assert_int_equal(record(item, 1, 1).status, RESERVATION_ORDERED);
        assert_int_equal(record(item, 1, 1).verdict.state, VERDICT_SUCCEEDED);
        assert_int_equal(record(item, 2, 1).epoch, 2);
        assert_int_equal(record(item, 2, 1).seq, 0);
        assert_int_equal(holder(item, 1), 101);
        assert_int_equal(holder(item, 2), 102);
        assert_int_equal(holder(item, 4), 0);
        /* Rule 36: whom the rebuild did not find holds nothing, and is told the end all the same.
         */
        assert_int_equal(client_settle_one(item, client_row(3, 1, 103, because(REASON_VOID), true)),
                         there ? STOCK_SETTLED : STOCK_IGNORED);
        assert_free(item, 8, 2, 1);
        /* The survivor's unit comes back, once; the order's, too. */
        assert_int_equal(client_settle_one(item, client_row(2, 1, 102, because(REASON_VOID), true)),
                         STOCK_SETTLED);
        struct stock_settle_row gone = client_row(1, 1, 101, because(REASON_CANCELLED), true);
        assert_int_equal(client_settle_one(item, gone), STOCK_SETTLED);
        assert_int_equal(client_settle_one(item, gone), STOCK_IGNORED);
        assert_free(item, 10, 0, 0);
        reserve(item, 3, 2, 110);
    }
}

/* Rule 35: at another epoch, out of order, or once more. */
void a_rebuilds_steps_are_done_once(void **state)
{
    (void)state;
    struct item item = client_sale(10);
    struct stock_hold one = hold(1, 1, 101, true), two = hold(2, 1, 102, true);
    bool there;
    assert_int_equal(client_rebuild_restore(item, 2, 1, &one, 1), 1);
    assert_int_equal(client_rebuild_end(item, 2, 1, 9), 1);
    assert_int_equal(client_rebuild_begin(item, 1, 10, STOCK_STATE_OPEN, &there), 1);
    assert_int_equal(client_rebuild_begin(item, 2, 10, STOCK_STATE_OPEN, &there), 0);
    assert_int_equal(client_rebuild_begin(item, 2, 10, STOCK_STATE_OPEN, &there), 0);
    assert_int_equal(client_rebuild_restore(item, 2, 2, &one, 1), 1);
    assert_int_equal(client_rebuild_restore(item, 2, 1, &one, 1), 0);
    assert_int_equal(client_rebuild_restore(item, 2, 2, &two, 1), 0);
    assert_int_equal(client_rebuild_restore(item, 2, 1, NULL, 0), 0); /* late: empties nothing */
    assert_int_equal(client_rebuild_end(item, 2, 2, 8), 1);
    assert_int_equal(client_rebuild_begin(item, 3, 10, STOCK_STATE_PAUSED, &there), 0);
    assert_int_equal(client_rebuild_restore(item, 2, 3, &one, 1), 1);
    assert_int_equal(client_rebuild_end(item, 2, 3, 8), 1);
    assert_int_equal(client_rebuild_restore(item, 3, 1, &one, 1), 0);
    assert_int_equal(client_control(item, STOCK_STATE_OPEN), 0); /* what it will be */
    assert_closed(item);
    assert_int_equal(client_rebuild_end(item, 3, 2, 9), 0);
    assert_int_equal(client_rebuild_end(item, 3, 2, 5), 1);
    assert_int_equal(client_rebuild_begin(item, 3, 10, STOCK_STATE_OPEN, &there), 1);
    assert_int_equal(info(item).state, STOCK_STATE_OPEN);
    assert_free(item, 9, 1, 0);
}

/* Rule 34. */
void reports_are_taken_up(void **state)
{
    (void)state;
    struct item item = client_sale(1), other = client_sale(1);
    struct item found[STOCK_REPORTS_MAX];
    int n = 0, hits = 0;
    assert_int_equal(client_report(item), 0);
    assert_int_equal(client_report(other), 0);
    assert_int_equal(client_reports(found, &n), 0);
    for (int i = 0; i < n; i++)
        hits += item_eq(found[i], item) || item_eq(found[i], other);
    assert_int_equal(hits, 2);
    assert_int_equal(client_unreport(item), 0);
    assert_int_equal(client_unreport(item), 0);
    assert_false(backend_reported(item));
    assert_true(backend_reported(other));
    assert_int_equal(client_unreport(other), 0);
    /* Listed again, with another that never was. */
    struct item items[] = {item, backend_item()};
    struct stock_item_get g;
    assert_int_equal(client_unlist(item), 0);
    assert_int_equal(client_relist(items, 2), 0);
    assert_int_equal(client_item(items[1], &g), 1);
    assert_true(g.listed);
}
