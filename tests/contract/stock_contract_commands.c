/* Commands that are remembered beside the queue (rule 27, docs/decisions/0026). */
#include "stock_contract.h"

static struct stock_command rows[STOCK_REMEMBERED_MAX];

static int first_page(struct item item, int64_t before_ms, struct stock_remembered *r)
{
    *r = (struct stock_remembered){.cursor = "0", .rows = rows};
    return client_remembered(item, before_ms, r);
}

void commands_are_remembered(void **state)
{
    (void)state;
    struct item item = client_sale(5);
    struct stock_remembered r;
    assert_int_equal(first_page(item, client_store_ms() + DAY_MS, &r), 0);
    assert_int_equal(r.n, 0);
    assert_false(r.more);
    assert_int_equal(client_remember(item, 1, "{\"a\":\"first one\"}"), 0);
    assert_int_equal(client_remember(item, 1, "{\"a\":\"second\"}"), 0);
    assert_int_equal(first_page(item, client_store_ms() + DAY_MS, &r), 0);
    assert_int_equal(r.n, 1);
    assert_int_equal(r.unreadable, 0);
    assert_uuid(rows[0].message_id, RESERVATION(1));
    assert_true(str_eq((struct str){rows[0].body, rows[0].body_len}, STR("{\"a\":\"first one\"}")));
    /* only those from before */
    assert_int_equal(first_page(item, client_store_ms() - 60000, &r), 0);
    assert_int_equal(r.n, 0);
    /* of an item that is not there */
    struct item other = {item.activity_id, item.sku_id + 7};
    assert_int_equal(client_remember(other, 1, "x"), 1);
    assert_int_equal(first_page(other, client_store_ms() + DAY_MS, &r), 0);
    assert_int_equal(r.n, 0);
    assert_int_equal(client_forget(other, 1), 0);
    assert_int_equal(client_forget(item, 2), 0); /* not there */
    assert_int_equal(client_forget(item, 1), 0);
    assert_int_equal(client_forget(item, 1), 0);
    assert_int_equal(first_page(item, client_store_ms() + DAY_MS, &r), 0);
    assert_int_equal(r.n, 0);
    assert_free(item, 5, 0, 0);
}

void remembered_in_pages(void **state)
{
    (void)state;
    struct item item = client_sale(5);
    bool seen[41] = {0};
    for (int n = 1; n <= 40; n++)
        assert_int_equal(client_remember(item, n, "{}"), 0);
    assert_int_equal(client_remember(item, 41, "{}"), 2);
    assert_int_equal(client_remember(item, 40, "{}"), 0);
    struct stock_remembered r = {.cursor = "0", .rows = rows};
    int found = 0;
    do {
        assert_int_equal(client_remembered(item, client_store_ms() + DAY_MS, &r), 0);
        for (int i = 0; i < r.n; i++) {
            for (int n = 1; n <= 40; n++) {
                struct uuid id = RESERVATION(n);
                if (!uuid_eq(&id, &rows[i].message_id))
                    continue;
                assert_false(seen[n]);
                seen[n] = true;
                found++;
                assert_int_equal(client_forget(item, n), 0);
            }
        }
    } while (r.more);
    assert_int_equal(found, 40);
    assert_int_equal(client_remember(item, 41, "{}"), 0);
}
