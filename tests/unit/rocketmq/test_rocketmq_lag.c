/* The backlog over the remoting protocol, against name servers and brokers that do what the test
 * says: what is not known is an error, never zero (rule 31). */
#include "consumer_test.h"

#include "base/panic.h"
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define L consumer_loop
#define B (&consumer_broker)

enum { CONNS = 8 };

enum how {
    RIGHT,
    CODE,      /* answers with this code */
    GARBAGE,   /* a body that is none */
    CUT,       /* half an answer, then closed */
    SILENT,    /* reads, says nothing */
    STRANGER,  /* the answer to another question */
    HUGE_SIZE, /* announces more than anybody takes */
    HTTP,      /* another protocol */
    EMPTY,     /* tables without entries */
    BYTEWISE,  /* right, one byte at a time, with a notice of its own before it */
};

/* A name server or a broker. */
struct remote {
    struct loop_io io;
    int port;
    enum how how;
    int only;    /* the fault is of this code alone; 0: of all */
    int code;    /* of CODE */
    int closing; /* closes after so many answers; 0: never */
    int asked[400], conns;
    int64_t waiting, retry, dead, age_ms, retry_age_ms;
    bool no_retry_topic;
    char brokers[200]; /* of a name server: their addresses, as 105 tells them */
    char last[1024];   /* header of the last question */
    struct conn {
        struct loop_io io;
        struct remote *r;
        char in[4096];
        size_t n;
    } c[CONNS];
};

static struct remote namesrv, brokers[2];
static char namesrvs[128];

static void be32(char *p, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        p[i] = (char)(unsigned char)(v >> (24 - 8 * i));
}

static void answer(struct conn *c, int code, unsigned opaque, const char *body)
{
    struct remote *r = c->r;
    char header[200], mem[4096];
    snprintf(header, sizeof header,
             "{\"code\":%d,\"extFields\":{},\"flag\":1,\"language\":\"JAVA\",\"opaque\":%u,"
             "\"serializeTypeCurrentRPC\":\"JSON\",\"version\":500}",
             code, opaque);
    size_t h = strlen(header), b = strlen(body), n = 8 + h + b;
    be32(mem, (uint32_t)(n - 4));
    be32(mem + 4, (uint32_t)h);
    memcpy(mem + 8, header, h);
    memcpy(mem + 8 + h, body, b);
    if (r->how == BYTEWISE) {
        static const char notice[] =
            "\0\0\0\x27\0\0\0\x23{\"code\":40,\"flag\":0,\"opaque\":12345}";
        for (size_t i = 0; i < sizeof notice - 1; i++)
            assert_int_equal(send(c->io.fd, notice + i, 1, MSG_NOSIGNAL), 1);
        for (size_t i = 0; i < n; i++)
            assert_int_equal(send(c->io.fd, mem + i, 1, MSG_NOSIGNAL), 1);
    } else {
        assert_int_equal(send(c->io.fd, mem, r->how == CUT ? n / 2 : n, MSG_NOSIGNAL),
                         r->how == CUT ? n / 2 : n);
    }
}

static void close_conn(struct conn *c)
{
    loop_io_remove(L, &c->io);
    close(c->io.fd);
    c->io.fd = -1;
    c->n = 0;
}

static bool asks(const struct remote *r, const char *words)
{
    return strstr(r->last, words) != NULL;
}

static void right_body(const struct remote *r, int code, char *body, size_t cap)
{
    bool retry = asks(r, "%RETRY%"), dead = asks(r, "%DLQ%"), all = !asks(r, "\"topic\"");
    if (code == 105)
        snprintf(body, cap, "{\"brokerDatas\":[%s]}", r->brokers);
    else if (code == 208 && all)
        snprintf(
            body, cap,
            "{\"offsetTable\":{{\"queueId\":0,\"topic\":\"T\"}:{\"brokerOffset\":%lld,"
            "\"consumerOffset\":0},{\"queueId\":0,\"topic\":\"%%RETRY%%G_T\"}:{\"brokerOffset\":"
            "%lld,\"consumerOffset\":0}}}",
            (long long)r->waiting, (long long)r->retry);
    else if (code == 208)
        snprintf(
            body, cap,
            "{\"consumeTps\":0.0,\"offsetTable\":{{\"brokerName\":\"b\",\"queueId\":0,\"topic\":"
            "\"%s\"}:{\"brokerOffset\":%lld,\"consumerOffset\":10}}}",
            dead ? "%DLQ%G" : "T", (long long)(10 + (dead ? r->dead : r->waiting)));
    else
        snprintf(body, cap, "{\"consumeTimeSpanSet\":[{\"delayTime\":%lld}]}",
                 (long long)(retry  ? r->retry_age_ms
                             : dead ? 0
                                    : r->age_ms));
}

static void question(struct conn *c)
{
    struct remote *r = c->r;
    char body[1024] = "";
    const char *at = strstr(r->last, "\"opaque\":");
    assert_non_null(at);
    unsigned opaque = (unsigned)strtoul(at + 9, NULL, 10);
    int code = atoi(strstr(r->last, "\"code\":") + 7);
    r->asked[code]++;
    enum how how = r->only && r->only != code ? RIGHT : r->how;
    if (how == SILENT)
        return;
    right_body(r, code, body, sizeof body);
    if (how == EMPTY)
        snprintf(body, sizeof body, code == 208 ? "{\"offsetTable\":{}}" : "{\"brokerDatas\":[]}");
    if (how == HUGE_SIZE || how == HTTP) {
        send(c->io.fd, how == HTTP ? "HTTP/1.1 400 Bad Request\r\n\r\n" : "\x7f\0\0\0\0\0\0\0", 8,
             MSG_NOSIGNAL);
        return;
    }
    if (r->no_retry_topic && code == 303 && asks(r, "%RETRY%"))
        answer(c, 17, opaque, "");
    else
        answer(c, how == CODE ? r->code : 0, how == STRANGER ? opaque + 1 : opaque,
               how == GARBAGE ? "{\"offsetTable\":{{" : body);
    if (how == CUT || (r->closing && --r->closing == 0))
        close_conn(c);
}

static void on_conn(struct loop_io *io, int what)
{
    struct conn *c = container_of(io, struct conn, io);
    (void)what;
    ssize_t n = recv(io->fd, c->in + c->n, sizeof c->in - c->n, 0);
    if (n <= 0) {
        close_conn(c);
        return;
    }
    c->n += (size_t)n;
    while (c->n >= 8) {
        const unsigned char *u = (const unsigned char *)c->in;
        size_t all = 4 + ((size_t)u[2] << 8 | u[3]), header = (size_t)u[6] << 8 | u[7];
        if (c->n < all)
            return;
        assert_true(header < sizeof c->r->last && header + 8 == all);
        memcpy(c->r->last, c->in + 8, header);
        c->r->last[header] = '\0';
        memmove(c->in, c->in + all, c->n - all);
        c->n -= all;
        question(c);
        if (c->io.fd < 0)
            return;
    }
}

static void on_accept(struct loop_io *io, int what)
{
    struct remote *r = container_of(io, struct remote, io);
    (void)what;
    int fd = accept4(io->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0)
        return;
    r->conns++;
    for (int i = 0; i < CONNS; i++) {
        if (r->c[i].io.fd >= 0)
            continue;
        r->c[i].r = r;
        r->c[i].io.on_ready = on_conn;
        assert_int_equal(loop_io_add(L, &r->c[i].io, fd, LOOP_READ), 0);
        return;
    }
    fail_msg("too many connections");
}

static void remote_start(struct remote *r)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof a;
    memset(r, 0, sizeof *r);
    for (int i = 0; i < CONNS; i++)
        r->c[i].io.fd = -1;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)(const void *)&a, sizeof a), 0);
    assert_int_equal(listen(fd, 16), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)(void *)&a, &len), 0);
    r->port = ntohs(a.sin_port);
    r->io.on_ready = on_accept;
    assert_int_equal(loop_io_add(L, &r->io, fd, LOOP_READ), 0);
}

static void remote_stop(struct remote *r)
{
    if (r->io.fd < 0)
        return;
    loop_io_remove(L, &r->io);
    close(r->io.fd);
    r->io.fd = -1;
    for (int i = 0; i < CONNS; i++) {
        if (r->c[i].io.fd >= 0)
            close_conn(&r->c[i]);
    }
}

static int setup(void **state)
{
    if (consumer_setup(state))
        return -1;
    remote_start(&namesrv);
    for (int i = 0; i < 2; i++)
        remote_start(&brokers[i]);
    snprintf(namesrv.brokers, sizeof namesrv.brokers,
             "{\"brokerAddrs\":{0:\"127.0.0.1:%d\"}},{\"brokerAddrs\":{\"0\":\"127.0.0.1:%d\"}}",
             brokers[0].port, brokers[1].port);
    snprintf(namesrvs, sizeof namesrvs, "127.0.0.1:%d", namesrv.port);
    brokers[0].waiting = 5;
    brokers[0].retry = 2;
    brokers[0].age_ms = 3000;
    brokers[1].waiting = 30;
    brokers[1].dead = 1;
    brokers[1].age_ms = 40;
    return 0;
}

static int teardown(void **state)
{
    remote_stop(&namesrv);
    for (int i = 0; i < 2; i++)
        remote_stop(&brokers[i]);
    return consumer_teardown(state);
}

static const char *access_key;

static struct queue *queue_with_lag(void)
{
    char err[200] = "";
    struct rocketmq_config c = {.endpoints = B->proxy.target,
                                .topic = "T",
                                .group = "G",
                                .dead_group = "D",
                                .consume = true,
                                .max_in_hand = 8,
                                .namesrv = namesrvs,
                                .access_key = access_key,
                                .secret_key = access_key ? "secret" : NULL,
                                .request_us = 1 * SECONDS};
    struct queue *q = rocketmq_queue_new(L, &c, err, sizeof err);
    if (!q)
        fail_msg("%s", err);
    UNTIL(L, rocketmq_queue_ready(q));
    return q;
}

struct test_lag {
    struct queue_lag l;
    int ends, rc;
};

static void on_lag(struct op *op, int rc)
{
    struct test_lag *t = container_of(op, struct test_lag, l.op);
    t->ends++;
    t->rc = rc;
}

static void lag_start(struct queue *q, struct test_lag *t, int64_t in_us)
{
    *t = (struct test_lag){.l.op = {on_lag, in(in_us)}};
    q->ops->lag(q, &t->l);
    assert_int_equal(t->ends, 0);
}

static int lag(struct queue *q, struct test_lag *t)
{
    lag_start(q, t, 3 * SECONDS);
    UNTIL(L, t->ends);
    assert_int_equal(t->ends, 1);
    return t->rc;
}

static void sums(void **state)
{
    (void)state;
    struct queue *q = queue_with_lag();
    struct test_lag t;
    struct queue_message *hand[HAND];
    assert_int_equal(lag(q, &t), 0);
    assert_int_equal(t.l.waiting, 5 + 2 + 30 + 1);
    assert_int_equal(t.l.in_hand, 0);
    assert_int_equal(t.l.oldest_age_ms, 3000);
    assert_true(t.l.of_all_items);
    /* What is in hand here counts, and its age if it was delivered first. */
    receive_some(q, 0, 3, hand);
    BATCH(q, ack, hand, 1, 0, 1);
    assert_int_equal(lag(q, &t), 0);
    assert_int_equal(t.l.in_hand, 2);
    assert_true(t.l.oldest_age_ms > 86400000); /* stored at 1780000000 */
    release_all(q, hand, 3);
    brokers[0].waiting = brokers[0].retry = brokers[0].age_ms = 0;
    brokers[1].waiting = brokers[1].dead = brokers[1].age_ms = 0;
    brokers[0].no_retry_topic = brokers[1].no_retry_topic = true;
    assert_int_equal(lag(q, &t), 0);
    assert_int_equal(t.l.waiting, 0);
    assert_int_equal(t.l.in_hand, 0);
    assert_int_equal(t.l.oldest_age_ms, 0); /* nothing at all: only then */
    brokers[1].waiting = 1;
    assert_int_equal(lag(q, &t), 0);
    assert_int_equal(t.l.oldest_age_ms, 1); /* something is there */
    brokers[1].waiting = 0;
    brokers[1].retry_age_ms = 77;
    brokers[1].no_retry_topic = false;
    assert_int_equal(lag(q, &t), 0);
    assert_int_equal(t.l.oldest_age_ms, 77);
    assert_int_equal(t.l.waiting, 1); /* it came between the two questions */
    assert_int_equal(namesrv.conns, 1);
    assert_int_equal(brokers[0].conns, 1); /* connections stay */
    rocketmq_queue_free(q);
}

/* All who had asked when it began are told the same; who asks meanwhile gets a fresh answer. */
static void one_look_for_all(void **state)
{
    (void)state;
    struct queue *q = queue_with_lag();
    struct test_lag t[20], late;
    for (int i = 0; i < 20; i++)
        lag_start(q, &t[i], 3 * SECONDS);
    UNTIL(L, namesrv.asked[105] == 1);
    lag_start(q, &late, 3 * SECONDS);
    brokers[1].waiting = 31;
    for (int i = 0; i < 20; i++) {
        UNTIL(L, t[i].ends);
        assert_int_equal(t[i].rc, 0);
    }
    assert_int_equal(namesrv.asked[105], 1);
    assert_int_equal(brokers[0].asked[208] + brokers[0].asked[303], 6);
    UNTIL(L, late.ends);
    assert_int_equal(late.rc, 0);
    assert_int_equal(late.l.waiting, 39);
    assert_int_equal(namesrv.asked[105], 2);
    rocketmq_queue_free(q);
}

static void each_fault_at_each_place(void **state)
{
    (void)state;
    struct queue *q = queue_with_lag();
    struct test_lag t;
    static const struct {
        enum how how;
        int only, code;
        bool broker;
    } cases[] = {
        {CODE, 0, 17, false},      {GARBAGE, 0, 0, false},   {CUT, 0, 0, false},
        {STRANGER, 0, 0, false},   {HUGE_SIZE, 0, 0, false}, {HTTP, 0, 0, false},
        {EMPTY, 0, 0, false},      {SILENT, 0, 0, false},    {CODE, 208, 17, true},
        {CODE, 303, 17, true},     {CODE, 303, 1, true},     {GARBAGE, 208, 0, true},
        {GARBAGE, 303, 0, true},   {CUT, 303, 0, true},      {STRANGER, 208, 0, true},
        {HUGE_SIZE, 303, 0, true}, {HTTP, 208, 0, true},     {EMPTY, 208, 0, true},
        {EMPTY, 303, 0, true},     {SILENT, 303, 0, true},   {CODE, 0, 16, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct remote *r = cases[i].broker ? &brokers[1] : &namesrv;
        r->how = cases[i].how;
        r->only = cases[i].only;
        r->code = cases[i].code;
        t.l.waiting = 99;
        int rc = lag(q, &t);
        if (rc >= 0)
            fail_msg("case %zu: rc %d", i, rc);
        r->how = RIGHT;
        assert_int_equal(lag(q, &t), 0); /* and it heals */
        assert_int_equal(t.l.waiting, 38);
    }
    assert_int_equal(lag(q, &t), 0);
    rocketmq_queue_free(q);
}

static void brokers_that_are_gone(void **state)
{
    (void)state;
    struct queue *q = queue_with_lag();
    struct test_lag t;
    assert_int_equal(lag(q, &t), 0);
    remote_stop(&brokers[1]);
    assert_true(lag(q, &t) < 0); /* one of two is not half an answer */
    snprintf(namesrv.brokers, sizeof namesrv.brokers, "{\"brokerAddrs\":{0:\"127.0.0.1:%d\"}}",
             brokers[0].port);
    assert_int_equal(lag(q, &t), 0); /* it left the cluster */
    assert_int_equal(t.l.waiting, 7);
    snprintf(namesrv.brokers, sizeof namesrv.brokers, "{\"brokerAddrs\":{1:\"127.0.0.1:%d\"}}",
             brokers[0].port);
    assert_int_equal(lag(q, &t), ERR_UNAVAIL); /* no master */
    rocketmq_queue_free(q);
}

/* Idle connections that were closed, slow and wordy peers. */
static void connections(void **state)
{
    (void)state;
    struct queue *q = queue_with_lag();
    struct test_lag t;
    namesrv.closing = 1;
    brokers[0].closing = 6;
    assert_int_equal(lag(q, &t), 0);
    turns(150 * MS);
    assert_int_equal(lag(q, &t), 0);
    assert_int_equal(namesrv.conns, 2);
    assert_int_equal(brokers[0].conns, 2);
    brokers[0].how = BYTEWISE;
    assert_int_equal(lag(q, &t), 0);
    assert_int_equal(t.l.waiting, 38);
    rocketmq_queue_free(q);
}

static void name_servers(void **state)
{
    (void)state;
    /* The first one is dead, the second is silent. */
    struct remote silent;
    remote_start(&silent);
    silent.how = SILENT;
    int dead_port = silent.port;
    struct remote dead;
    remote_start(&dead);
    dead_port = dead.port;
    remote_stop(&dead);
    snprintf(namesrvs, sizeof namesrvs, "127.0.0.1:%d,127.0.0.1:%d,127.0.0.1:%d", dead_port,
             silent.port, namesrv.port);
    struct queue *q = queue_with_lag();
    struct test_lag t;
    assert_int_equal(lag(q, &t), 0);
    assert_int_equal(lag(q, &t), 0);
    assert_int_equal(silent.asked[105], 1); /* the one that answered is kept */
    rocketmq_queue_free(q);
    /* None at all. */
    namesrvs[0] = '\0';
    q = queue_with_lag();
    assert_int_equal(lag(q, &t), ERR_UNAVAIL);
    rocketmq_queue_free(q);
    remote_stop(&silent);
}

static void signed_questions(void **state)
{
    (void)state;
    access_key = "ak";
    struct queue *q = queue_with_lag();
    struct test_lag t;
    assert_int_equal(lag(q, &t), 0);
    assert_true(asks(&namesrv, "\"AccessKey\":\"ak\",\"Signature\":\""));
    assert_true(asks(&brokers[0], "\"AccessKey\":\"ak\",\"Signature\":\""));
    rocketmq_queue_free(q);
    access_key = NULL;
}

static void given_up(void **state)
{
    (void)state;
    struct queue *q = queue_with_lag();
    struct test_lag t, u, v;
    brokers[1].how = SILENT;
    lag_start(q, &t, 200 * MS);
    lag_start(q, &u, 5 * SECONDS);
    UNTIL(L, brokers[1].asked[208] >= 1);
    lag_start(q, &v, 5 * SECONDS);
    q->ops->cancel(q, &u.l.op);
    assert_int_equal(u.ends, 0);
    UNTIL(L, u.ends);
    assert_int_equal(u.rc, ERR_CANCELED);
    UNTIL(L, t.ends);
    assert_int_equal(t.rc, ERR_DEADLINE);
    assert_int_equal(v.ends, 0);
    lag_start(q, &t, 5 * SECONDS);
    rocketmq_queue_free(q); /* in the middle: completes inside */
    assert_int_equal(v.ends, 1);
    assert_true(v.rc < 0);
    assert_int_equal(t.ends, 1);
    assert_true(t.rc < 0);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(sums),        T(one_look_for_all), T(each_fault_at_each_place), T(brokers_that_are_gone),
        T(connections), T(name_servers),     T(signed_questions),         T(given_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
