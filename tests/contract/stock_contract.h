/* What the files of the stock's contract share. */
#pragma once

#include "stock_client.h"

static const struct verdict SUCCEEDED = {VERDICT_SUCCEEDED, REASON_NONE};

static inline struct verdict because(enum verdict_reason r)
{
    return verdict_of_reason(r);
}

static inline struct stock_item_info info(struct item item)
{
    struct stock_item_get g;
    assert_int_equal(client_item(item, &g), 0);
    return g.info;
}

static inline struct reservation record(struct item item, int64_t user, int64_t request)
{
    struct reservation r;
    assert_int_equal(client_lookup(item, user, request, &r), 0);
    return r;
}

static inline void reserve(struct item item, int64_t user, int64_t request, int64_t n)
{
    struct stock_reserve r;
    assert_int_equal(client_reserve(item, user, request, n, &r), STOCK_CREATED);
}

static inline void assert_uuid(struct uuid a, struct uuid b)
{
    assert_true(uuid_eq(&a, &b));
}

static inline void assert_free(struct item item, int64_t free, int64_t buyers, int64_t pending)
{
    struct stock_item_info i = info(item);
    assert_int_equal(i.free, free);
    assert_int_equal(i.buyers, buyers);
    assert_int_equal(i.pending, pending);
}

/* Who holds the user's unit: another key tells. 0: nobody. */
static inline int64_t holder(struct item item, int64_t user)
{
    struct stock_reserve r;
    int rc = client_reserve_until(item, user, 999999, 999999, backend_now_us() + 1000 * MS, &r);
    if (rc == STOCK_CREATED) { /* it was free: undone at once */
        assert_int_equal(
            client_settle_one(item, client_row(user, 999999, 999999, because(REASON_VOID), true)),
            STOCK_SETTLED);
        return 0;
    }
    assert_int_equal(rc, STOCK_DUPLICATE);
    return r.found.order_id;
}

/* stock_contract_release.c */
void release_only_from_reserved(void **state);
void a_released_key_competes_again(void **state);
void release_of_what_is_not_there(void **state);
/* Whether the backend's queue is the store's own (streams). */
bool contract_streams(void);

/* stock_contract_settle.c */
void settle_table(void **state);
void ranks(void **state);
void a_released_key_tells_its_reason(void **state);
void buyers_only_if_mine(void **state);
void one_user_one_order(void **state);
void the_same_keys_earlier_order(void **state);
void another_epoch(void **state);
void unknown_reservations(void **state);
void many_rows_at_once(void **state);

/* stock_contract_reconcile.c */
void inspect_tells_what_item_tells(void **state);
void holders_and_what_is_held(void **state);
void mend_follows_the_record(void **state);
void lower_takes_only_what_is_too_many(void **state);
void total_up_and_down(void **state);

/* stock_contract_commands.c */
void commands_are_remembered(void **state);
void remembered_in_pages(void **state);

/* stock_contract_rebuild.c */
void a_rebuild(void **state);
void a_rebuilds_steps_are_done_once(void **state);
void reports_are_taken_up(void **state);
