/* The contract of port/queue.h: one source, run on the fake and on a real Redis. Times are in
 * leases, so that the fake runs with the real ten seconds and Redis with a short one. */
#include "queue_contract.h"

static int setup(void **state)
{
    (void)state;
    backend_start();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    backend_stop();
    return 0;
}

static void publish_receive_ack(void **state)
{
    (void)state;
    struct item item = backend_item();
    struct queue *q = consumer("a", &item, 1);
    struct hand h = {0};
    char id[32];
    for (int i = 1; i <= 3; i++) {
        assert_int_equal(client_publish(q, item, i, id), 0);
        assert_int_equal(id[0] != '\0', TRAIT(locates));
    }
    int64_t before = backend_now_us();
    while (h.n < 3)
        assert_int_equal(client_receive(q, &h, 10, LEASE), 0);
    assert_int_equal(h.n, 3);
    bool seen[4] = {0};
    for (int i = 0; i < 3; i++) {
        const struct queue_message *m = h.m[i];
        int64_t number = client_number(m);
        assert_in_range(number, 1, 3);
        assert_true(number == i + 1 || !TRAIT(ordered));
        assert_false(seen[number]);
        seen[number] = true;
        assert_int_equal(m->deliveries, 1);
        assert_true(m->id[0] != '\0');
        assert_true(item_eq(m->item, told(item)));
        assert_false(m->dead);
        assert_true(m->enqueued_ms > 0);
        assert_true(m->lease_until_us > before && m->lease_until_us <= backend_now_us() + LEASE);
    }
    if (TRAIT(locates))
        assert_string_equal(h.m[2]->id, id);
    assert_int_equal(client_ack(q, &h), 3);
    int again = client_ack(q, &h); /* a hint: twice is harmless */
    assert_true(again == 0 || (again > 0 && !TRAIT(tells_stale)));
    client_release(q, &h);
    assert_int_equal(client_receive(q, &h, 10, 2 * LEASE), 0);
    assert_int_equal(h.n, 0);
    assert_empty(q, item);
    backend_kill(q);
}

static void never_more_than_asked(void **state)
{
    (void)state;
    struct item item = backend_item();
    struct queue *q = backend_consumer("a", 20);
    struct hand h = {0};
    q->ops->set_items(q, &item, 1);
    for (int i = 1; i <= 50; i++)
        client_append(item, i, NULL);
    for (int had = 0; had < 14; had = h.n)
        assert_int_equal(client_receive(q, &h, 7, LEASE), 0); /* asserts n <= max */
    while (h.n < 20)
        assert_int_equal(client_receive(q, &h, 100, LEASE), 0);
    assert_int_equal(h.n, 20); /* all slots are taken: nothing more comes */
    assert_int_equal(client_receive(q, &h, 5, SHORT), 0);
    assert_int_equal(h.n, 20);
    /* A waiting receive goes on as soon as a slot is free. */
    struct pending_receive p;
    client_receive_start(&p, q, 5, LEASE);
    client_rest(SHORT / 4);
    assert_int_equal(client_ack(q, &h), 20);
    client_release(q, &h);
    assert_int_equal(client_receive_end(&p, &h), 0);
    assert_true(h.n > 0);
    client_release(q, &h);
    backend_kill(q);
}

static void redelivered_after_the_lease(void **state)
{
    (void)state;
    struct item item = backend_item();
    struct queue *a = consumer("a", &item, 1), *b = consumer("b", &item, 1);
    struct hand ha = {0}, hb = {0};
    client_append(item, 7, NULL);
    assert_int_equal(client_receive(a, &ha, 5, LEASE), 0);
    assert_int_equal(ha.n, 1);
    int64_t until = ha.m[0]->lease_until_us;
    assert_int_equal(client_receive(b, &hb, 5, LEASE / 2), 0);
    assert_int_equal(hb.n, 0);
    for (int deliveries = 2; deliveries <= 3; deliveries++) {
        assert_int_equal(client_receive(b, &hb, 5, REDELIVERY), 0);
        assert_int_equal(hb.n, 1);
        assert_true(backend_now_us() >= until); /* never while the owner may count on it */
        assert_int_equal(client_number(hb.m[0]), 7);
        assert_int_equal(hb.m[0]->deliveries, deliveries);
        until = hb.m[0]->lease_until_us;
        if (deliveries == 2)
            client_release(b, &hb);
    }
    assert_int_equal(client_ack(b, &hb), 1);
    client_release(a, &ha);
    client_release(b, &hb);
    assert_empty(a, item);
    backend_kill(a);
    backend_kill(b);
}

/* Scenario 20 of failures.md: a paused consumer wakes after its lease, extends, acks. */
static void extended_by_the_owner_only(void **state)
{
    (void)state;
    struct item item = backend_item();
    struct queue *a = consumer("a", &item, 1), *b = consumer("b", &item, 1);
    struct hand ha = {0}, hb = {0};
    client_append(item, 7, NULL);
    assert_int_equal(client_receive(a, &ha, 5, LEASE), 0);
    assert_int_equal(ha.n, 1);
    int64_t first = ha.m[0]->lease_until_us;
    for (int i = 0; i < 3; i++) { /* extended three times: longer in hand than one lease */
        client_rest(LEASE / 2);
        assert_int_equal(client_extend(a, &ha), 1);
        assert_true(ha.m[0]->lease_until_us > first);
        assert_int_equal(client_receive(b, &hb, 5, SHORT), 0);
        assert_int_equal(hb.n, 0);
    }
    int64_t until = ha.m[0]->lease_until_us;
    assert_int_equal(client_receive(b, &hb, 5, REDELIVERY), 0);
    assert_int_equal(hb.n, 1);
    assert_true(backend_now_us() >= until);
    assert_int_equal(hb.m[0]->deliveries, 2); /* extending is no delivery */

    assert_int_equal(client_extend(a, &ha), 0);
    assert_int_equal(client_retry_later(a, &ha, 0), 0);
    assert_int_equal(ha.m[0]->lease_until_us, until);
    struct hand again = {0};
    assert_int_equal(client_receive(a, &again, 5, LEASE / 4), 0);
    assert_int_equal(again.n, 0); /* the new owner keeps it */
    assert_int_equal(client_extend(b, &hb), 1);
    assert_true(client_ack(a, &ha) >=
                0); /* an ack follows a commit, so the late one may take effect … */
    assert_true(client_ack(b, &hb) >= 0);
    client_release(a, &ha);
    client_release(b, &hb);
    assert_empty(a, item); /* … and in the end nothing is left */
    backend_kill(a);
    backend_kill(b);
}

static void retried_later_within_the_lease(void **state)
{
    (void)state;
    struct item item = backend_item();
    struct queue *q = consumer("a", &item, 1);
    struct hand h = {0};
    client_append(item, 7, NULL);
    assert_int_equal(client_receive(q, &h, 5, LEASE), 0);
    assert_int_equal(h.n, 1);
    int64_t given_back = backend_now_us();
    assert_int_equal(client_retry_later(q, &h, LEASE / 4), 1);
    client_release(q, &h);
    assert_int_equal(client_receive(q, &h, 5, REDELIVERY), 0);
    assert_int_equal(h.n, 1);
    int64_t took = backend_now_us() - given_back;
    assert_true(took >= LEASE / 4 - 2 * MS && took < LEASE + SLACK);
    assert_int_equal(h.m[0]->deliveries, 2);
    /* Never later than the lease, whatever is asked. */
    given_back = backend_now_us();
    assert_int_equal(client_retry_later(q, &h, 100 * LEASE), 1);
    client_release(q, &h);
    assert_int_equal(client_receive(q, &h, 5, 2 * LEASE + REDELIVERY), 0);
    assert_int_equal(h.n, 1);
    assert_true(backend_now_us() - given_back < REDELIVERY);
    assert_int_equal(client_ack(q, &h), 1);
    client_release(q, &h);
    backend_kill(q);
}

static void consumers_share(void **state)
{
    (void)state;
    enum { N = 300, CONSUMERS = 3 };
    struct item item = backend_item();
    struct queue *q[CONSUMERS];
    bool seen[N + 1] = {0};
    int got[CONSUMERS] = {0}, total = 0;
    for (int i = 0; i < CONSUMERS; i++)
        q[i] = consumer(i == 0 ? "a" : i == 1 ? "b" : "c", &item, 1);
    for (int i = 1; i <= N; i++)
        client_append(item, i, NULL);
    for (int turn = 0; total < N && turn < 10 * N; turn++) {
        struct hand h = {0};
        int k = turn % CONSUMERS;
        assert_int_equal(client_receive(q[k], &h, 16, LEASE), 0);
        for (int i = 0; i < h.n; i++) {
            int64_t number = client_number(h.m[i]);
            assert_in_range(number, 1, N);
            assert_false(seen[number]); /* within the lease a message has one owner */
            seen[number] = true;
            got[k]++;
            total++;
        }
        if (h.n)
            assert_int_equal(client_ack(q[k], &h), h.n);
        client_release(q[k], &h);
    }
    assert_int_equal(total, N);
    for (int i = 0; i < CONSUMERS; i++)
        assert_true(got[i] > 0);
    assert_empty(q[0], item);
    for (int i = 0; i < CONSUMERS; i++)
        backend_kill(q[i]);
}

static void lost_ack_means_redelivery(void **state)
{
    (void)state;
    struct item item = backend_item();
    struct queue *q = consumer("a", &item, 1);
    struct hand h = {0};
    client_append(item, 1, NULL);
    client_append(item, 2, NULL);
    while (h.n < 2)
        assert_int_equal(client_receive(q, &h, 5, LEASE), 0);
    struct hand only_first = {.m = {h.m[0]}, .n = 1};
    int64_t other = client_number(h.m[1]);
    assert_int_equal(client_ack(q, &only_first), 1); /* the other's is lost on its way */
    client_release(q, &h);
    assert_int_equal(client_receive(q, &h, 5, REDELIVERY), 0);
    assert_int_equal(h.n, 1);
    assert_int_equal(client_number(h.m[0]), other);
    assert_int_equal(h.m[0]->deliveries, 2);
    assert_int_equal(client_ack(q, &h), 1);
    client_release(q, &h);
    assert_empty(q, item);
    backend_kill(q);
}

/* Rule 28. */
static void positions(void **state)
{
    (void)state;
    struct item item = backend_item();
    struct queue *q = consumer("a", &item, 1);
    struct hand h = {0};
    char id[3][32];
    for (int i = 0; i < 3; i++)
        client_append(item, i + 1, id[i]);
    if (!TRAIT(locates)) { /* unknown, which is no position (rule 31) */
        assert_string_equal(id[0], "");
        assert_int_equal(client_locate(q, item, "1-1"), ERR_NOTFOUND);
        backend_kill(q);
        return;
    }
    assert_int_equal(client_locate(q, item, id[0]), QUEUE_WAITING);
    assert_int_equal(client_receive(q, &h, 1, LEASE), 0);
    assert_int_equal(h.n, 1);
    assert_int_equal(client_locate(q, item, id[0]), QUEUE_IN_HAND);
    assert_int_equal(client_locate(q, item, id[1]), QUEUE_WAITING);
    assert_int_equal(client_locate(q, item, id[2]), QUEUE_WAITING);
    client_rest(LEASE * 2); /* an ended lease is in hand still: it comes again */
    assert_int_equal(client_locate(q, item, id[0]), QUEUE_IN_HAND);
    assert_int_equal(client_ack(q, &h), 1);
    assert_int_equal(client_locate(q, item, id[0]), QUEUE_PASSED);
    assert_int_equal(client_locate(q, item, "1-1"), QUEUE_PASSED); /* never heard of */
    assert_int_equal(client_locate(q, item, "99999999999999-0"),
                     QUEUE_PASSED); /* of a life before: not there */
    client_release(q, &h);
    backend_kill(q);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(publish_receive_ack),
        T(never_more_than_asked),
        T(redelivered_after_the_lease),
        T(extended_by_the_owner_only),
        T(retried_later_within_the_lease),
        T(consumers_share),
        T(lost_ack_means_redelivery),
        T(positions),
        T(lag_and_age),
        T(canceled),
        T(freed_with_messages_in_hand),
        T(items_change_while_receiving),
        T(a_busy_item_does_not_starve_another),
        T(idle_latency),
        T(never_dead_by_giving_back),
        T(the_dead_are_published_again),
        T(chaos),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
