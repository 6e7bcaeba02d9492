#include "daemon/ctl/audit_model.h"

#include "unit.h"
#include <string.h>

static struct uuid key_of(uint32_t i)
{
    struct uuid u = {{0}};
    memcpy(u.b, &i, sizeof(i));
    return u;
}

/* A million requests, half of them with something stored. */
static void keeps_them_apart(void **state)
{
    enum { N = 1000000 };
    struct audit_model m = {0};
    (void)state;
    for (uint32_t i = 0; i < N; i++) {
        struct uuid key = key_of(i / 2); /* two users with one key */
        struct audit_request *r = audit_request(&m, 1 + i % 2, &key);
        assert_non_null(r);
        r->order_id = i;
        if (i % 4 < 2) {
            struct audit_stored *s = audit_stored(&m, 1 + i % 2, &key);
            s->order = AUDIT_ACTIVE;
            s->order_id = i;
        }
    }
    assert_int_equal(m.n_requests, N);
    assert_int_equal(m.n_stored, N / 2);
    audit_index_orders(&m);
    for (uint32_t i = 0; i < N; i++) {
        struct uuid key = key_of(i / 2);
        assert_int_equal(audit_request(&m, 1 + i % 2, &key)->order_id, i);
        struct audit_stored *s = audit_find_stored(&m, 1 + i % 2, &key);
        assert_true(i % 4 < 2 ? s && s->order_id == i : !s);
        assert_int_equal(audit_user_has_order(&m, 1 + i % 2, i), i % 4 < 2);
        assert_false(audit_user_has_order(&m, 2 - i % 2, i));
    }
    assert_int_equal(m.n_requests, N);
    audit_model_clear_stores(&m);
    struct uuid key = key_of(0);
    assert_null(audit_find_stored(&m, 1, &key));
    assert_non_null(audit_stored(&m, 1, &key));
    assert_false(m.full);
    audit_model_deinit(&m);
}

static void knows_all_reservations_of_a_key(void **state)
{
    struct audit_model m = {0};
    struct uuid key = key_of(1), a = key_of(10), b = key_of(11), c = key_of(12);
    (void)state;
    struct audit_stored *s = audit_stored(&m, 7, &key);
    assert_false(audit_has_reservation(&m, s, &(struct uuid){{0}}));
    s->record = true;
    s->record_reservation = a;
    audit_add_extra(&m, s, &b);
    assert_true(audit_has_reservation(&m, s, &a));
    assert_true(audit_has_reservation(&m, s, &b));
    assert_false(audit_has_reservation(&m, s, &c));
    audit_model_deinit(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keeps_them_apart),
        cmocka_unit_test(knows_all_reservations_of_a_key),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
