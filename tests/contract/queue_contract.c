/* The contract of port/queue.h: one source, run on the fake and on a real Redis. Times are in
 * leases, so that the fake runs with the real ten seconds and Redis with a short one. */
#include "queue_client.h"

#include "base/rng.h"
#include <stdlib.h>

#define LEASE backend_lease_us
#define SHORT (LEASE / 8)

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

static struct queue *consumer(const char *name, const struct item *items, int n)
{
    struct queue *q = backend_consumer(name, 256);
    q->ops->set_items(q, items, n);
    return q;
}

static void assert_empty(struct queue *q, struct item item)
{
    struct queue_lag lag;
    assert_int_equal(client_lag(q, item, &lag), 0);
    assert_int_equal(lag.waiting, 0);
    assert_int_equal(lag.in_hand, 0);
    assert_int_equal(lag.oldest_age_ms, 0);
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
        assert_true(id[0] != '\0');
    }
    int64_t before = backend_now_us();
    while (h.n < 3)
        assert_int_equal(client_receive(q, &h, 10, LEASE), 0);
    assert_int_equal(h.n, 3);
    for (int i = 0; i < 3; i++) {
        const struct queue_message *m = h.m[i];
        assert_int_equal(client_number(m), i + 1);
        assert_int_equal(m->deliveries, 1);
        assert_true(item_eq(m->item, item));
        assert_true(m->enqueued_ms > 0);
        assert_true(m->lease_until_us > before && m->lease_until_us <= backend_now_us() + LEASE);
    }
    assert_string_equal(h.m[2]->id, id);
    assert_int_equal(client_ack(q, &h), 3);
    assert_int_equal(client_ack(q, &h), 0); /* a hint: twice is harmless */
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
        assert_int_equal(client_receive(b, &hb, 5, 3 * LEASE), 0);
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
    assert_int_equal(client_receive(b, &hb, 5, 3 * LEASE), 0);
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
    assert_int_equal(client_receive(q, &h, 5, 3 * LEASE), 0);
    assert_int_equal(h.n, 1);
    int64_t took = backend_now_us() - given_back;
    assert_true(took >= LEASE / 4 - 2 * MS && took < LEASE);
    assert_int_equal(h.m[0]->deliveries, 2);
    /* Never later than the lease, whatever is asked. */
    given_back = backend_now_us();
    assert_int_equal(client_retry_later(q, &h, 100 * LEASE), 1);
    client_release(q, &h);
    assert_int_equal(client_receive(q, &h, 5, 5 * LEASE), 0);
    assert_int_equal(h.n, 1);
    assert_true(backend_now_us() - given_back < 3 * LEASE);
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
    assert_int_equal(client_ack(q, &only_first), 1); /* the other's is lost on its way */
    client_release(q, &h);
    assert_int_equal(client_receive(q, &h, 5, 3 * LEASE), 0);
    assert_int_equal(h.n, 1);
    assert_int_equal(client_number(h.m[0]), 2);
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

/* Rule 26. */
static void lag_and_age(void **state)
{
    (void)state;
    struct item item = backend_item();
    struct queue *q = consumer("a", &item, 1);
    struct queue_lag lag;
    struct hand h = {0};
    assert_empty(q, item);
    client_append(item, 1, NULL);
    client_append(item, 2, NULL);
    assert_int_equal(client_lag(q, item, &lag), 0);
    assert_int_equal(lag.waiting, 2);
    assert_true(lag.oldest_age_ms >= 1); /* something is there: never 0 */
    client_rest(LEASE / 4);
    assert_int_equal(client_receive(q, &h, 1, LEASE), 0);
    assert_int_equal(h.n, 1);
    assert_int_equal(client_lag(q, item, &lag), 0);
    assert_int_equal(lag.waiting, 1);
    assert_int_equal(lag.in_hand, 1);
    assert_true(lag.oldest_age_ms >= LEASE / 4 / MS - 1);
    /* Delivered again, the first no longer makes the age; the second, younger, does once it is the
     * only one. */
    while (h.n < 2)
        assert_int_equal(client_receive(q, &h, 5, LEASE), 0);
    client_release(q, &h);
    while (h.n < 2)
        assert_int_equal(client_receive(q, &h, 5, 3 * LEASE), 0);
    assert_int_equal(h.m[0]->deliveries, 2);
    client_append(item, 3, NULL);
    assert_int_equal(client_lag(q, item, &lag), 0);
    assert_int_equal(lag.in_hand, 2);
    assert_int_equal(lag.waiting, 1);
    assert_true(lag.oldest_age_ms < LEASE / MS);
    assert_int_equal(client_receive(q, &h, 5, LEASE), 0);
    assert_int_equal(client_ack(q, &h), h.n);
    client_release(q, &h);
    assert_empty(q, item);
    /* Only redeliveries in hand: not empty, so not 0. */
    client_append(item, 4, NULL);
    assert_int_equal(client_receive(q, &h, 5, LEASE), 0);
    client_release(q, &h);
    assert_int_equal(client_receive(q, &h, 5, 3 * LEASE), 0);
    assert_int_equal(h.n, 1);
    assert_int_equal(client_lag(q, item, &lag), 0);
    assert_true(lag.oldest_age_ms >= 1);
    assert_int_equal(client_ack(q, &h), 1);
    client_release(q, &h);
    backend_kill(q);
}

static void canceled(void **state)
{
    (void)state;
    struct item item = backend_item();
    struct queue *q = consumer("a", &item, 1);
    struct pending_receive p;
    struct hand h = {0};
    client_receive_start(&p, q, 5, 100 * LEASE); /* in the same turn */
    q->ops->cancel(q, &p.r.op);
    assert_int_equal(client_receive_end(&p, &h), ERR_CANCELED);
    client_receive_start(&p, q, 5, 100 * LEASE); /* while it waits */
    client_rest(SHORT);
    assert_false(p.w.done);
    q->ops->cancel(q, &p.r.op);
    assert_false(p.w.done);
    assert_int_equal(client_receive_end(&p, &h), ERR_CANCELED);
    /* While messages are on their way: what was received is handed over, the rest is still there.
     */
    enum { N = 200 };
    for (int i = 1; i <= N; i++)
        client_append(item, i, NULL);
    int64_t began = backend_now_us();
    for (int turn = 0; h.n < N && turn < 100 * N; turn++) {
        client_receive_start(&p, q, 4, LEASE);
        client_rest(turn % 7 * 150);
        q->ops->cancel(q, &p.r.op);
        int had = h.n, rc = client_receive_end(&p, &h);
        assert_true(h.n > had ? rc == 0 : rc == 0 || rc == ERR_CANCELED);
    }
    assert_int_equal(h.n, N);
    for (int i = 0; i < N && (backend_virtual || backend_now_us() - began < LEASE); i++)
        assert_int_equal(h.m[i]->deliveries, 1); /* nothing had to come back after its lease */
    assert_int_equal(client_ack(q, &h), N);
    client_release(q, &h);
    backend_kill(q);
}

static void freed_with_messages_in_hand(void **state)
{
    (void)state;
    struct item item = backend_item();
    struct queue *a = consumer("a", &item, 1), *b = consumer("b", &item, 1);
    struct hand ha = {0}, hb = {0};
    struct pending_receive p;
    for (int i = 1; i <= 5; i++)
        client_append(item, i, NULL);
    while (ha.n < 5)
        assert_int_equal(client_receive(a, &ha, 5 - ha.n, LEASE), 0);
    client_receive_start(&p, a, 5, 10 * LEASE);
    client_rest(SHORT / 8);
    backend_kill(a); /* completes what is under way */
    assert_true(p.w.done);
    while (hb.n < 5)
        assert_int_equal(client_receive(b, &hb, 5, 3 * LEASE), 0);
    for (int i = 0; i < 5; i++)
        assert_int_equal(hb.m[i]->deliveries, 2);
    assert_int_equal(client_ack(b, &hb), 5);
    client_release(b, &hb);
    assert_empty(b, item);
    backend_kill(b);
}

static void items_change_while_receiving(void **state)
{
    (void)state;
    struct item a = backend_item(), b = backend_item(), none = {1, 999999}, both[] = {a, b, none};
    struct queue *q = consumer("a", &a, 1);
    struct pending_receive p;
    struct hand h = {0};
    client_receive_start(&p, q, 5, 100 * LEASE);
    client_rest(SHORT);
    client_append(b, 1, NULL);
    q->ops->set_items(q, &b, 1);
    assert_int_equal(client_receive_end(&p, &h), 0);
    assert_int_equal(h.n, 1);
    assert_true(item_eq(h.m[0]->item, b));
    client_append(a, 2, NULL);
    assert_int_equal(client_receive(q, &h, 5, SHORT), 0);
    assert_int_equal(h.n, 1); /* nobody asked for a's */
    client_receive_start(&p, q, 5, 100 * LEASE);
    client_rest(SHORT);
    q->ops->set_items(q, both, 3); /* one of them does not exist */
    assert_int_equal(client_receive_end(&p, &h), 0);
    assert_int_equal(h.n, 2);
    assert_true(item_eq(h.m[1]->item, a));
    q->ops->set_items(q, both, 0);
    assert_int_equal(client_ack(q, &h),
                     2); /* what is in hand can be acked whatever the list says */
    client_receive_start(&p, q, 5, 100 * LEASE);
    client_rest(SHORT);
    q->ops->cancel(q, &p.r.op);
    assert_int_equal(client_receive_end(&p, &h), ERR_CANCELED);
    client_release(q, &h);
    backend_kill(q);
}

static void a_busy_item_does_not_starve_another(void **state)
{
    (void)state;
    struct item items[] = {backend_item(), backend_item()};
    struct queue *q = consumer("a", items, 2);
    struct hand h = {0};
    for (int i = 1; i <= 1000; i++)
        client_append(items[0], i, NULL);
    assert_int_equal(client_receive(q, &h, 8, LEASE), 0);
    client_append(items[1], 1, NULL);
    int receives = 0;
    for (bool found = false; !found; receives++) {
        client_ack(q, &h);
        client_release(q, &h);
        assert_int_equal(client_receive(q, &h, 8, LEASE), 0);
        for (int i = 0; i < h.n; i++)
            found |= item_eq(h.m[i]->item, items[1]);
    }
    assert_true(receives <= 6);
    client_release(q, &h);
    backend_kill(q);
}

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* An idle receive sees a new event at once: added latency at most 20 ms (section 6). */
static void idle_latency(void **state)
{
    (void)state;
    enum { N = 21 };
    struct item items[] = {backend_item(), backend_item(), backend_item()};
    struct queue *q = consumer("a", items, 3);
    int64_t took[N];
    for (int i = 0; i < N; i++) {
        struct pending_receive p;
        struct hand h = {0};
        client_receive_start(&p, q, 5, 100 * LEASE);
        client_rest(30 * MS + i * 3 * MS);
        int64_t sent = backend_now_us();
        client_append(items[i % 3], i + 1, NULL);
        assert_int_equal(client_receive_end(&p, &h), 0);
        took[i] = backend_now_us() - sent;
        assert_int_equal(h.n, 1);
        assert_int_equal(client_ack(q, &h), 1);
        client_release(q, &h);
    }
    qsort(took, N, sizeof took[0], by_value);
    assert_true(took[N / 2] <= 20 * MS);
    backend_kill(q);
}

/* 2,000 messages; a tenth of the batches die with their consumer, a tenth of the acks are lost, a
 * twentieth of the messages is held longer than the lease because the extension failed. */
static void chaos(void **state)
{
    (void)state;
    enum { N = 2000, CONSUMERS = 3 };
    struct item items[] = {backend_item(), backend_item()};
    struct queue *q[CONSUMERS];
    static int delivered[N + 1];
    struct rng rng;
    char name[32];
    int lives = 0, published = 0;
    rng_init_seed(&rng, 42);
    memset(delivered, 0, sizeof delivered);
    for (int i = 0; i < CONSUMERS; i++) {
        snprintf(name, sizeof name, "life-%d", ++lives);
        q[i] = consumer(name, items, 2);
    }
    bool quiet = false; /* healing: no more faults once everything was published */
    for (int turn = 0, idle = 0; idle < 3 * CONSUMERS; turn++) {
        for (int i = 0; i < 20 && published < N; i++) {
            published++;
            client_append(items[published % 2], published, NULL);
        }
        int k = turn % CONSUMERS;
        struct hand h = {0};
        assert_int_equal(client_receive(q[k], &h, 16, published < N ? LEASE / 20 : LEASE), 0);
        quiet = published == N && turn > 2 * N / 16;
        idle = h.n || published < N ? 0 : idle + 1;
        for (int i = 0; i < h.n; i++)
            delivered[client_number(h.m[i])]++;
        if (!quiet && rng_below(&rng, 10) == 0) {
            backend_kill(q[k]);
            snprintf(name, sizeof name, "life-%d", ++lives);
            q[k] = consumer(name, items, 2);
            continue;
        }
        if (!quiet && rng_below(&rng, 20) == 0)
            client_rest(LEASE + LEASE / 4); /* the extension failed: it is somebody else's by now */
        if (h.n && (quiet || rng_below(&rng, 10)))
            assert_true(client_ack(q[k], &h) >= 0);
        client_release(q[k], &h);
    }
    int again = 0;
    for (int i = 1; i <= N; i++) {
        assert_true(delivered[i] >= 1);
        again += delivered[i] - 1;
    }
    assert_true(again > 0);
    for (int i = 0; i < 2; i++)
        assert_empty(q[0], items[i]);
    for (int i = 0; i < CONSUMERS; i++)
        backend_kill(q[i]);
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
        T(chaos),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
