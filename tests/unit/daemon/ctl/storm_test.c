/* A storm against a server that answers as it is told to: the real HTTP server, on the same loop.
 */
#include "daemon/ctl/storm.h"
#include "daemon/ctl/storm_report.h"

#include "adapter/http/server.h"
#include "base/parse.h"
#include "unit.h"
#include <stdlib.h>

#define SECRET_PATH "/tmp/ctl-storm-test-key"

static struct {
    struct loop *loop;
    struct http_server *server;
    char host_port[32];
    struct settings settings;
    struct token_mint mint;
    struct storm_config config;
    int seen;
    int keys_seen;
    char keys[64][UUID_TEXT + 1];
    /* What the n-th request gets. */
    void (*answer)(struct http_exchange *x, int n);
} t;

static void on_request(struct http_service *s, struct http_exchange *x)
{
    (void)s;
    if (t.keys_seen < 64)
        str_copy(t.keys[t.keys_seen++], UUID_TEXT + 1, x->idempotency_key);
    t.answer(x, t.seen++);
}

static const struct http_route routes[] = {{"POST", "/v1/orders", "orders", on_request}};
static struct http_service service = {.routes = routes, .n_routes = 1};

static int set_up(void **state)
{
    static const struct http_limits limits = {5000000, 5000000, 5000000, 60000000,
                                              1000,    8192,    4096};
    char err[256];
    (void)state;
    memset(&t, 0, sizeof(t));
    FILE *f = fopen(SECRET_PATH, "w");
    if (!f || fputs("0123456789abcdef0123456789abcdef", f) < 0 || fclose(f))
        return -1;
    snprintf(t.settings.auth.keys, sizeof(t.settings.auth.keys), "demo=HS256:%s", SECRET_PATH);
    strcpy(t.settings.auth.issuer, "i");
    strcpy(t.settings.auth.audience, "a");
    t.loop = loop_new();
    t.server =
        http_server_new(t.loop, "127.0.0.1:0", false, &limits, &service, "test", err, sizeof(err));
    if (!t.server || token_mint_init(&t.mint, &t.settings, err, sizeof(err)) < 0)
        return -1;
    snprintf(t.host_port, sizeof(t.host_port), "127.0.0.1:%d", http_server_port(t.server));
    t.config = (struct storm_config){.loop = t.loop,
                                     .host_port = t.host_port,
                                     .item = {1, 2},
                                     .buyers = 1,
                                     .clicks = 1,
                                     .first_user = 100,
                                     .seed = 5,
                                     .connections = 4,
                                     .timeout_us = 2000000,
                                     .limit_us = 20000000,
                                     .silence_us = 10000000,
                                     .mint = &t.mint};
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    http_server_free(t.server);
    loop_free(t.loop);
    token_mint_deinit(&t.mint);
    return unlink(SECRET_PATH);
}

static void on_end(struct storm *s, void *arg)
{
    (void)s;
    (void)arg;
    loop_stop(t.loop);
}

static struct storm_totals run(void)
{
    struct storm *s = storm_new(&t.config);
    assert_non_null(s);
    storm_start(s, on_end, NULL);
    loop_run(t.loop);
    struct storm_totals totals = *storm_totals(s);
    storm_free(s);
    return totals;
}

static void answer_accepted(struct http_exchange *x)
{
    char body[256];
    int n = snprintf(body, sizeof(body),
                     "{\"request_id\":\"" STR_FMT "\",\"state\":\"QUEUED\",\"order_id\":\"7\","
                     "\"reservation_id\":\"" STR_FMT "\"}",
                     STR_ARG(x->idempotency_key), STR_ARG(x->idempotency_key));
    http_respond(x, 202, STR("application/json"), (struct str){NULL, 0},
                 (struct str){body, (size_t)n});
}

static void ten_win(struct http_exchange *x, int n)
{
    if (n < 10)
        answer_accepted(x);
    else
        http_problem(x, ANSWER_SOLD_OUT, NULL, NULL);
}

static void everybody_gets_an_answer(void **state)
{
    (void)state;
    t.answer = ten_win;
    t.config.buyers = 500;
    struct storm_totals o = run();
    assert_int_equal(o.sent, 500);
    assert_int_equal(o.answered, 500);
    assert_int_equal(o.done, 500);
    assert_int_equal(o.ends.answers[ANSWER_ACCEPTED], 10);
    assert_int_equal(o.ends.answers[ANSWER_SOLD_OUT], 490);
    assert_int_equal(o.all.n, 500);
    assert_int_equal(o.accepted.n, 10);
    assert_true(o.first_send_us && o.first_accept_us && o.first_sold_out_us);
}

static void overloaded_once(struct http_exchange *x, int n)
{
    if (n == 0)
        http_problem(x, ANSWER_OVERLOADED, NULL, NULL);
    else
        answer_accepted(x);
}

/* The same key again, no sooner than Retry-After asks for (1 s). */
static void comes_back_later(void **state)
{
    (void)state;
    t.answer = overloaded_once;
    struct storm_totals o = run();
    assert_int_equal(o.sent, 2);
    assert_int_equal(o.retries, 1);
    assert_int_equal(o.ends.answers[ANSWER_ACCEPTED], 1);
    assert_int_equal(o.ends.answers[ANSWER_OVERLOADED], 0);
    assert_int_equal(o.tries.answers[ANSWER_OVERLOADED], 1);
    assert_string_equal(t.keys[0], t.keys[1]);
    assert_true(o.first_accept_us - o.first_send_us >= 1000000);
}

static void never_certain(struct http_exchange *x, int n)
{
    (void)n;
    http_problem(x, ANSWER_TIMEOUT, NULL, NULL);
}

static void gives_up_after_its_tries(void **state)
{
    (void)state;
    t.answer = never_certain;
    struct storm_totals o = run();
    assert_int_equal(o.sent, STORM_TRIES);
    assert_int_equal(t.seen, STORM_TRIES);
    assert_int_equal(o.ends.answers[ANSWER_TIMEOUT], 1);
    assert_int_equal(o.done, 1);
}

static struct http_exchange *held;
static void on_gone(struct http_exchange *x)
{
    (void)x;
}
static void keep_silent(struct http_exchange *x, int n)
{
    x->on_gone = on_gone;
    (void)n;
}

static void silence_is_unknown(void **state)
{
    (void)state;
    t.answer = keep_silent;
    t.config.timeout_us = 20000;
    struct storm_totals o = run();
    assert_int_equal(o.tries.unknown, STORM_TRIES);
    assert_int_equal(o.ends.unknown, 1);
    assert_int_equal(o.answered, 0);
}

static void nobody_there_is_unsent(void **state)
{
    (void)state;
    strcpy(t.host_port, "127.0.0.1:1");
    t.config.silence_us = 200000;
    struct storm_totals o = run();
    /* What was not sent is no try: it waits, longer each time, until the storm gives up. */
    assert_in_range(o.tries.unsent, 2, 6);
    assert_int_equal(o.done, 0);
    assert_true(o.gave_up);
    assert_string_equal(storm_verdict(&o), "nothing could be sent");
}

static void nonsense(struct http_exchange *x, int n)
{
    (void)n;
    http_respond(x, 418, STR("text/plain"), (struct str){NULL, 0}, STR("short and stout"));
}

static void nonsense_is_malformed(void **state)
{
    (void)state;
    t.answer = nonsense;
    struct storm_totals o = run();
    assert_int_equal(o.sent, 1);
    assert_int_equal(o.ends.malformed, 1);
    assert_int_equal(o.malformed_status, 418);
    assert_non_null(o.malformed_why);
}

static void sold_out(struct http_exchange *x, int n)
{
    (void)n;
    http_problem(x, ANSWER_SOLD_OUT, NULL, NULL);
}

static void clicks_share_a_key_or_do_not(void **state)
{
    (void)state;
    t.answer = sold_out;
    t.config.buyers = 2;
    t.config.clicks = 3;
    t.config.same_key = true;
    t.config.connections = 1;
    run();
    assert_int_equal(t.seen, 6);
    assert_string_equal(t.keys[0], t.keys[2]);
    assert_string_not_equal(t.keys[2], t.keys[3]);
    assert_int_equal(storm_user(&t.config, 2), 100);
    assert_int_equal(storm_user(&t.config, 3), 101);
    t.config.same_key = false;
    struct uuid a = storm_key(&t.config, 0), b = storm_key(&t.config, 1);
    assert_false(uuid_eq(&a, &b));
    t.config.seed++;
    b = storm_key(&t.config, 0);
    assert_false(uuid_eq(&a, &b));
}

/* Open loop: a request is due at its time, and its latency counts from there, although the one
 * connection is taken. */
static int64_t let_go_us;
static struct timer answer_timer;
static void on_answer_time(struct timer *timer)
{
    (void)timer;
    http_problem(held, ANSWER_SOLD_OUT, NULL, NULL);
}
static void slowly(struct http_exchange *x, int n)
{
    (void)n;
    held = x;
    answer_timer.on_fire = on_answer_time;
    sched_set_in(loop_sched(t.loop), &answer_timer, let_go_us);
}

static void lateness_counts(void **state)
{
    (void)state;
    t.answer = slowly;
    let_go_us = 20000;
    t.config.buyers = 10;
    t.config.rate = 1000;
    t.config.connections = 1;
    struct storm_totals o = run();
    assert_int_equal(o.answered, 10);
    /* The last one is due after 9 ms and answered after 200. */
    assert_true(o.all.max_us >= 190000);
}

static void keeps_its_rate(void **state)
{
    (void)state;
    t.answer = sold_out;
    t.config.buyers = 100;
    t.config.rate = 500;
    struct storm_totals o = run();
    assert_int_equal(o.answered, 100);
    assert_true(o.last_answer_us - o.first_send_us >= 99 * 2000 - 5000);
}

static void stops_at_its_limit(void **state)
{
    (void)state;
    t.answer = sold_out;
    t.config.buyers = 1000000;
    t.config.rate = 100;
    t.config.limit_us = 100000;
    struct storm_totals o = run();
    assert_in_range(o.sent, 1, 20);
    assert_int_equal(o.done, o.sent);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(everybody_gets_an_answer),
        TEST(comes_back_later),
        TEST(gives_up_after_its_tries),
        TEST(silence_is_unknown),
        TEST(nobody_there_is_unsent),
        TEST(nonsense_is_malformed),
        TEST(clicks_share_a_key_or_do_not),
        TEST(lateness_counts),
        TEST(keeps_its_rate),
        TEST(stops_at_its_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
