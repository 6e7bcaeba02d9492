/* Acks, longer leases, later, dead letters, the clean end: exactly one handle per message. */
#include "consumer_test.h"

#include "adapter/rocketmq/inner.h"
#include "adapter/rocketmq/route.h"

#define L consumer_loop
#define B (&consumer_broker)

static void one_request_for_many_acks(void **state)
{
    (void)state;
    struct queue *q = consumer_queue();
    struct queue_message *hand[HAND];
    receive_some(q, 0, 6, hand);
    BATCH(q, ack, hand, 6, 0, 6);
    assert_int_equal(B->ack_requests, 1);
    assert_int_equal(B->n_acks, 6);
    assert_string_equal(B->acks[0].topic, "T");
    assert_string_equal(B->acks[0].group, "G");
    /* Twice is harmless, and costs nothing; nor is an acked one given back or extended. */
    BATCH(q, ack, hand, 6, 0, 0);
    BATCH(q, extend, hand, 6, 0, 0);
    BATCH(q, retry_later, hand, 6, 0, 0);
    assert_int_equal(B->ack_requests, 1);
    assert_int_equal(B->n_changes, 0);
    consumer_end(q, hand, 6);
}

/* Operations of one turn go together. */
static void acks_of_a_turn_go_together(void **state)
{
    (void)state;
    struct queue *q = consumer_queue();
    struct queue_message *hand[HAND];
    struct test_batch t[3];
    receive_some(q, 0, 6, hand);
    for (int i = 0; i < 3; i++)
        batch_start(q, q->ops->ack, &t[i], hand + 2 * i, 2);
    UNTIL(L, t[0].ends && t[1].ends && t[2].ends);
    assert_int_equal(B->ack_requests, 1);
    for (int i = 0; i < 3; i++)
        assert_int_equal(t[i].b.done, 2);
    consumer_end(q, hand, 6);
}

/* Each entry has its own status: the answer's "OK" is no answer. */
static void entries_that_differ(void **state)
{
    (void)state;
    struct queue *q = consumer_queue();
    struct queue_message *hand[HAND];
    receive_some(q, 0, 8, hand);
    B->ack_rules[0].handle = "h1";
    B->ack_rules[0].code = 40013; /* not ours any more: known */
    BATCH(q, ack, hand, 2, 0, 1);
    assert_true(hand[1]->lease_until_us <= in(0));
    BATCH(q, ack, hand, 2, 0, 0); /* and never asked again */
    assert_int_equal(B->n_acks, 2);

    B->ack_rules[1].handle = "h3"; /* its entry is missing */
    BATCH(q, ack, hand + 2, 2, ERR_UNCERTAIN, 1);
    B->ack_rules[1].code = 20000; /* the second try asks for that one only */
    BATCH(q, ack, hand + 2, 2, 0, 1);
    assert_int_equal(B->n_acks, 5);

    B->ack_rules[2].handle = "h4";
    B->ack_rules[2].code = 50001; /* told twice, in two ways */
    B->ack_rules[2].twice = true;
    BATCH(q, ack, hand + 4, 2, ERR_UNCERTAIN, 1);
    B->ack_rules[2].code = 20000; /* in the same way: so be it */
    BATCH(q, ack, hand + 4, 2, 0, 1);

    B->ack_rules[3].handle = "h6";
    B->ack_rules[3].code = 42900; /* certainly not done */
    BATCH(q, ack, hand + 6, 2, ERR_UNAVAIL, 1);
    consumer_end(q, hand, 8);
}

static void acks_that_are_lost(void **state)
{
    (void)state;
    struct queue *q = consumer_queue();
    struct queue_message *hand[HAND];
    int done;
    receive_some(q, 0, 4, hand);
    fake_fault(&B->proxy, RMQ_ACK, FAULT_CUT, 0, 1);
    BATCH(q, ack, hand, 2, ERR_UNCERTAIN, 0);
    fake_fault(&B->proxy, RMQ_ACK, FAULT_JUNK, 0, 1);
    int rc = batch_run(q, q->ops->ack, hand, 2, &done);
    assert_true(err_is_unknown(rc));
    fake_fault(&B->proxy, RMQ_ACK, FAULT_CODE, 40013, 1); /* the whole, without entries */
    BATCH(q, ack, hand, 1, 0, 0);
    fake_fault(&B->proxy, RMQ_ACK, FAULT_CODE, 40100, 1);
    BATCH(q, ack, hand + 1, 1, ERR_DENIED, 0);
    BATCH(q, ack, hand + 1, 3, 0, 3);
    consumer_end(q, hand, 4);
}

/* All sessions ask for the route anew; until none has this broker's proxy any more. */
static void until_left(struct rocketmq *mq, const struct rmq_channel *ch)
{
    list_for_each (l, &mq->sessions) {
        struct rmq_session *s = container_of(l, struct rmq_session, link);
        rmq_session_refresh(s);
        UNTIL(L, !rmq_route_has(&s->route, ch));
    }
    UNTIL(L, ch->calls == 0);
}

/* The route lost a broker: what it gave us is acked at its proxy, and never at the one that its
 * channel was turned to. */
static void a_broker_that_left(void **state)
{
    (void)state;
    static struct fake_broker gone;
    static struct fake_proxy stranger;
    static char host[] = "127.0.0.1";
    fake_broker_start(&gone, L);
    fake_proxy_start(&stranger, L);
    B->proxy.brokers[0].name = "b0";
    B->proxy.brokers[1].name = "b1";
    B->proxy.brokers[1].at = &gone.proxy;
    B->proxy.n_brokers = 2;
    struct queue *q = consumer_queue();
    struct rocketmq *mq = rmq_of(q);
    struct test_receive t;
    struct queue_message *hand[HAND];
    int n = 0;
    const struct rmq_channel *ch = rmq_channel_get(mq, host, gone.proxy.port);
    const struct rmq_session *s = &mq->consumer->group.session;
    UNTIL(L, rmq_session_settled(s, ch) && rmq_session_settled(s, mq->access[0]));
    receive_start(q, &t, 4, 10 * SECONDS); /* each broker gets its share */
    UNTIL(L, gone.n_polls == 1 && B->n_polls == 1);
    fake_poll_messages(fake_poll_at(&gone, 0), 0, 2);
    assert_int_equal(receive_end(&t, hand, &n), 0);
    assert_int_equal(n, 2);

    B->proxy.n_brokers = 1;
    until_left(mq, ch);
    BATCH(q, ack, hand, 1, 0, 1);
    assert_int_equal(gone.n_acks, 1);

    until_left(mq, ch);
    for (int port = 1; mq->n_channels < RMQ_CHANNELS_MAX; port++)
        assert_non_null(rmq_channel_get(mq, host, port));
    assert_ptr_equal(rmq_channel_get(mq, host, stranger.port), ch);
    BATCH(q, ack, hand + 1, 1, ERR_UNAVAIL, 0);
    BATCH(q, extend, hand + 1, 1, ERR_UNAVAIL, 0);
    assert_int_equal(stranger.calls[RMQ_ACK] + stranger.calls[RMQ_CHANGE_INVISIBLE], 0);
    consumer_end(q, hand, 2);
    fake_proxy_stop(&stranger);
    fake_proxy_stop(&gone.proxy);
}

/* The new handle replaces the old one. */
static void extended(void **state)
{
    (void)state;
    struct queue *q = consumer_queue();
    struct queue_message *hand[HAND];
    receive_some(q, 0, 3, hand);
    int64_t first = hand[0]->lease_until_us;
    turns(30 * MS);
    BATCH(q, extend, hand, 2, 0, 2);
    assert_int_equal(B->n_changes, 2);
    assert_int_equal(B->changes[0].ms, 15000);
    assert_true(hand[0]->lease_until_us > first && hand[0]->lease_until_us <= in(15 * SECONDS));
    assert_int_equal(hand[2]->lease_until_us, first);
    BATCH(q, extend, hand, 1, 0, 1);
    assert_string_equal(B->changes[2].handle, "h0'");
    BATCH(q, ack, hand, 3, 0, 3);
    assert_string_equal(B->acks[0].handle, "h0''");
    assert_string_equal(B->acks[1].handle, "h1'");
    assert_string_equal(B->acks[2].handle, "h2");
    consumer_end(q, hand, 3);
}

/* Nobody knows whether there is a new handle: the old one is never used again. */
static void extensions_in_doubt(void **state)
{
    (void)state;
    static const enum fake_fault_kind faults[] = {FAULT_CUT, FAULT_JUNK, FAULT_RESET, FAULT_CODE};
    struct queue *q = consumer_queue();
    struct queue_message *hand[HAND];
    int done;
    uint64_t lost = counted("seckill_mq_lease_lost_total");
    receive_some(q, 0, 6, hand);
    for (int i = 0; i < 4; i++) {
        fake_fault(&B->proxy, RMQ_CHANGE_INVISIBLE, faults[i], faults[i] == FAULT_CODE ? 50400 : 2,
                   1);
        int rc = batch_run(q, q->ops->extend, hand + i, 1, &done);
        assert_int_equal(rc, ERR_UNCERTAIN);
        assert_int_equal(done, 0);
        assert_true(hand[i]->lease_until_us <= in(0));
    }
    B->no_handle = true; /* OK, and no handle */
    BATCH(q, extend, hand + 4, 1, ERR_UNCERTAIN, 0);
    B->no_handle = false;
    B->change_code = 40013;
    BATCH(q, extend, hand + 5, 1, 0, 0); /* not ours: known */
    assert_int_equal(counted("seckill_mq_lease_lost_total") - lost, 6);
    int changes = B->n_changes;
    BATCH(q, ack, hand, 6, 0, 0);
    BATCH(q, extend, hand, 6, 0, 0);
    BATCH(q, retry_later, hand, 6, 0, 0);
    assert_int_equal(B->n_acks, 0);
    assert_int_equal(B->n_changes, changes);
    consumer_end(q, hand, 6);
}

/* Certainly not done: the old handle and its lease are still good. */
static void extensions_refused(void **state)
{
    (void)state;
    struct queue *q = consumer_queue();
    struct queue_message *hand[HAND];
    receive_some(q, 0, 1, hand);
    int64_t until = hand[0]->lease_until_us;
    B->change_code = 42900;
    BATCH(q, extend, hand, 1, ERR_UNAVAIL, 0);
    assert_int_equal(hand[0]->lease_until_us, until);
    B->change_code = 20000;
    BATCH(q, extend, hand, 1, 0, 1);
    assert_string_equal(B->changes[1].handle, "h0");
    consumer_end(q, hand, 1);
}

/* Never two requests with handles of one message: the ack waits, and uses the new handle. */
static void one_request_at_a_time(void **state)
{
    (void)state;
    struct queue *q = consumer_queue();
    struct queue_message *hand[HAND];
    struct test_batch extend, ack, later;
    receive_some(q, 0, 2, hand);
    B->hold_changes = true;
    batch_start(q, q->ops->extend, &extend, hand, 1);
    batch_start(q, q->ops->ack, &ack, hand, 2);
    batch_start(q, q->ops->retry_later, &later, hand, 1);
    UNTIL(L, B->n_changes == 1 && B->n_acks == 1);
    turns(50 * MS);
    assert_string_equal(B->acks[0].handle, "h1");
    assert_int_equal(B->n_acks, 1);
    assert_int_equal(ack.ends + extend.ends + later.ends, 0);
    fake_change_answer(B, 0, 20000, "new");
    UNTIL(L, ack.ends && extend.ends && later.ends);
    assert_string_equal(B->acks[1].handle, "new");
    assert_int_equal(B->n_changes, 1); /* acked: there is nothing to give back */
    assert_int_equal(extend.b.done, 1);
    assert_int_equal(ack.b.done, 2);
    assert_int_equal(later.b.done, 0);
    assert_int_equal(later.rc, 0);
    consumer_end(q, hand, 2);
}

/* What waits for another's answer ends at its own deadline; what is unsent when it is cancelled is
 * certainly not done. */
static void waiting_steps_end(void **state)
{
    (void)state;
    struct queue *q = consumer_queue();
    struct queue_message *hand[HAND];
    struct test_batch extend, ack, canceled;
    receive_some(q, 0, 1, hand);
    B->hold_changes = true;
    batch_start(q, q->ops->extend, &extend, hand, 1);
    UNTIL(L, B->n_changes == 1);
    batch_start(q, q->ops->ack, &canceled, hand, 1);
    q->ops->cancel(q, &canceled.b.op);
    UNTIL(L, canceled.ends);
    assert_int_equal(canceled.rc, ERR_CANCELED);
    ack = (struct test_batch){0};
    batch_start(q, q->ops->ack, &ack, hand, 1);
    UNTIL(L, extend.ends); /* after request_us: in doubt */
    assert_int_equal(extend.rc, ERR_UNCERTAIN);
    UNTIL(L, ack.ends);
    assert_int_equal(ack.b.done, 0);
    assert_int_equal(B->n_acks, 0);
    consumer_end(q, hand, 1);
}

/* More than go at a time. */
static void many_extensions(void **state)
{
    (void)state;
    consumer_slots = 256;
    struct queue *q = consumer_queue();
    static struct queue_message *hand[256];
    static struct test_receive t;
    int n = 0;
    receive_start(q, &t, 200, 10 * SECONDS);
    for (int polls = 0; n < 200;) {
        UNTIL(L, B->n_polls > polls || t.ends);
        for (; polls < B->n_polls; polls++)
            fake_poll_messages(fake_poll_at(B, polls), 100 * polls, fake_poll_at(B, polls)->batch);
        if (!t.ends)
            continue;
        for (struct list *l; (l = list_pop_front(&t.r.messages));)
            hand[n++] = container_of(l, struct queue_message, link);
        if (n < 200)
            receive_start(q, &t, 200 - n, 10 * SECONDS);
    }
    static struct queue_batch b;
    static struct test_op op;
    test_op_init(&op, 5 * SECONDS);
    struct test_batch first;
    B->hold_changes = true;
    batch_start(q, q->ops->extend, &first, hand, 64);
    UNTIL(L, B->n_changes == 64);
    b = (struct queue_batch){.op = first.b.op, .messages = hand + 64, .n = 136};
    struct test_batch second = {0};
    second.b = b;
    second.b.op.deadline_us = in(2 * SECONDS);
    q->ops->extend(q, &second.b);
    turns(50 * MS);
    assert_int_equal(B->n_changes, 64); /* the others wait */
    B->hold_changes = false;
    for (int i = 0; i < 64; i++)
        fake_change_answer(B, i, 20000, "n");
    UNTIL(L, first.ends && second.ends);
    assert_int_equal(first.b.done, 64);
    assert_int_equal(second.b.done, 136);
    consumer_end(q, hand, 200);
}

/* --- rule 22 --- */
static void body_of(int n, int retries, char *dst, size_t cap)
{
    struct event e;
    struct strbuf b;
    test_event(&e, n);
    e.retry_count = retries;
    strbuf_init_fixed(&b, dst, cap - 1);
    event_encode(&e, false, &b);
    dst[b.len] = '\0';
}

/* Below the eighth delivery later is a short lease; from then on it is published again, then acked.
 */
static void later(void **state)
{
    (void)state;
    struct queue *q = consumer_queue();
    struct test_receive t;
    struct queue_message *hand[HAND];
    int n = 0;
    char body[EVENT_MAX_BYTES], again[EVENT_MAX_BYTES];
    body_of(1, 2, body, sizeof body);
    body_of(1, 3, again, sizeof again);
    struct fake_poll *p = receive_poll(q, &t, 3);
    fake_poll_ok(p);
    fake_poll_message(p, (struct said){.id = "m7", .handle = "h7", .body = body, .attempt = 7});
    fake_poll_message(p, (struct said){.id = "m8", .handle = "h8", .body = body, .attempt = 8});
    fake_poll_message(p, (struct said){.id = "m9", .handle = "h9", .body = "raw", .attempt = 12});
    fake_poll_end(p);
    assert_int_equal(receive_end(&t, hand, &n), 0);
    BATCH(q, retry_later, hand, 3, 0, 3);
    assert_int_equal(B->n_changes, 1);
    assert_string_equal(B->changes[0].handle, "h7");
    assert_int_equal(B->changes[0].ms, 700);
    assert_int_equal(B->n_acks, 2);
    assert_int_equal(B->proxy.n_stored, 2);
    const struct fake_message *m = &B->proxy.stored[0];
    assert_string_equal(m->id, "m8");
    assert_string_equal(m->tag, "TAG");
    assert_int_equal(m->n_keys, 2);
    assert_string_equal(m->keys[1], "k2");
    assert_int_equal(m->body_n, strlen(again));
    assert_memory_equal(m->body, again, m->body_n); /* one republish more */
    assert_string_equal(B->proxy.stored[1].id, "m9");
    assert_int_equal(B->proxy.stored[1].body_n, 3); /* what we cannot read stays as it is */
    consumer_end(q, hand, 3);
}

/* Not published, so not acked: it comes again by its lease. */
static void later_in_doubt(void **state)
{
    (void)state;
    struct queue *q = consumer_queue();
    struct test_receive t;
    struct queue_message *hand[HAND];
    int n = 0;
    struct fake_poll *p = receive_poll(q, &t, 2);
    fake_poll_ok(p);
    fake_poll_message(p, (struct said){.id = "m8", .handle = "h8", .body = "x", .attempt = 8});
    fake_poll_message(p, (struct said){.id = "m9", .handle = "h9", .body = "x", .attempt = 9});
    fake_poll_end(p);
    assert_int_equal(receive_end(&t, hand, &n), 0);
    fake_fault(&B->proxy, RMQ_SEND, FAULT_CODE, 40006, 2);
    BATCH(q, retry_later, hand, 1, ERR_INVALID, 0);
    fake_fault(&B->proxy, RMQ_SEND, FAULT_CODE, 50400, 2);
    BATCH(q, retry_later, hand, 1, ERR_UNCERTAIN, 0);
    assert_int_equal(B->n_acks, 0);
    B->proxy.faults[RMQ_SEND].n = 0;
    /* Published, and the ack is too late: it is done all the same. */
    B->ack_rules[0].handle = "h8";
    B->ack_rules[0].code = 40013;
    BATCH(q, retry_later, hand, 1, 0, 1);
    consumer_end(q, hand, 2);
}

/* The group's dead letter topic is read by a group of its own; from there later means: published to
 * the topic, acked there. */
static void dead_letters(void **state)
{
    (void)state;
    B->dead_topic = true;
    struct queue *q = consumer_queue();
    struct test_receive t;
    struct queue_message *hand[HAND];
    int n = 0;
    receive_start(q, &t, 4, 10 * SECONDS);
    UNTIL(L, fake_polls_open(B, "%DLQ%G") == 1);
    struct fake_poll *p = &B->polls[0];
    while (strcmp(p->topic, "%DLQ%G") != 0)
        p++;
    assert_string_equal(p->group, "D");
    assert_true(p->batch <= 4); /* the group comes first */
    fake_poll_ok(p);
    fake_poll_message(p, (struct said){.id = "m1", .handle = "h1", .body = "x", .attempt = 18});
    fake_poll_message(p, (struct said){.id = "m2", .handle = "h2", .body = "x", .attempt = 18});
    fake_poll_end(p);
    assert_int_equal(receive_end(&t, hand, &n), 0);
    assert_int_equal(n, 2);
    assert_true(hand[0]->dead && hand[1]->dead);
    BATCH(q, retry_later, hand, 1, 0, 1);
    assert_int_equal(B->proxy.n_stored, 1);
    assert_string_equal(B->proxy.stored[0].id, "m1");
    BATCH(q, ack, hand + 1, 1, 0, 1);
    assert_int_equal(B->n_acks, 2);
    for (int i = 0; i < 2; i++) {
        assert_string_equal(B->acks[i].topic, "%DLQ%G");
        assert_string_equal(B->acks[i].group, "D");
    }
    consumer_end(q, hand, 2);
}

/* A group that asks for every slot does not keep the dead letters waiting for ever. */
static void dead_letters_have_their_turn(void **state)
{
    (void)state;
    B->dead_topic = true;
    consumer_slots = 1;
    struct queue *q = consumer_queue();
    struct test_receive t;
    struct queue_message *hand[HAND];
    int n = 0;
    bool seen = false;
    for (int64_t end = in(15 * SECONDS); !seen && in(0) < end;) {
        receive_start(q, &t, 1, 500 * MS);
        assert_int_equal(receive_end(&t, hand, &n), 0);
        for (int i = 0; i < B->n_polls; i++) {
            if (!B->polls[i].call)
                continue;
            assert_int_equal(B->polls[i].batch, 1);
            seen |= strcmp(B->polls[i].topic, "%DLQ%G") == 0;
            fake_poll_code(&B->polls[i], 40401);
        }
    }
    assert_true(seen);
    rocketmq_queue_free(q);
}

/* --- the clean end --- */
static void closed(void **state)
{
    (void)state;
    consumer_poll_us = 60 * SECONDS; /* no poll ends by itself */
    struct queue *q = consumer_queue();
    struct test_receive t;
    struct queue_message *hand[HAND];
    struct test_op end;
    int n = 0;
    receive_start(q, &t, 4, 100 * MS);
    assert_int_equal(receive_end(&t, hand, &n), 0);
    assert_int_equal(fake_polls_open(B, "T"), 1);
    struct fake_poll *p = fake_poll_at(B, 0);
    fake_poll_ok(p);
    fake_poll_message(p, (struct said){.id = "m1", .handle = "h1", .body = "x", .attempt = 1});
    turns(50 * MS); /* received, and nobody wants it */
    test_op_init(&end, 60 * SECONDS);
    rocketmq_queue_close(q, &end.op);
    UNTIL(L, B->n_changes == 1);
    assert_string_equal(B->changes[0].handle, "h1");
    assert_int_equal(B->changes[0].ms, 0); /* at once */
    turns(50 * MS);
    assert_int_equal(end.ends, 0);        /* its poll may still bring something */
    receive_start(q, &t, 4, 5 * SECONDS); /* nothing is received any more */
    assert_int_equal(receive_end(&t, hand, &n), ERR_CANCELED);
    fake_poll_message(p, (struct said){.id = "m2", .handle = "h2", .body = "x", .attempt = 1});
    fake_poll_end(p);
    UNTIL(L, end.ends);
    assert_int_equal(B->n_changes, 2);
    assert_string_equal(B->changes[1].handle, "h2");
    assert_int_equal(B->n_polls, 1);
    assert_true(B->proxy.calls[RMQ_NOTIFY_TERMINATION] >= 2); /* consumer and producer */
    assert_int_equal(B->proxy.n_clients, 0);
    rocketmq_queue_free(q);
}

/* A poll that does not end: our own deadline does, long before the poll's. */
static void closed_against_a_deaf_proxy(void **state)
{
    (void)state;
    consumer_poll_us = 600 * SECONDS;
    struct queue *q = consumer_queue();
    struct test_receive t;
    struct queue_message *hand[HAND];
    struct test_op end;
    int n = 0;
    receive_start(q, &t, 4, 100 * MS);
    assert_int_equal(receive_end(&t, hand, &n), 0);
    B->proxy.deaf = true;
    test_op_init(&end, 1 * SECONDS);
    rocketmq_queue_close(q, &end.op);
    UNTIL(L, end.ends);
    rocketmq_queue_free(q);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, consumer_setup, consumer_teardown)
    const struct CMUnitTest tests[] = {
        T(one_request_for_many_acks),
        T(acks_of_a_turn_go_together),
        T(entries_that_differ),
        T(acks_that_are_lost),
        T(a_broker_that_left),
        T(extended),
        T(extensions_in_doubt),
        T(extensions_refused),
        T(one_request_at_a_time),
        T(waiting_steps_end),
        T(many_extensions),
        T(later),
        T(later_in_doubt),
        T(dead_letters),
        T(dead_letters_have_their_turn),
        T(closed),
        T(closed_against_a_deaf_proxy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
