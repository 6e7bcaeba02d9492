/* Whether a queue keeps its word while consumers die, acks are lost and extensions fail
 * (architecture 6): each message delivered at least once, each order effect exactly once, own
 * attempts bounded, dead letters complete, ages right within a second, and in the end nothing left.
 * Duplicates on the wire are allowed everywhere: none of this asserts their absence.
 *
 *   SECKILL_FULL=1     10⁵ messages instead of 10⁴
 *   SECKILL_SEED=n     another sequence of faults */
#include "base/clock.h"
#include "conformance_consumer.h"
#include "queue_client.h"
#include <stdlib.h>

#define S (1000 * MS)

enum { ITEMS = 3, CONSUMERS = 4, PUBLISHES = 64 };

static bool woken;

void conformance_wake(void)
{
    woken = true;
    backend_wake();
}

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

/* --- the publisher: until accepted, with the same message_id --- */

struct publishing {
    struct queue_publish p;
    struct event e;
    int number;
    bool busy, over;
    int rc;
    int64_t again_us;
};
struct publisher {
    struct queue *q;
    struct model *model;
    struct publishing all[PUBLISHES];
    int next, next_raw, accepted, repeats;
};

static void on_published(struct op *op, int rc)
{
    struct publishing *x = container_of(op, struct publishing, p.op);
    assert_false(x->over);
    x->over = true;
    x->rc = rc;
    conformance_wake();
}

static void publish(struct publisher *p, struct publishing *x)
{
    struct model_event *e = &p->model->events[x->number];
    if (!e->published_us)
        e->published_us = backend_now_us();
    x->e = client_event(model_item(p->model, x->number), x->number);
    x->p = (struct queue_publish){.op = {on_published, backend_now_us() + 3 * S}, .event = &x->e};
    x->busy = true;
    x->over = false;
    x->again_us = 0;
    p->q->ops->publish(p->q, &x->p);
    assert_false(x->over);
}

static void publisher_turn(struct publisher *p)
{
    for (int i = 0; i < PUBLISHES; i++) {
        struct publishing *x = &p->all[i];
        if (x->busy && x->over) {
            x->busy = false;
            if (x->rc == 0) {
                p->accepted += !p->model->events[x->number].accepted;
                p->model->events[x->number].accepted = true;
            } else {
                p->repeats++;
                x->again_us = backend_now_us() + 50 * MS;
            }
        }
        if (x->busy || backend_now_us() < x->again_us)
            continue;
        if (!x->again_us) {
            if (p->next > p->model->n)
                continue;
            x->number = p->next++;
            if (x->number % 200 == 0 && p->next_raw < p->model->n_raw) {
                char body[32];
                snprintf(body, sizeof body, "no event %d", p->next_raw++);
                backend_append(p->model->items[0], str_of(body), NULL);
            }
        }
        publish(p, x);
    }
}

/* What recovery does with what was confirmed and never ends (architecture 7): the same ids again.
 */
static int publish_lost(struct publisher *p)
{
    struct model *m = p->model;
    int n = 0;
    for (int i = 1, k = 0; i <= m->n; i++) {
        const struct model_event *e = &m->events[i];
        if (!e->accepted || e->effects > 0 || e->quarantined)
            continue;
        while (k < PUBLISHES && p->all[k].busy)
            k++;
        if (k == PUBLISHES)
            break;
        p->all[k].number = i;
        publish(p, &p->all[k]);
        n++;
    }
    for (int i = 0; i < p->next_raw; i++) {
        char body[32];
        snprintf(body, sizeof body, "no event %d", i);
        if (m->raw[i])
            continue;
        backend_append(m->items[0], str_of(body), NULL);
        n++;
    }
    return n;
}

/* --- the run --- */

struct run {
    struct model model;
    struct publisher publisher;
    struct consumer consumers[CONSUMERS];
    struct faulty_odds odds;
    struct faulty_counts counts;
    struct item items[ITEMS];
    struct {
        struct queue_lag l;
        bool busy, over;
        int rc;
        int64_t next_us;
    } lag;
    int recovered; /* published again because they were lost */
    int64_t recovered_us;
    int64_t heals_us; /* by then there were enough faults */
    int lags, lags_unknown;
    int n_empty; /* answers that said so, in a row */
};

static void on_lag(struct op *op, int rc)
{
    struct run *r = container_of(op, struct run, lag.l.op);
    r->lag.over = true;
    r->lag.rc = rc;
    conformance_wake();
}

/* The backlog, asked for all the time: what nobody got yet is in it, with its age. */
static void watch(struct run *r)
{
    int64_t now = backend_now_us();
    const struct queue_lag *l = &r->lag.l;
    if (r->lag.busy && r->lag.over) {
        r->lag.busy = false;
        r->lag.next_us = now + 20 * MS;
        r->lags_unknown += r->lag.rc < 0;
        bool empty = r->lag.rc == 0 && l->waiting + l->in_hand == 0;
        if (r->lag.rc == 0)
            assert_true(empty == (l->oldest_age_ms == 0));
        r->n_empty = empty ? r->n_empty + 1 : 0;
        int64_t since = backend_traits.sees_others && r->lag.rc == 0
                            ? model_oldest_undelivered_us(&r->model, l->item, l->of_all_items)
                            : INT64_MAX;
        if (since != INT64_MAX && l->oldest_age_ms * 1000 < now - since - 1 * S)
            fail_msg("age %lld ms; one waits for %lld ms", (long long)l->oldest_age_ms,
                     (long long)(now - since) / 1000);
    }
    if (r->lag.busy || now < r->lag.next_us)
        return;
    r->lag.busy = true;
    r->lag.over = false;
    r->lag.l = (struct queue_lag){.op = {on_lag, now + 3 * S}, .item = r->items[r->lags++ % ITEMS]};
    r->publisher.q->ops->lag(r->publisher.q, &r->lag.l);
}

static int64_t last_brought_us(const struct run *r);

/* Nothing came for so long that nothing is under way any more, and yet there are some without an
 * end. */
static void recover(struct run *r)
{
    int64_t last = last_brought_us(r), now = backend_now_us();
    last = last > r->recovered_us ? last : r->recovered_us;
    if (!backend_traits.loses_with_the_dead || r->model.unended == 0 ||
        r->publisher.accepted < r->model.n ||
        now - last < 2 * (backend_lease_us + backend_traits.redelivery_slack_us))
        return;
    r->recovered_us = now;
    r->recovered += publish_lost(&r->publisher);
}

static void turn(struct run *r)
{
    woken = false;
    publisher_turn(&r->publisher);
    recover(r);
    for (int i = 0; i < CONSUMERS; i++)
        consumer_turn(&r->consumers[i]);
    watch(r);
    backend_run(&woken, 10 * MS);
}

static bool all_idle(const struct run *r)
{
    for (int i = 0; i < CONSUMERS; i++) {
        if (!consumer_idle(&r->consumers[i]))
            return false;
    }
    return true;
}

static int64_t last_brought_us(const struct run *r)
{
    int64_t last = 0;
    for (int i = 0; i < CONSUMERS; i++)
        last = r->consumers[i].last_brought_us > last ? r->consumers[i].last_brought_us : last;
    return last;
}

static uint64_t number_from(const char *variable, uint64_t otherwise)
{
    const char *text = getenv(variable);
    return text && *text ? strtoull(text, NULL, 10) : otherwise;
}

static void run_init(struct run *r, int n, uint64_t seed)
{
    static const char *const names[CONSUMERS] = {"a", "b", "c", "d"};
    *r = (struct run){.odds = {.lost_acks = 10, .failed_extensions = 5}};
    for (int i = 0; i < ITEMS; i++)
        r->items[i] = backend_item();
    model_init(&r->model, r->items, ITEMS, n, seed);
    r->publisher =
        (struct publisher){.q = backend_consumer("publisher", 1), .model = &r->model, .next = 1};
    for (int i = 0; i < CONSUMERS; i++) {
        struct consumer *c = &r->consumers[i];
        *c = (struct consumer){.name = names[i],
                               .model = &r->model,
                               .odds = &r->odds,
                               .counts = &r->counts,
                               .kills = 10};
        rng_init_seed(&c->rng, seed + 1 + (uint64_t)i);
        consumer_start(c);
    }
}

static void run_deinit(struct run *r)
{
    for (int i = 0; i < CONSUMERS; i++)
        consumer_kill(&r->consumers[i]);
    backend_kill(r->publisher.q);
    model_deinit(&r->model);
}

/* Bounded by the work, and by the silence of a queue that lost something. */
static void wait_until(struct run *r, bool (*reached)(const struct run *), int64_t us,
                       const char *what)
{
    int64_t until = backend_now_us() + us;
    while (!reached(r)) {
        if (backend_now_us() > until)
            fail_msg("%s: not after %lld s; %d of %d accepted, %d never delivered, %d not ended",
                     what, (long long)(us / S), r->publisher.accepted, r->model.n,
                     r->model.undelivered, r->model.unended);
        turn(r);
    }
}

static bool all_delivered(const struct run *r)
{
    bool enough = r->counts.extensions_failed >= 5 || backend_now_us() >= r->heals_us;
    return r->publisher.accepted == r->model.n && r->model.undelivered == 0 && enough;
}

static bool all_ended(const struct run *r)
{
    return r->model.unended == 0;
}

/* What a dead consumer held and acks that were lost come back with their leases, unseen by some
 * queues' figures: so nothing may have come for that long. */
static bool all_quiet(const struct run *r)
{
    return r->n_empty >= 2 * ITEMS && all_idle(r) &&
           backend_now_us() - last_brought_us(r) >
               2 * backend_lease_us + backend_traits.redelivery_slack_us;
}

static void under_faults(void **state)
{
    (void)state;
    static struct run r;
    int n = number_from("SECKILL_FULL", 0) ? 100000 : 10000;
    uint64_t seed = number_from("SECKILL_SEED", 20261130);
    int64_t lease = backend_lease_us + backend_traits.redelivery_slack_us;
    print_message("seed %llu, %d messages\n", (unsigned long long)seed, n);
    run_init(&r, n, seed);
    int64_t began = clock_mono_us();
    r.heals_us = backend_now_us() + 8 * backend_lease_us;
    wait_until(&r, all_delivered, 60 * S + n * 5 * MS + 20 * lease, "delivered");
    int64_t delivered = clock_mono_us();
    /* Healing: nothing is lost and nobody dies any more. */
    r.odds = (struct faulty_odds){0};
    r.model.healed = true;
    for (int i = 0; i < CONSUMERS; i++)
        r.consumers[i].kills = 0;
    wait_until(&r, all_ended, 30 * S + (2 + MODEL_MAX_ATTEMPTS) * lease, "ended");
    int64_t ended = clock_mono_us();
    wait_until(&r, all_quiet, 30 * S + (int64_t)(4 + MODEL_MAX_ATTEMPTS) * lease, "quiet");
    model_assert(&r.model);
    int failed = 0, lives = 0;
    for (int i = 0; i < CONSUMERS; i++) {
        failed += r.consumers[i].failed_receives;
        lives += r.consumers[i].lives;
    }
    const struct faulty_counts *c = &r.counts;
    print_message("delivered after %.1f s, ended after %.1f s, quiet after %.1f s\n",
                  (double)(delivered - began) / 1e6, (double)(ended - began) / 1e6,
                  (double)(clock_mono_us() - began) / 1e6);
    print_message("%d lives; acks: %d, never left %d, unheard %d; extensions: %d, failed %d\n",
                  lives, c->acks, c->acks_unsent, c->acks_unheard, c->extensions,
                  c->extensions_failed);
    print_message("deliveries again %d (no events: %d), dead %d; publishes again %d, receives "
                  "failed %d; lag asked %d times, unknown %d\n",
                  r.model.duplicates, r.model.raw_again, r.model.dead, r.publisher.repeats, failed,
                  r.lags, r.lags_unknown);
    /* There were such faults. */
    assert_true(c->kills > 0 && c->acks_unsent > 0 && c->acks_unheard > 0);
    assert_true(c->extensions > 0 && r.model.duplicates > 0);
    assert_true(c->extensions_failed > 0 || !backend_virtual);
    if (backend_traits.loses_with_the_dead)
        print_message("lost with a dead consumer, and published again: %d\n", r.recovered);
    assert_true(r.recovered <= c->kills);
    assert_true(r.model.dead > 0 || !backend_traits.dead_after || backend_traits.dead_after > 4);
    run_deinit(&r);
}

/* --- ages, in peace --- */

static void assert_age(struct queue *q, struct item item, int64_t before_us, int64_t after_us)
{
    struct queue_lag lag;
    int64_t asked = backend_now_us();
    assert_int_equal(client_lag(q, item, &lag), 0);
    int64_t least = (asked - after_us) / 1000 - 1000;
    int64_t most = (backend_now_us() - before_us) / 1000 + 1000;
    if (lag.oldest_age_ms < least || lag.oldest_age_ms > most || lag.oldest_age_ms < 1)
        fail_msg("age %lld ms, not in %lld…%lld", (long long)lag.oldest_age_ms, (long long)least,
                 (long long)most);
}

static void rest_and_extend(struct queue *q, struct hand *h, int64_t us)
{
    for (int64_t until = backend_now_us() + us; backend_now_us() < until;) {
        int64_t left = until - backend_now_us(), step = backend_lease_us / 3;
        client_rest(left < step ? left : step);
        if (h->n)
            assert_int_equal(client_extend(q, h), h->n);
    }
}

/* Rule 26: of what no consumer holds, and of our own. */
static void age_within_a_second(void **state)
{
    (void)state;
    struct item item = backend_item();
    struct queue *q = backend_consumer("a", 16);
    struct hand h = {0};
    q->ops->set_items(q, &item, 1);
    int64_t before = backend_now_us();
    while (client_publish(q, item, 1, NULL) != 0)
        client_rest(50 * MS);
    int64_t after = backend_now_us();
    assert_age(q, item, before, after);
    client_rest(2500 * MS);
    assert_int_equal(client_publish(q, item, 2, NULL), 0);
    assert_age(q, item, before, after);
    while (h.n < 2)
        assert_int_equal(client_receive(q, &h, 2 - h.n, backend_lease_us), 0);
    assert_age(q, item, before, after);
    rest_and_extend(q, &h, 1500 * MS);
    assert_age(q, item, before, after);
    assert_int_equal(client_ack(q, &h), 2);
    client_release(q, &h);
    struct queue_lag lag;
    assert_int_equal(client_lag(q, item, &lag), 0);
    assert_int_equal(lag.oldest_age_ms, 0);
    assert_int_equal(lag.waiting + lag.in_hand, 0);
    /* A young one is young, whatever was there before. */
    before = backend_now_us();
    assert_int_equal(client_publish(q, item, 3, NULL), 0);
    assert_age(q, item, before, backend_now_us());
    while (h.n < 1)
        assert_int_equal(client_receive(q, &h, 2, backend_lease_us), 0);
    assert_int_equal(client_ack(q, &h), 1);
    client_release(q, &h);
    backend_kill(q);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(age_within_a_second, setup, teardown),
        cmocka_unit_test_setup_teardown(under_faults, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
