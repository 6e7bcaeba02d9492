/* Receiving: slots, polls, what proxies may do to them. */
#include "consumer_test.h"

#include <stdio.h>

#define L consumer_loop
#define B (&consumer_broker)
#define POLLS_OPEN fake_polls_open(B, "T")

static void what_a_message_says(void **state)
{
    (void)state;
    struct queue *q = consumer_queue();
    struct test_receive t;
    struct queue_message *hand[HAND];
    int n = 0;
    struct fake_poll *p = receive_poll(q, &t, 5);
    assert_int_equal(p->batch, 5);
    assert_int_equal(p->lease_ms, 15000);
    assert_int_equal(p->wait_ms, 2000);
    assert_string_equal(p->topic, "T");
    assert_string_equal(p->group, "G");
    assert_string_equal(p->broker, "b0");
    fake_poll_ok(p);
    fake_poll_message(p, (struct said){.id = "m1",
                                       .handle = "h1",
                                       .body = "hello",
                                       .attempt = 3,
                                       .digest = "5D41402ABC4B2A76B9719D911017C592"});
    fake_poll_end(p);
    int64_t before = in(0);
    assert_int_equal(receive_end(&t, hand, &n), 0);
    assert_int_equal(n, 1);
    const struct queue_message *m = hand[0];
    assert_string_equal(m->id, "m1");
    assert_true(str_eq(m->body, STR("hello")));
    assert_int_equal(m->deliveries, 3);
    assert_int_equal(m->enqueued_ms, INT64_C(1780000000123));
    assert_int_equal(m->item.activity_id, 0);
    assert_false(m->dead);
    assert_true(m->lease_until_us <= in(15 * SECONDS) && m->lease_until_us > before);
    q->ops->release(q, hand[0]);
    rocketmq_queue_free(q);
}

/* A proxy refuses a poll that has less than 5 s left (40018), however short it is to be. */
static void polls_have_time_enough(void **state)
{
    (void)state;
    static const int64_t polls_ms[] = {100, 2000, 5000, 9000};
    for (int i = 0; i < 4; i++) {
        consumer_poll_us = polls_ms[i] * MS;
        struct queue *q = consumer_queue();
        struct test_receive t;
        receive_start(q, &t, 1, 10 * SECONDS);
        UNTIL(L, B->n_polls == i + 1);
        int64_t longest = polls_ms[i] > 5000 ? polls_ms[i] : 5000;
        assert_int_equal(fake_poll_at(B, i)->wait_ms, polls_ms[i]);
        assert_in_range(fake_poll_at(B, i)->deadline_ms, longest, longest + 3000);
        rocketmq_queue_free(q);
    }
}

/* The bound holds whatever comes: in hand + ready + promised to polls <= max_in_hand. */
static void a_proxy_that_sends_too_much(void **state)
{
    (void)state;
    consumer_slots = 4;
    struct queue *q = consumer_queue();
    struct test_receive t;
    struct queue_message *hand[HAND];
    int n = 0;
    uint64_t surplus = counted("seckill_mq_surplus_total");
    receive_start(q, &t, 10, 5 * SECONDS);
    UNTIL(L, B->n_polls == 1);
    assert_int_equal(fake_poll_at(B, 0)->batch, 4); /* the free slots, not what was asked for */
    fake_poll_messages(fake_poll_at(B, 0), 0, 7);
    assert_int_equal(receive_end(&t, hand, &n), 0);
    assert_int_equal(n, 4);
    assert_int_equal(counted("seckill_mq_surplus_total") - surplus, 3);
    receive_start(q, &t, 10, 200 * MS); /* no slot: no poll, and an empty queue it is not */
    assert_int_equal(receive_end(&t, hand, &n), 0);
    assert_int_equal(B->n_polls, 1);
    receive_start(q, &t, 10, 5 * SECONDS);
    release_all(q, hand, 2);
    UNTIL(L, B->n_polls == 2);
    assert_int_equal(fake_poll_at(B, 1)->batch, 2);
    fake_poll_messages(fake_poll_at(B, 1), 10, 3);
    n = 0;
    struct queue_message *more[HAND];
    assert_int_equal(receive_end(&t, more, &n), 0);
    assert_int_equal(n, 2);
    release_all(q, more, 2);
    release_all(q, hand + 2, 2);
    rocketmq_queue_free(q);
}

/* A poll outlives its receive; what it brings is the next one's, and what it may still bring is not
 * asked for twice. */
static void polls_outlive_their_receives(void **state)
{
    (void)state;
    struct queue *q = consumer_queue();
    struct test_receive t;
    struct queue_message *hand[HAND];
    int n = 0;
    receive_start(q, &t, 5, 300 * MS);
    assert_int_equal(receive_end(&t, hand, &n), 0);
    assert_int_equal(n, 0);
    assert_int_equal(B->n_polls, 1);
    receive_start(q, &t, 5, 200 * MS);
    assert_int_equal(receive_end(&t, hand, &n), 0);
    assert_int_equal(B->n_polls, 1);
    fake_poll_messages(fake_poll_at(B, 0), 0, 5); /* nobody waits */
    turns(50 * MS);
    receive_start(q, &t, 3, 5 * SECONDS);
    assert_int_equal(receive_end(&t, hand, &n), 0);
    assert_int_equal(n, 3);
    receive_start(q, &t, 3, 5 * SECONDS);
    assert_int_equal(receive_end(&t, hand, &n), 0);
    assert_int_equal(n, 5);
    assert_int_equal(B->n_polls, 1);
    /* Cancelled: its poll, which may bring something, is waited for, and no other one begun. */
    receive_start(q, &t, 2, 100 * SECONDS);
    UNTIL(L, B->n_polls == 2);
    q->ops->cancel(q, &t.r.op);
    turns(50 * MS);
    assert_int_equal(t.ends, 0);
    fake_poll_messages(fake_poll_at(B, 1), 10, 2);
    assert_int_equal(receive_end(&t, hand, &n), 0);
    assert_int_equal(n, 7);
    receive_start(q, &t, 9, 100 * SECONDS); /* nothing to wait for: at once */
    q->ops->cancel(q, &t.r.op);
    assert_int_equal(receive_end(&t, hand, &n), ERR_CANCELED);
    assert_int_equal(B->n_polls, 2);
    receive_start(q, &t, 2, 100 * SECONDS); /* the poll brings nothing */
    UNTIL(L, B->n_polls == 3);
    q->ops->cancel(q, &t.r.op);
    fake_poll_code(fake_poll_at(B, 2), 40401);
    assert_int_equal(receive_end(&t, hand, &n), ERR_CANCELED);
    assert_int_equal(B->n_polls, 3);
    assert_int_equal(n, 7);
    consumer_end(q, hand, n);
}

/* What came before the stream broke is in hand. */
static void broken_streams(void **state)
{
    (void)state;
    struct queue *q = consumer_queue();
    struct test_receive t;
    struct queue_message *hand[HAND];
    int n = 0;
    struct fake_poll *p = receive_poll(q, &t, 5);
    fake_poll_ok(p);
    fake_poll_message(p, (struct said){.id = "m1", .handle = "h1", .body = "x", .attempt = 1});
    fake_poll_message(p, (struct said){.id = "m2", .handle = "h2", .body = "x", .attempt = 1});
    turns(5 * MS);
    fake_reset(p->call, 2);
    p->call = NULL;
    assert_int_equal(receive_end(&t, hand, &n), 0);
    assert_int_equal(n, 2);
    /* One that hangs in the middle: handed over all the same. */
    p = receive_poll(q, &t, 3);
    fake_poll_ok(p);
    fake_poll_message(p, (struct said){.id = "m3", .handle = "h3", .body = "x", .attempt = 1});
    assert_int_equal(receive_end(&t, hand, &n), 0);
    assert_int_equal(n, 3);
    consumer_end(q, hand, n);
}

/* The proxy lost our settings: they are sent again before the next poll. */
static void settings_lost(void **state)
{
    (void)state;
    static const int codes[] = {50001, 40015};
    struct queue *q = consumer_queue();
    struct test_receive t;
    struct queue_message *hand[HAND];
    for (int i = 0; i < 2; i++) {
        int n = 0, polls = B->n_polls, settings = B->proxy.settings;
        receive_start(q, &t, 5, 10 * SECONDS);
        UNTIL(L, B->n_polls > polls);
        fake_forget(&B->proxy);
        fake_poll_code(fake_poll_at(B, polls), codes[i]);
        assert_true(receive_end(&t, hand, &n) < 0); /* told: nobody else polls */
        receive_start(q, &t, 5, 10 * SECONDS);
        UNTIL(L, B->n_polls > polls + 1);
        assert_true(B->proxy.settings > settings);
        fake_poll_messages(fake_poll_at(B, polls + 1), 0, 1);
        assert_int_equal(receive_end(&t, hand, &n), 0);
        assert_int_equal(n, 1);
        release_all(q, hand, n);
        turns(1100 * MS); /* settings go out at most once a second */
    }
    rocketmq_queue_free(q);
}

/* 5.3 takes the settings of a group that is not there, and says so to each receive, as 50001. */
static void receives_of_a_missing_group(void **state)
{
    (void)state;
    struct queue *q = consumer_queue();
    struct test_receive t;
    struct queue_message *hand[HAND];
    int n = 0;
    receive_start(q, &t, 5, 10 * SECONDS);
    UNTIL(L, B->n_polls == 1);
    assert_true(rocketmq_queue_ready(q));
    fake_say_code(fake_poll_at(B, 0)->call, 50001, "subscription group [G] does not exist");
    fake_poll_at(B, 0)->call = NULL;
    assert_true(receive_end(&t, hand, &n) < 0);
    assert_false(rocketmq_queue_ready(q));
    assert_non_null(strstr(rocketmq_queue_complaint(q), "mqadmin updateSubGroup"));
    receive_start(q, &t, 5, 10 * SECONDS);
    UNTIL(L, B->n_polls == 2);
    fake_poll_messages(fake_poll_at(B, 1), 0, 1);
    assert_int_equal(receive_end(&t, hand, &n), 0);
    UNTIL(L, !rocketmq_queue_complaint(q) && rocketmq_queue_ready(q));
    release_all(q, hand, n);
    rocketmq_queue_free(q);
}

/* A lease that is too short for it, say: no receive will ever do, so somebody has to be told. */
static void receives_are_refused(void **state)
{
    (void)state;
    struct queue *q = consumer_queue();
    struct test_receive t;
    struct queue_message *hand[HAND];
    int n = 0;
    receive_start(q, &t, 5, 10 * SECONDS);
    UNTIL(L, B->n_polls == 1);
    fake_poll_code(fake_poll_at(B, 0), 40011);
    assert_int_equal(receive_end(&t, hand, &n), ERR_INVALID);
    const char *text = rocketmq_queue_complaint(q);
    assert_non_null(text);
    assert_non_null(strstr(text, "ReceiveMessage"));
    assert_non_null(strstr(text, "40011 ILLEGAL_INVISIBLE_TIME"));
    assert_true(rocketmq_queue_complaint_lasts(q));
    receive_start(q, &t, 5, 10 * SECONDS);
    UNTIL(L, B->n_polls == 2);
    fake_poll_messages(fake_poll_at(B, 1), 0, 1);
    assert_int_equal(receive_end(&t, hand, &n), 0);
    UNTIL(L, !rocketmq_queue_complaint(q));
    consumer_end(q, hand, n);
}

/* Empty answers: again at once, but not as fast as a proxy that does not wait would have it. */
static void empty_answers(void **state)
{
    (void)state;
    struct queue *q = consumer_queue();
    struct test_receive t;
    struct queue_message *hand[HAND];
    int n = 0;
    receive_start(q, &t, 5, 1 * SECONDS);
    while (!t.ends) {
        turns(1 * MS);
        for (int i = 0; i < B->n_polls; i++) {
            if (B->polls[i].call)
                fake_poll_code(&B->polls[i], 40401);
        }
    }
    assert_int_equal(receive_end(&t, hand, &n), 0);
    assert_true(B->n_polls >= 5 && B->n_polls <= 20);
    rocketmq_queue_free(q);
}

/* One receive and its end. */
static int receive_once(struct queue *q, int64_t in_us)
{
    struct test_receive t;
    struct queue_message *hand[HAND];
    int n = 0;
    receive_start(q, &t, 5, in_us);
    return receive_end(&t, hand, &n);
}

/* How often the proxy was asked is held against the time that did pass: a slow machine takes more
 * of it. */
static void failures_are_told_and_paced(void **state)
{
    (void)state;
    struct queue *q = consumer_queue();
    fake_fault(&B->proxy, RMQ_RECEIVE, FAULT_GRPC, 14, 1000);
    int began = B->proxy.calls[RMQ_RECEIVE];
    int64_t since = in(0);
    for (int i = 0; i < 6; i++)
        assert_true(receive_once(q, 10 * SECONDS) < 0); /* no empty queue */
    int calls = B->proxy.calls[RMQ_RECEIVE] - began;
    assert_true(calls >= 2 && calls <= 1 + (in(0) - since) / (10 * MS));
    /* Denied, missing: once a second. */
    static const int codes[] = {40100, 40402, 40300};
    for (int i = 0; i < 3; i++) {
        turns(1300 * MS);
        fake_fault(&B->proxy, RMQ_RECEIVE, FAULT_CODE, codes[i], 1000);
        began = B->proxy.calls[RMQ_RECEIVE];
        since = in(0);
        assert_true(receive_once(q, 10 * SECONDS) < 0);
        int rc = receive_once(q, 500 * MS); /* nobody is asked, which is no empty queue */
        calls = B->proxy.calls[RMQ_RECEIVE] - began;
        assert_true(rc < 0 || calls > 1);
        assert_true(calls >= 1 && calls <= 1 + (in(0) - since) / (700 * MS));
    }
    B->proxy.faults[RMQ_RECEIVE].n = 0;
    int rc = -1;
    for (int i = 0; i < 20 && rc; i++)
        rc = receive_once(q, 500 * MS);
    assert_int_equal(rc, 0);
    rocketmq_queue_free(q);
}

/* Two brokers share the slots; one that fails does not end what the other may bring. */
static void two_brokers(void **state)
{
    (void)state;
    B->proxy.brokers[0].name = "b0";
    B->proxy.brokers[1].name = "b1";
    B->proxy.n_brokers = 2;
    struct queue *q = consumer_queue();
    struct test_receive t;
    struct queue_message *hand[HAND];
    int n = 0;
    receive_start(q, &t, 8, 5 * SECONDS);
    UNTIL(L, B->n_polls == 2);
    assert_int_equal(fake_poll_at(B, 0)->batch, 4);
    assert_int_equal(fake_poll_at(B, 1)->batch, 4);
    assert_string_not_equal(fake_poll_at(B, 0)->broker, fake_poll_at(B, 1)->broker);
    fake_poll_code(fake_poll_at(B, 0), 50400);
    turns(100 * MS);
    assert_int_equal(t.ends, 0);
    fake_poll_messages(fake_poll_at(B, 1), 0, 4);
    assert_int_equal(receive_end(&t, hand, &n), 0);
    assert_int_equal(n, 4);
    consumer_end(q, hand, n);
}

/* With one slot to give, the brokers have their turns. */
static void few_slots_go_round(void **state)
{
    (void)state;
    consumer_slots = 1;
    B->proxy.brokers[0].name = "b0";
    B->proxy.brokers[1].name = "b1";
    B->proxy.n_brokers = 2;
    struct queue *q = consumer_queue();
    struct test_receive t;
    struct queue_message *hand[HAND];
    int n = 0, of_b0 = 0;
    for (int i = 0; i < 4; i++) {
        receive_start(q, &t, 1, 5 * SECONDS);
        UNTIL(L, B->n_polls == i + 1);
        assert_int_equal(fake_polls_open(B, "T"), 1);
        of_b0 += strcmp(fake_poll_at(B, i)->broker, "b0") == 0;
        fake_poll_messages(fake_poll_at(B, i), i, 1);
        n = 0;
        assert_int_equal(receive_end(&t, hand, &n), 0);
        release_all(q, hand, n);
    }
    assert_int_equal(of_b0, 2);
    rocketmq_queue_free(q);
}

/* A full poll says that there is more: then more than one at a broker, as far as slots are asked
 * for. */
static void more_polls_while_they_come_back_full(void **state)
{
    (void)state;
    consumer_slots = 200;
    struct queue *q = consumer_queue();
    struct test_receive t;
    static struct queue_message *hand[256];
    receive_start(q, &t, 100, 5 * SECONDS);
    UNTIL(L, B->n_polls == 1);
    turns(20 * MS);
    assert_int_equal(B->n_polls, 1);
    assert_int_equal(fake_poll_at(B, 0)->batch, 32);
    fake_poll_messages(fake_poll_at(B, 0), 0, 32);
    UNTIL(L, t.ends);
    for (int i = 0; i < t.r.n; i++)
        hand[i] = container_of(list_pop_front(&t.r.messages), struct queue_message, link);
    release_all(q, hand, t.r.n);
    receive_start(q, &t, 100, 5 * SECONDS);
    UNTIL(L, B->n_polls == 5);
    turns(20 * MS);
    assert_int_equal(POLLS_OPEN, 4);
    int asked = 0;
    for (int i = 1; i < 5; i++)
        asked += fake_poll_at(B, i)->batch;
    assert_int_equal(asked, 100);
    rocketmq_queue_free(q);
    assert_int_equal(t.ends, 1);
}

/* What cannot be read is the caller's all the same, so that it ends in dead_letters (rule 24). */
static void damaged_and_too_long(void **state)
{
    (void)state;
    struct queue *q = consumer_queue();
    struct test_receive t;
    struct queue_message *hand[HAND];
    int n = 0;
    static char big[20000];
    memset(big, 'b', sizeof big - 1);
    struct fake_poll *p = receive_poll(q, &t, 5);
    fake_poll_ok(p);
    fake_poll_message(p, (struct said){.id = "m1",
                                       .handle = "h1",
                                       .body = "{}",
                                       .attempt = 9,
                                       .digest = "5D41402ABC4B2A76B9719D911017C592"});
    fake_poll_message(p, (struct said){.id = "m2", .handle = "h2", .body = big, .attempt = 9});
    fake_poll_message(
        p, (struct said){
               .id = "m3", .handle = "h3", .body = "\x1f\x8b\x08", .attempt = 9, .gzip = true});
    fake_poll_message(p, (struct said){.id = "m4", .handle = "", .body = "{}", .attempt = 1});
    fake_poll_end(p);
    assert_int_equal(receive_end(&t, hand, &n), 0);
    assert_int_equal(n, 3); /* the one without a handle could not be acked */
    assert_true(str_eq(hand[0]->body, STR("body fails its digest: {}")));
    assert_true(hand[1]->body.len >= 4096 && hand[1]->body.len < sizeof big);
    assert_true(str_eq(hand[2]->body, STR("\x1f\x8b\x08")));
    for (int i = 0; i < 3; i++) {
        struct event e;
        const char *why;
        assert_int_equal(event_decode(hand[i]->body, &e, &why), ERR_INVALID);
    }
    /* They are not what was sent, so they are never published again. */
    BATCH(q, retry_later, hand, 3, 0, 3);
    assert_int_equal(B->proxy.n_stored, 0);
    assert_int_equal(B->n_changes, 3);
    consumer_end(q, hand, n);
}

/* A lease is counted from the answer, but never from later than the poll's own end. */
static void a_process_that_stood_still(void **state)
{
    (void)state;
    struct queue *q = consumer_queue();
    struct test_receive t;
    struct queue_message *hand[HAND];
    int n = 0;
    receive_start(q, &t, 1, 10 * SECONDS);
    UNTIL(L, B->n_polls == 1);
    int64_t sent = in(0);
    turns(2500 * MS); /* the poll is of 2 s: whatever comes now is from before that */
    fake_poll_messages(fake_poll_at(B, 0), 0, 1);
    assert_int_equal(receive_end(&t, hand, &n), 0);
    assert_true(hand[0]->lease_until_us <= sent + (2 + 15) * SECONDS);
    assert_true(hand[0]->lease_until_us > sent + 16 * SECONDS);
    consumer_end(q, hand, n);
}

/* Nothing is polled for before the settings are known there. */
static void no_poll_before_settings(void **state)
{
    (void)state;
    fake_fault(&B->proxy, RMQ_TELEMETRY, FAULT_SILENT, 0, 1000);
    struct rocketmq_config c = {.endpoints = B->proxy.target,
                                .topic = "T",
                                .group = "G",
                                .dead_group = "D",
                                .consume = true,
                                .max_in_hand = 4};
    char err[100];
    struct queue *q = rocketmq_queue_new(L, &c, err, sizeof err);
    assert_non_null(q);
    struct test_receive t;
    struct queue_message *hand[HAND];
    int n = 0;
    receive_start(q, &t, 5, 500 * MS);
    assert_int_equal(receive_end(&t, hand, &n), ERR_UNAVAIL); /* not: nothing there */
    assert_int_equal(B->n_polls, 0);
    rocketmq_queue_free(q);
}

/* What is freed in the middle completes inside. */
static void freed_in_the_middle(void **state)
{
    (void)state;
    struct queue *q = consumer_queue();
    struct queue_message *hand[HAND];
    receive_some(q, 0, 4, hand);
    struct test_receive t;
    struct test_batch ack, extend, later;
    B->hold_acks = B->hold_changes = true;
    receive_start(q, &t, 2, 5 * SECONDS);
    batch_start(q, q->ops->ack, &ack, hand, 2);
    batch_start(q, q->ops->extend, &extend, hand + 1, 2);
    batch_start(q, q->ops->retry_later, &later, hand, 4);
    UNTIL(L, B->n_acks == 2 && B->n_changes == 2);
    rocketmq_queue_free(q);
    assert_int_equal(t.ends, 1);
    assert_int_equal(ack.ends, 1);
    assert_int_equal(ack.rc, ERR_UNCERTAIN);
    assert_int_equal(extend.ends, 1);
    assert_int_equal(extend.rc, ERR_UNCERTAIN);
    assert_int_equal(later.ends, 1);
    assert_true(later.rc < 0);
}

/* tests/docs does not see them: its programs have the default queue. */
static void each_metric_is_documented(void **state)
{
    (void)state;
    struct queue *q = consumer_queue();
    assert_true(test_metrics_documented() >= 25);
    rocketmq_queue_free(q);
}

static void producers_do_not_receive(void **state)
{
    (void)state;
    struct queue *q = test_queue_ready(L, B->proxy.target, NULL);
    struct test_receive t;
    struct queue_message *hand[HAND];
    int n = 0;
    receive_start(q, &t, 5, 5 * SECONDS);
    assert_int_equal(receive_end(&t, hand, &n), ERR_INVALID);
    rocketmq_queue_free(q);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, consumer_setup, consumer_teardown)
    const struct CMUnitTest tests[] = {
        T(what_a_message_says),
        T(polls_have_time_enough),
        T(a_proxy_that_sends_too_much),
        T(polls_outlive_their_receives),
        T(broken_streams),
        T(settings_lost),
        T(receives_of_a_missing_group),
        T(receives_are_refused),
        T(empty_answers),
        T(failures_are_told_and_paced),
        T(two_brokers),
        T(few_slots_go_round),
        T(more_polls_while_they_come_back_full),
        T(damaged_and_too_long),
        T(a_process_that_stood_still),
        T(no_poll_before_settings),
        T(freed_in_the_middle),
        T(each_metric_is_documented),
        T(producers_do_not_receive),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
