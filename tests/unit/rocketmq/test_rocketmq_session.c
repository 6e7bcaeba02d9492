/* Routes, settings, heartbeats, complaints and the goodbye, against a proxy that misbehaves. */
#include "rocketmq_test.h"

#include "adapter/rocketmq/route.h"
#include "adapter/rocketmq/session.h"
#include "base/err.h"
#include "base/log.h"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct world {
    struct loop *l;
    struct fake_proxy a, b;
    char both[80];
};

static int setup(void **state)
{
    static struct world w;
    w.l = loop_new();
    fake_proxy_start(&w.a, w.l);
    fake_proxy_start(&w.b, w.l);
    snprintf(w.both, sizeof w.both, "%s,%s", w.a.target, w.b.target);
    *state = &w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;
    fake_proxy_stop(&w->a);
    fake_proxy_stop(&w->b);
    loop_free(w->l);
    return 0;
}

static void fast(struct rocketmq_config *c)
{
    c->heartbeat_us = 100 * MS;
    c->refresh_us = 100 * MS;
    c->request_us = 300 * MS;
}

/* --- settings --- */
static void settings_are_told(void **state)
{
    struct world *w = *state;
    struct queue *q = test_queue_ready(w->l, w->a.target, NULL);
    UNTIL(w->l, w->a.settings == 1);
    assert_int_equal(w->a.last_kind, RMQ__CLIENT_TYPE__PRODUCER);
    assert_int_equal(w->a.n_clients, 1);
    UNTIL(w->l, w->a.calls[RMQ_HEARTBEAT] > 0);
    assert_int_equal(w->a.n_clients, 1);
    assert_int_equal(w->a.calls[RMQ_TELEMETRY], 1);
    rocketmq_queue_free(q);
}

/* The proxy forgot us, without a word: a heartbeat hears of it, and the settings go out again. */
static void settings_are_told_again(void **state)
{
    struct world *w = *state;
    struct queue *q = test_queue_ready(w->l, w->a.target, fast);
    UNTIL(w->l, w->a.calls[RMQ_HEARTBEAT] > 0);
    uint64_t before = test_metric("seckill_mq_settings_resyncs_total", NULL);
    fake_forget(&w->a);
    UNTIL(w->l, w->a.n_clients == 1);
    assert_int_equal(test_metric("seckill_mq_settings_resyncs_total", NULL), before + 1);
    assert_int_equal(w->a.calls[RMQ_TELEMETRY], 1); /* on the stream that is there */
    fake_forget(&w->a);
    UNTIL(w->l, w->a.n_clients == 1);
    rocketmq_queue_free(q);
}

static void stream_ends(void **state)
{
    struct world *w = *state;
    struct queue *q = test_queue_ready(w->l, w->a.target, NULL);
    UNTIL(w->l, w->a.settings == 1);
    fake_forget(&w->a);
    fake_end(fake_find(&w->a, RMQ_TELEMETRY), 0, "");
    UNTIL(w->l, w->a.settings == 2);
    fake_reset(fake_find(&w->a, RMQ_TELEMETRY), 2);
    UNTIL(w->l, w->a.settings == 3);
    fake_cut(&w->a);
    UNTIL(w->l, w->a.settings == 4);
    fake_goaway(&w->a);
    fake_end(fake_find(&w->a, RMQ_TELEMETRY), 14, "draining");
    UNTIL(w->l, w->a.settings == 5);
    assert_int_equal(fake_under_way(&w->a, RMQ_TELEMETRY), 1);
    rocketmq_queue_free(q);
}

static void proxy_restarts(void **state)
{
    struct world *w = *state;
    struct queue *q = test_queue_ready(w->l, w->a.target, NULL);
    UNTIL(w->l, w->a.settings == 1);
    fake_proxy_stop(&w->a);
    UNTIL(w->l, test_publish_run(w->l, q, 1, 50 * MS) != 0);
    fake_proxy_again(&w->a);
    UNTIL(w->l, w->a.settings == 2);
    assert_int_equal(test_publish_run(w->l, q, 1, SECONDS), 0);
    rocketmq_queue_free(q);
}

/* While there is no connection, the settings wait for it, and are not given up and backed off. */
static void long_outage(void **state)
{
    struct world *w = *state;
    struct queue *q = test_queue_ready(w->l, w->a.target, fast);
    UNTIL(w->l, w->a.settings == 1);
    uint64_t before = test_metric("seckill_mq_telemetry_reopened_total", NULL);
    fake_proxy_stop(&w->a);
    UNTIL(w->l, test_metric("seckill_mq_telemetry_reopened_total", NULL) == before + 1);
    int rc = test_publish_run(w->l, q, 1, 3 * SECONDS); /* five times the patience of `fast` */
    assert_true(rc && !err_is_unknown(rc));
    assert_int_equal(test_metric("seckill_mq_telemetry_reopened_total", NULL), before + 1);
    fake_proxy_again(&w->a);
    UNTIL(w->l, w->a.settings == 2);
    rocketmq_queue_free(q);
}

/* Settings that nobody answers: the stream is given up and opened again. */
static void settings_unanswered(void **state)
{
    struct world *w = *state;
    fake_fault(&w->a, RMQ_TELEMETRY, FAULT_SILENT, 0, 1);
    struct queue *q = test_queue_ready(w->l, w->a.target, fast);
    assert_int_equal(test_publish_run(w->l, q, 1, SECONDS), 0); /* sending does not need them */
    UNTIL(w->l, w->a.settings == 1);
    assert_int_equal(w->a.calls[RMQ_TELEMETRY], 2);
    rocketmq_queue_free(q);
}

static void commands(void **state)
{
    struct world *w = *state;
    struct queue *q = test_queue_ready(w->l, w->a.target, NULL);
    UNTIL(w->l, w->a.settings == 1);
    struct fake_call *c = fake_find(&w->a, RMQ_TELEMETRY);
    Rmq__TelemetryCommand t = RMQ__TELEMETRY_COMMAND__INIT;
    Rmq__PrintThreadStackTraceCommand print = RMQ__PRINT_THREAD_STACK_TRACE_COMMAND__INIT;
    Rmq__VerifyMessageCommand verify = RMQ__VERIFY_MESSAGE_COMMAND__INIT;
    Rmq__ReconnectEndpointsCommand reconnect = RMQ__RECONNECT_ENDPOINTS_COMMAND__INIT;
    print.nonce = verify.nonce = reconnect.nonce = (char *)(uintptr_t) "n1";
    t.command_case = RMQ__TELEMETRY_COMMAND__COMMAND_PRINT_THREAD_STACK_TRACE;
    t.print_thread_stack_trace = &print;
    fake_say(c, &t.base);
    UNTIL(w->l, w->a.traces[0]);
    assert_memory_equal(w->a.traces, "n1 ", 3);
    t.command_case = RMQ__TELEMETRY_COMMAND__COMMAND_VERIFY_MESSAGE;
    t.verify_message = &verify;
    fake_say(c, &t.base);
    UNTIL(w->l, w->a.verified);
    assert_int_equal(w->a.verified, 50100);
    assert_int_equal(w->a.accepted, 1);
    t.command_case = RMQ__TELEMETRY_COMMAND__COMMAND_RECONNECT_ENDPOINTS;
    t.reconnect_endpoints = &reconnect;
    fake_say(c, &t.base);
    UNTIL(w->l, w->a.settings == 2);
    assert_int_equal(w->a.accepted, 2);
    rocketmq_queue_free(q);
}

/* --- heartbeats --- */
/* The peer reads nothing any more and the connection stands: two heartbeats find out. */
static void half_open(void **state)
{
    struct world *w = *state;
    struct queue *q = test_queue_ready(w->l, w->a.target, fast);
    UNTIL(w->l, w->a.settings == 1);
    uint64_t before = test_metric("seckill_mq_heartbeats_missed_total", NULL);
    w->a.deaf = true;
    UNTIL(w->l, w->a.accepted == 2);
    assert_true(test_metric("seckill_mq_heartbeats_missed_total", NULL) >= before + 2);
    w->a.deaf = false;
    UNTIL(w->l, w->a.settings == 2);
    UNTIL(w->l, test_metric("seckill_mq_proxies_isolated", NULL) == 0);
    rocketmq_queue_free(q);
}

/* --- routes --- */
static void one_of_two_is_dead(void **state)
{
    struct world *w = *state;
    fake_proxy_stop(&w->a);
    for (int i = 0; i < 4; i++) { /* whichever is asked first */
        struct queue *q = test_queue_ready(w->l, w->both, NULL);
        assert_int_equal(test_publish_run(w->l, q, i, SECONDS), 0);
        rocketmq_queue_free(q);
    }
    assert_int_equal(w->b.n_stored, 4);
}

static void one_of_two_is_deaf(void **state)
{
    struct world *w = *state;
    w->a.deaf = true;
    struct queue *q = test_queue_ready(w->l, w->both, NULL);
    assert_int_equal(test_publish_run(w->l, q, 1, SECONDS), 0);
    rocketmq_queue_free(q);
}

static void nobody_tells_a_route(void **state)
{
    struct world *w = *state;
    fake_proxy_stop(&w->a);
    fake_proxy_stop(&w->b);
    struct queue *q = test_queue(w->l, w->both, fast);
    assert_null(rocketmq_queue_complaint(q));
    assert_int_equal(test_publish_run(w->l, q, 1, SECONDS), ERR_UNAVAIL);
    UNTIL(w->l, rocketmq_queue_complaint(q));
    assert_non_null(strstr(rocketmq_queue_complaint(q), "no proxy tells a route"));
    assert_false(rocketmq_queue_complaint_lasts(q)); /* they may come back */
    assert_int_equal(test_metric("seckill_mq_complaints", "kind=\"unreachable\""), 1);
    fake_proxy_again(&w->b);
    UNTIL(w->l, rocketmq_queue_ready(q));
    UNTIL(w->l, !rocketmq_queue_complaint(q));
    assert_int_equal(test_metric("seckill_mq_complaints", "kind=\"unreachable\""), 0);
    rocketmq_queue_free(q);
}

static void topic_is_missing(void **state)
{
    struct world *w = *state;
    w->a.topic = "Other";
    struct queue *q = test_queue(w->l, w->a.target, NULL);
    UNTIL(w->l, rocketmq_queue_complaint(q));
    const char *text = rocketmq_queue_complaint(q);
    assert_non_null(strstr(text, "topic \"T\""));
    assert_non_null(strstr(text, "mqadmin updateTopic"));
    assert_non_null(strstr(text, "-t T "));
    assert_non_null(strstr(text, "message.type=NORMAL"));
    assert_false(rocketmq_queue_ready(q));
    assert_true(rocketmq_queue_complaint_lasts(q));
    assert_int_equal(test_metric("seckill_mq_complaints", "kind=\"topic\""), 1);
    w->a.topic = "T"; /* somebody makes it */
    UNTIL(w->l, rocketmq_queue_ready(q));
    UNTIL(w->l, !rocketmq_queue_complaint(q));
    assert_false(rocketmq_queue_complaint_lasts(q));
    assert_int_equal(test_metric("seckill_mq_complaints", "kind=\"topic\""), 0);
    rocketmq_queue_free(q);
}

/* 40014 of a send: the topic is of another type, or gone since. */
static void topic_goes(void **state)
{
    struct world *w = *state;
    struct queue *q = test_queue_ready(w->l, w->a.target, NULL);
    fake_fault(&w->a, RMQ_SEND, FAULT_CODE, 40014, 1);
    assert_int_equal(test_publish_run(w->l, q, 1, SECONDS), ERR_UNAVAIL);
    assert_non_null(strstr(rocketmq_queue_complaint(q), "topic \"T\""));
    assert_int_equal(test_publish_run(w->l, q, 1, SECONDS), 0);
    assert_null(rocketmq_queue_complaint(q));
    rocketmq_queue_free(q);
}

static void wrong_keys(struct rocketmq_config *c)
{
    c->access_key = "ak";
    c->secret_key = "wrong";
}

static void denied(void **state)
{
    struct world *w = *state;
    fake_fault(&w->a, RMQ_QUERY_ROUTE, FAULT_CODE, 40100, 1000);
    struct queue *q = test_queue(w->l, w->a.target, wrong_keys);
    UNTIL(w->l, rocketmq_queue_complaint(q));
    assert_non_null(strstr(rocketmq_queue_complaint(q), "access key \"ak\""));
    assert_null(strstr(rocketmq_queue_complaint(q), "wrong\"")); /* never the secret */
    assert_true(rocketmq_queue_complaint_lasts(q));
    assert_int_equal(test_metric("seckill_mq_complaints", "kind=\"denied\""), 1);
    fake_fault(&w->a, RMQ_QUERY_ROUTE, FAULT_NONE, 0, 0);
    UNTIL(w->l, rocketmq_queue_ready(q) && !rocketmq_queue_complaint(q));
    /* A send alone that is refused, and that the route's answers do not excuse. */
    fake_fault(&w->a, RMQ_SEND, FAULT_CODE, 40100, 1);
    assert_int_equal(test_publish_run(w->l, q, 1, SECONDS), ERR_DENIED);
    assert_non_null(strstr(rocketmq_queue_complaint(q), "SendMessage"));
    assert_int_equal(test_publish_run(w->l, q, 1, SECONDS), 0);
    assert_null(rocketmq_queue_complaint(q));
    fake_fault(&w->a, RMQ_SEND, FAULT_CODE, 40100, 1);
    assert_int_equal(test_publish_run(w->l, q, 1, SECONDS), ERR_DENIED);
    rocketmq_queue_free(q);
    assert_int_equal(test_metric("seckill_mq_complaints", "kind=\"denied\""), 0);
}

/* Brokers come and go; where one goes, we say goodbye. What is known stays while nobody tells. */
static void route_changes(void **state)
{
    struct world *w = *state;
    struct queue *q = test_queue_ready(w->l, w->a.target, fast);
    UNTIL(w->l, w->a.n_clients == 1);
    w->a.brokers[1].name = "b1";
    w->a.brokers[1].at = &w->b;
    w->a.n_brokers = 2;
    UNTIL(w->l, w->b.n_clients == 1);
    UNTIL(w->l, test_publish_run(w->l, q, 1, SECONDS) == 0 && w->b.n_stored > 0);
    w->a.n_brokers = 1;
    UNTIL(w->l, w->b.calls[RMQ_NOTIFY_TERMINATION] == 1 && w->b.n_clients == 0);
    UNTIL(w->l, fake_under_way(&w->b, RMQ_TELEMETRY) == 0);
    w->a.n_brokers = 2; /* and back */
    UNTIL(w->l, w->b.n_clients == 1);
    fake_fault(&w->a, RMQ_QUERY_ROUTE, FAULT_CODE, 50001, 1000000);
    int asked = w->a.calls[RMQ_QUERY_ROUTE];
    UNTIL(w->l, w->a.calls[RMQ_QUERY_ROUTE] >= asked + 2);
    assert_true(rocketmq_queue_ready(q));
    assert_int_equal(test_publish_run(w->l, q, 1, SECONDS), 0);
    rocketmq_queue_free(q);
}

/* A proxy that left the route and never ends the stream that we ended: its channel is free again
 * all the same, and when it comes back it is told everything. */
static void a_stream_that_is_never_ended(void **state)
{
    struct world *w = *state;
    struct queue *q = test_queue_ready(w->l, w->a.target, fast);
    w->a.brokers[1].name = "b1";
    w->a.brokers[1].at = &w->b;
    w->b.keeps_streams = true;
    for (int i = 1; i <= 2; i++) {
        w->a.n_brokers = 2;
        UNTIL(w->l, w->b.n_clients == 1);
        w->a.n_brokers = 1;
        UNTIL(w->l, w->b.calls[RMQ_NOTIFY_TERMINATION] == i);
        UNTIL(w->l, fake_under_way(&w->b, RMQ_TELEMETRY) == 0);
        UNTIL(w->l, rmq_channel_get(rmq_of(q), "127.0.0.1", w->b.port)->calls == 0);
    }
    rocketmq_queue_free(q);
}

static char map[128];
static void mapped(struct rocketmq_config *c)
{
    c->endpoint_map = map;
}

/* A LOCAL proxy tells an address that is not reached from here. */
static void endpoint_map(void **state)
{
    struct world *w = *state;
    w->a.told_port = 9;
    snprintf(map, sizeof map, "10.0.0.1:1=10.0.0.1:2,127.0.0.1:9=%s", w->a.target);
    struct queue *q = test_queue_ready(w->l, w->a.target, mapped);
    assert_int_equal(test_publish_run(w->l, q, 1, SECONDS), 0);
    assert_int_equal(w->a.n_stored, 1);
    rocketmq_queue_free(q);
}

/* A proxy with a new address after each restart, for ever: what nobody needs makes room. */
static void addresses_wander(void **state)
{
    struct world *w = *state;
    struct queue *q = test_queue_ready(w->l, w->a.target, fast);
    struct rocketmq *mq = rmq_of(q);
    const struct rmq_session *s = container_of(mq->sessions.next, struct rmq_session, link);
    for (int i = 1; i <= 3 * RMQ_CHANNELS_MAX; i++) {
        char target[32];
        w->a.told_port = i; /* nobody listens there */
        snprintf(target, sizeof target, "127.0.0.1:%d", i);
        UNTIL(w->l, strcmp(s->route.brokers[0].channels[0]->target, target) == 0);
    }
    w->a.told_port = 0;
    UNTIL(w->l, test_publish_run(w->l, q, 1, 200 * MS) == 0);
    assert_int_equal(mq->n_channels, RMQ_CHANNELS_MAX);
    UNTIL(w->l, test_metric("seckill_mq_proxies_isolated", NULL) == 0);
    rocketmq_queue_free(q);
}

/* All channels are in use, and a route tells two new addresses: each gets one of those that nobody
 * needs, not both the same. */
static void one_route_tells_several(void **state)
{
    struct world *w = *state;
    struct queue *q = test_queue_ready(w->l, w->a.target, NULL);
    struct rocketmq *mq = rmq_of(q);
    struct rmq_route route;
    Rmq__QueryRouteResponse r = RMQ__QUERY_ROUTE_RESPONSE__INIT;
    Rmq__MessageQueue queues[2], *list[2];
    Rmq__Broker brokers[2];
    Rmq__Endpoints endpoints[2];
    Rmq__Address addresses[2], *address_list[2];
    static char names[2][4] = {"b0", "b1"}, host[] = "127.0.0.1";
    for (int i = 1; i < RMQ_CHANNELS_MAX; i++)
        assert_non_null(rmq_channel_get(mq, host, i));
    assert_int_equal(mq->n_channels, RMQ_CHANNELS_MAX);
    for (int i = 0; i < 2; i++) {
        rmq__message_queue__init(list[i] = &queues[i]);
        rmq__broker__init(queues[i].broker = &brokers[i]);
        rmq__endpoints__init(brokers[i].endpoints = &endpoints[i]);
        rmq__address__init(address_list[i] = &addresses[i]);
        brokers[i].name = names[i];
        endpoints[i].addresses = &address_list[i];
        endpoints[i].n_addresses = 1;
        addresses[i].host = host;
        addresses[i].port = 1001 + i;
    }
    r.message_queues = list;
    r.n_message_queues = 2;
    assert_true(rmq_route_read(mq, &r, &route));
    assert_int_equal(route.n, 2);
    assert_string_equal(route.brokers[0].channels[0]->target, "127.0.0.1:1001");
    assert_string_equal(route.brokers[1].channels[0]->target, "127.0.0.1:1002");
    rocketmq_queue_free(q);
}

/* --- the end --- */
static void goodbye(void **state)
{
    struct world *w = *state;
    struct queue *q = test_queue_ready(w->l, w->a.target, NULL);
    UNTIL(w->l, w->a.n_clients == 1);
    struct test_op t;
    test_op_init(&t, 5 * SECONDS);
    rocketmq_queue_close(q, &t.op);
    assert_int_equal(t.ends, 0);
    UNTIL(w->l, t.ends);
    assert_int_equal(t.rc, 0);
    assert_int_equal(w->a.n_clients, 0);
    assert_int_equal(w->a.calls[RMQ_NOTIFY_TERMINATION], 1);
    assert_int_equal(fake_under_way(&w->a, RMQ_TELEMETRY), 0);
    rocketmq_queue_free(q);
}

/* The results' client is one of its own, and says it for itself. */
static void goodbye_of_the_results(void **state)
{
    struct world *w = *state;
    struct rocketmq_config c = {.endpoints = w->a.target, .topic = "T"};
    char err[200] = "";
    struct results *r = rocketmq_results_new(w->l, &c, err, sizeof err);
    if (!r)
        fail_msg("%s", err);
    UNTIL(w->l, rocketmq_results_ready(r) && w->a.n_clients == 1);
    struct test_op t;
    test_op_init(&t, 5 * SECONDS);
    rocketmq_results_close(r, &t.op);
    UNTIL(w->l, t.ends);
    assert_int_equal(t.rc, 0);
    assert_int_equal(w->a.n_clients, 0);
    assert_int_equal(w->a.calls[RMQ_NOTIFY_TERMINATION], 1);
    rocketmq_results_free(r);
}

static void goodbye_to_nobody(void **state)
{
    struct world *w = *state;
    for (int how = 0; how < 3; how++) {
        struct queue *q = how == 0 ? test_queue(w->l, w->a.target, NULL)
                                   : test_queue_ready(w->l, w->a.target, NULL);
        if (how == 1)
            fake_fault(&w->a, RMQ_NOTIFY_TERMINATION, FAULT_SILENT, 0, 1);
        if (how == 2)
            w->a.deaf = true;
        struct test_op t;
        test_op_init(&t, 300 * MS);
        rocketmq_queue_close(q, &t.op);
        UNTIL(w->l, t.ends);
        assert_int_equal(t.rc, 0);
        rocketmq_queue_free(q);
    }
}

static void freed_while_closing(void **state)
{
    struct world *w = *state;
    struct queue *q = test_queue_ready(w->l, w->a.target, NULL);
    struct test_op t;
    test_op_init(&t, 5 * SECONDS);
    rocketmq_queue_close(q, &t.op);
    rocketmq_queue_free(q);
    assert_int_equal(t.ends, 1);
}

/* --- a consumer's session, without its half --- */
struct session {
    struct rmq_session s;
    int routes, settled, lost, closed;
};
static void on_route(struct rmq_session *s)
{
    container_of(s, struct session, s)->routes++;
}
static void on_settled(struct rmq_session *s, struct rmq_member *m)
{
    struct session *x = container_of(s, struct session, s);
    if (m->state == RMQ_MEMBER_SETTLED)
        x->settled++;
    else
        x->lost++;
}
static void on_closed(struct rmq_session *s)
{
    container_of(s, struct session, s)->closed++;
}

static void consumer_session(void **state)
{
    struct world *w = *state;
    struct queue *q = test_queue_ready(w->l, w->a.target, NULL);
    struct session x = {.s = {.kind = RMQ_CONSUMER,
                              .topic = "T",
                              .group = "G",
                              .on_route = on_route,
                              .on_settled = on_settled,
                              .on_closed = on_closed}};
    fake_fault(&w->a, RMQ_TELEMETRY, FAULT_NONE, 0, 0);
    rmq_session_init(&x.s, rmq_of(q));
    UNTIL(w->l, x.settled == 1);
    assert_int_equal(x.routes, 1);
    assert_int_equal(w->a.last_kind, RMQ__CLIENT_TYPE__SIMPLE_CONSUMER);
    assert_int_equal(x.s.max_attempts, 17);
    assert_int_equal(x.s.route.n, 1);
    assert_string_equal(x.s.route.brokers[0].name, "b0");
    assert_int_equal(x.s.route.brokers[0].readable, 2);
    struct rmq_channel *ch = rmq_broker_channel(&x.s, &x.s.route.brokers[0], true);
    assert_non_null(ch);
    assert_true(rmq_session_settled(&x.s, ch));
    /* A receive that hears 50001: settings anew, at most once a second, told to the owner. */
    rmq_session_resync(&x.s, ch);
    rmq_session_resync(&x.s, ch);
    assert_int_equal(x.lost, 1);
    assert_null(rmq_broker_channel(&x.s, &x.s.route.brokers[0], true));
    UNTIL(w->l, x.settled == 2);
    rmq_session_resync(&x.s, ch);
    UNTIL(w->l, x.settled == 3);
    assert_int_equal(w->a.calls[RMQ_TELEMETRY], 2); /* the producer's and this one's */
    rmq_session_close(&x.s, in(SECONDS));
    UNTIL(w->l, x.closed);
    rmq_session_deinit(&x.s);
    assert_int_equal(w->a.n_clients, 1);
    rocketmq_queue_free(q);
}

static void group_retries_too_few(void **state)
{
    struct world *w = *state;
    struct queue *q = test_queue_ready(w->l, w->a.target, NULL);
    struct session x = {.s = {.kind = RMQ_CONSUMER, .topic = "T", .group = "G"}};
    char text[4096];
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    w->a.max_attempts = 4;
    log_to_fd(ends[1]);
    rmq_session_init(&x.s, rmq_of(q));
    UNTIL(w->l, x.s.max_attempts == 4);
    log_to_fd(STDERR_FILENO);
    close(ends[1]);
    ssize_t n = read(ends[0], text, sizeof text - 1);
    close(ends[0]);
    assert_true(n > 0);
    text[n] = '\0';
    assert_non_null(strstr(text, "retries are too few"));
    rmq_session_close(&x.s, in(SECONDS));
    UNTIL(w->l, x.s.closed);
    rmq_session_deinit(&x.s);
    rocketmq_queue_free(q);
}

static void group_is_missing(void **state)
{
    struct world *w = *state;
    struct queue *q = test_queue_ready(w->l, w->a.target, NULL);
    struct session x = {.s = {.kind = RMQ_CONSUMER, .topic = "T", .group = "G"}};
    UNTIL(w->l, w->a.settings == 1);
    fake_fault(&w->a, RMQ_TELEMETRY, FAULT_GRPC, GRPC_INVALID_ARGUMENT, 1);
    w->a.faults[RMQ_TELEMETRY].text = "CODE: 26 DESC: the subscription group [G] does not exist";
    rmq_session_init(&x.s, rmq_of(q));
    UNTIL(w->l, rocketmq_queue_complaint(q));
    const char *text = rocketmq_queue_complaint(q);
    assert_non_null(strstr(text, "consumer group \"G\""));
    assert_non_null(strstr(text, "mqadmin updateSubGroup"));
    assert_true(rocketmq_queue_complaint_lasts(q));
    UNTIL(w->l, !rocketmq_queue_complaint(q)); /* it was made, and the next stream settles */
    rmq_session_close(&x.s, in(SECONDS));
    UNTIL(w->l, x.s.closed);
    rmq_session_deinit(&x.s);
    rocketmq_queue_free(q);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(settings_are_told),
        TEST(settings_are_told_again),
        TEST(stream_ends),
        TEST(proxy_restarts),
        TEST(long_outage),
        TEST(settings_unanswered),
        TEST(commands),
        TEST(half_open),
        TEST(one_of_two_is_dead),
        TEST(one_of_two_is_deaf),
        TEST(nobody_tells_a_route),
        TEST(topic_is_missing),
        TEST(topic_goes),
        TEST(denied),
        TEST(route_changes),
        TEST(a_stream_that_is_never_ended),
        TEST(endpoint_map),
        TEST(addresses_wander),
        TEST(one_route_tells_several),
        TEST(goodbye),
        TEST(goodbye_of_the_results),
        TEST(goodbye_to_nobody),
        TEST(freed_while_closing),
        TEST(consumer_session),
        TEST(group_is_missing),
        TEST(group_retries_too_few),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
