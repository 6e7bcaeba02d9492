/* The queue's contract, second part: backlog, giving up, several items, latency, chaos. */
#include "queue_contract.h"

#include "base/rng.h"
#include <stdlib.h>

/* Rule 26. */
void lag_and_age(void **state)
{
    (void)state;
    struct item item = backend_item();
    struct queue *q = consumer("a", &item, 1);
    struct queue_lag lag;
    struct hand h = {0};
    assert_empty(q, item);
    client_append(item, 1, NULL);
    client_append(item, 2, NULL);
    assert_backlog(q, item, 2, 0, &lag);
    assert_true(lag.oldest_age_ms >= 1); /* something is there: never 0 */
    client_rest(LEASE / 4);
    assert_int_equal(client_receive(q, &h, 1, LEASE), 0);
    assert_int_equal(h.n, 1);
    assert_backlog(q, item, 1, 1, &lag);
    assert_true(lag.oldest_age_ms >= LEASE / 4 / MS - 1);
    /* Delivered again, the first no longer makes the age; the second, younger, does once it is the
     * only one. */
    while (h.n < 2)
        assert_int_equal(client_receive(q, &h, 5, LEASE), 0);
    client_release(q, &h);
    while (h.n < 2)
        assert_int_equal(client_receive(q, &h, 5, REDELIVERY), 0);
    assert_int_equal(h.m[0]->deliveries, 2);
    client_append(item, 3, NULL);
    assert_backlog(q, item, 1, 2, &lag);
    assert_true(lag.oldest_age_ms < LEASE / MS);
    assert_int_equal(client_receive(q, &h, 5, LEASE), 0);
    assert_int_equal(client_ack(q, &h), h.n);
    client_release(q, &h);
    assert_empty(q, item);
    /* Only redeliveries in hand: not empty, so not 0. */
    client_append(item, 4, NULL);
    assert_int_equal(client_receive(q, &h, 5, LEASE), 0);
    client_release(q, &h);
    assert_int_equal(client_receive(q, &h, 5, REDELIVERY), 0);
    assert_int_equal(h.n, 1);
    assert_int_equal(client_lag(q, item, &lag), 0);
    assert_true(lag.oldest_age_ms >= 1);
    assert_int_equal(client_ack(q, &h), 1);
    client_release(q, &h);
    backend_kill(q);
}

/* Rule 22: however often it is given back, the broker's count never leads to its dead letters. */
void never_dead_by_giving_back(void **state)
{
    (void)state;
    if (TRAIT(dead_after) < QUEUE_REPUBLISH_FROM)
        skip();
    struct item item = backend_item();
    struct queue *q = consumer("a", &item, 1);
    struct hand h = {0};
    client_append(item, 7, NULL);
    for (int i = 0; i < QUEUE_REPUBLISH_FROM + 3; i++) {
        assert_int_equal(client_receive(q, &h, 5, REDELIVERY), 0);
        assert_int_equal(h.n, 1);
        assert_int_equal(client_number(h.m[0]), 7); /* the same message_id */
        assert_int_equal(h.m[0]->deliveries, i % QUEUE_REPUBLISH_FROM + 1);
        assert_false(h.m[0]->dead);
        assert_int_equal(client_retry_later(q, &h, 0), 1);
        client_release(q, &h);
    }
    assert_int_equal(client_receive(q, &h, 5, REDELIVERY), 0);
    assert_int_equal(h.n, 1);
    assert_int_equal(client_ack(q, &h), 1);
    client_release(q, &h);
    assert_empty(q, item);
    backend_kill(q);
}

/* Rule 22: leases that ended too often. */
void the_dead_are_published_again(void **state)
{
    (void)state;
    int dead_after = TRAIT(dead_after);
    if (dead_after == 0 || (!backend_virtual && (dead_after + 1) * (LEASE + SLACK) > 60000 * MS))
        skip();
    struct item item = backend_item();
    struct queue *q = consumer("a", &item, 1);
    struct hand h = {0};
    client_append(item, 7, NULL);
    backend_append(item, STR("no event"), NULL);
    for (int i = 1, n = 0; i <= dead_after; i++, n = 0) {
        while (n < 2) {
            assert_int_equal(client_receive(q, &h, 5, REDELIVERY), 0);
            for (int k = 0; k < h.n; k++)
                assert_false(h.m[k]->dead);
            n += h.n;
            client_release(q, &h);
        }
    }
    while (h.n < 2)
        assert_int_equal(client_receive(q, &h, 5, REDELIVERY), 0);
    struct hand event = {.n = 1}, raw = {.n = 1};
    for (int i = 0; i < 2; i++) {
        assert_true(h.m[i]->dead);
        (client_number(h.m[i]) < 0 ? &raw : &event)->m[0] = h.m[i];
    }
    assert_true(str_eq(raw.m[0]->body, STR("no event"))); /* as it was: rule 24 */
    assert_int_equal(client_ack(q, &raw), 1);
    assert_int_equal(client_retry_later(q, &event, 0), 1);
    client_release(q, &h);
    assert_int_equal(client_receive(q, &h, 5, REDELIVERY), 0);
    assert_int_equal(h.n, 1);
    assert_int_equal(client_number(h.m[0]), 7);
    assert_int_equal(h.m[0]->deliveries, 1);
    assert_false(h.m[0]->dead);
    assert_int_equal(client_ack(q, &h), 1);
    client_release(q, &h);
    assert_empty(q, item);
    backend_kill(q);
}

void canceled(void **state)
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
    bool seen[N + 1] = {0}, slept = false;
    int distinct = 0;
    for (int i = 1; i <= N; i++)
        client_append(item, i, NULL);
    int64_t began = backend_now_us();
    for (int turn = 0; distinct < N && backend_now_us() - began < 20 * LEASE; turn++) {
        int64_t turn_began = backend_now_us();
        client_receive_start(&p, q, 4, LEASE);
        client_rest(turn % 7 * 150);
        q->ops->cancel(q, &p.r.op);
        int rc = client_receive_end(&p, &h);
        assert_true(rc == 0 || (rc == ERR_CANCELED && h.n == 0));
        slept |= backend_now_us() - turn_began > LEASE / 4;
        for (int i = 0; i < h.n; i++) {
            int64_t number = client_number(h.m[i]);
            assert_in_range(number, 1, N);
            /* None had to wait for its lease's end. */
            assert_true(h.m[i]->deliveries == 1 || slept);
            distinct += !seen[number];
            seen[number] = true;
        }
        if (h.n)
            client_ack(q, &h);
        client_release(q, &h);
    }
    assert_int_equal(distinct, N);
    assert_empty(q, item);
    backend_kill(q);
}

void freed_with_messages_in_hand(void **state)
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
        assert_int_equal(client_receive(b, &hb, 5, REDELIVERY), 0);
    for (int i = 0; i < 5; i++)
        assert_int_equal(hb.m[i]->deliveries, 2);
    assert_int_equal(client_ack(b, &hb), 5);
    client_release(b, &hb);
    assert_empty(b, item);
    backend_kill(b);
}

void items_change_while_receiving(void **state)
{
    (void)state;
    struct item a = backend_item(), b = backend_item(), none = {1, 999999}, both[] = {a, b, none};
    if (!TRAIT(per_item))
        skip();
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

void a_busy_item_does_not_starve_another(void **state)
{
    (void)state;
    struct item items[] = {backend_item(), backend_item()};
    if (!TRAIT(per_item))
        skip();
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

/* An idle receive sees a new event at once: on streams, added latency at most 20 ms (section 6). */
void idle_latency(void **state)
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
    assert_true(took[N / 2] <= TRAIT(latency_us));
    backend_kill(q);
}

/* 2,000 messages; a tenth of the batches die with their consumer, a tenth of the acks are lost, a
 * twentieth of the messages is held longer than the lease because the extension failed. One call at
 * a time; the conformance suite does all of it side by side, with longer leases, too. */
void chaos(void **state)
{
    (void)state;
    enum { N = 2000, CONSUMERS = 3 };
    struct item items[] = {backend_item(), backend_item()};
    struct queue *q[CONSUMERS];
    static int delivered[N + 1];
    struct rng rng;
    char name[32];
    int lives = 0, published = 0;
    if (LEASE > 1000 * MS && !backend_virtual)
        skip(); /* a hundred leases */
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
