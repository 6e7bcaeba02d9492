#include "base/list.h"
#include "unit.h"

struct item {
    int n;
    struct list link;
};

static int sum_in_order(const struct list *head)
{
    int digits = 0;
    for (const struct list *it = head->next; it != head; it = it->next) {
        assert_ptr_equal(it->next->prev, it);
        digits =
            digits * 10 +
            ((const struct item *)(const void *)((const char *)it - offsetof(struct item, link)))
                ->n;
    }
    return digits;
}

static void test_list(void **state)
{
    (void)state;
    struct list a, b;
    struct item items[] = {{.n = 1}, {.n = 2}, {.n = 3}, {.n = 4}};
    list_init(&a);
    list_init(&b);
    assert_true(list_empty(&a));
    assert_null(list_pop_front(&a));
    list_push_back(&a, &items[1].link);
    list_push_back(&a, &items[2].link);
    list_push_front(&a, &items[0].link);
    assert_int_equal(sum_in_order(&a), 123);
    list_push_back(&b, &items[3].link);
    list_splice_back(&b, &a);
    assert_true(list_empty(&a));
    assert_int_equal(sum_in_order(&b), 4123);
    list_splice_back(&b, &a);
    assert_int_equal(sum_in_order(&b), 4123);
    list_remove(&items[1].link);
    list_remove(&items[1].link); /* harmless */
    assert_int_equal(sum_in_order(&b), 413);
    list_insert_after(&items[0].link, &items[1].link);
    assert_int_equal(sum_in_order(&b), 4123);
    assert_ptr_equal(container_of(list_pop_front(&b), struct item, link), &items[3]);
    int seen = 0;
    list_for_each (it, &b)
        seen += container_of(it, struct item, link)->n;
    assert_int_equal(seen, 6);
    list_for_each_safe (it, &b)
        list_remove(it);
    assert_true(list_empty(&b));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_list)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
