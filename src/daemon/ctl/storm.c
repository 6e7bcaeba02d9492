#include "daemon/ctl/storm.h"

#include "base/clock.h"
#include "base/err.h"
#include "daemon/ctl/storm_answer.h"
#include "daemon/ctl/storm_follow.h"
#include "daemon/ctl/storm_later.h"
#include <stdio.h>
#include <stdlib.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define SOON_US (INT64_C(50) * 1000)
#define ABSENT_MIN_US (INT64_C(20) * 1000)
#define ABSENT_MAX_US (INT64_C(1000) * 1000)
#define RETRY_AFTER_MAX_US (INT64_C(1000) * 1000)
#define TOKEN_TTL_S 86400
#define HEAD_MAX 512
#define TAIL_MAX 384

struct slot {
    struct storm *s;
    struct http_client *client;
    struct http_call call;
    struct slot *next_free;
    int64_t j;
    int try;
    int64_t due_us; /* when this try should have been sent */
    struct uuid key;
    char request[HEAD_MAX + TOKEN_MAX + TAIL_MAX];
};

struct storm {
    struct storm_config c;
    struct storm_totals totals;
    struct slot *slots, *free;
    int busy;
    int64_t requests, next;             /* fresh ones: all, and the next */
    int64_t start_us, heard_us;         /* heard: the last answer, or the start */
    int64_t absent_us, absent_until_us; /* nobody listens: how long is waited, and until when */
    struct later_queue soon, after;     /* without and with a Retry-After */
    struct timer timer;
    struct loop_io exact;  /* with a rate: a timerfd, since the loop's timers are up to 2 ms late,
                              which would count as latency */
    struct follow *follow; /* NULL: nobody asks for states */
    bool stopping, ended;
    void (*on_end)(struct storm *s, void *arg);
    void *arg;
    size_t head_len;
    char tail[TAIL_MAX]; /* with a place for the key */
    size_t tail_len, tail_key;
};

/* --- later --- */

static bool later_room(const struct storm *s)
{
    /* One more for each try under way: all of them may have to wait. */
    uint32_t n = s->soon.n > s->after.n ? s->soon.n : s->after.n;
    return n + (uint32_t)s->busy < LATER_ROOM;
}

/* --- sending --- */

static int64_t fresh_due_us(const struct storm *s, int64_t now_us)
{
    if (s->stopping || s->next == s->requests)
        return INT64_MAX;
    if (s->c.rate == 0)
        return now_us;
    /* In two steps: requests × 10⁶ may be more than 63 bits would like. */
    return s->start_us + s->next / s->c.rate * 1000000 + s->next % s->c.rate * 1000000 / s->c.rate;
}

static void note(struct storm *s, const struct slot *k, enum history_type type,
                 const struct storm_answer *a, int status)
{
    if (!s->c.history)
        return;
    struct history_event e = {.type = type,
                              .t_us = loop_wall_us(s->c.loop),
                              .user = storm_user(&s->c, k->j),
                              .key = k->key,
                              .item = s->c.item,
                              .status = status};
    if (a) {
        e.code = str_of(answer_info(a->answer)->code);
        e.order_id = a->order_id;
        e.has_reservation = a->has_reservation;
        e.reservation_id = a->reservation_id;
    }
    history_add(s->c.history, &e);
}

static bool begin(struct storm *s, int64_t j, int try, int64_t due_us)
{
    struct slot *k = s->free;
    int64_t now_us = loop_now_us(s->c.loop);
    char *at = k->request + s->head_len;
    int len = token_mint(s->c.mint, storm_user(&s->c, j), loop_wall_us(s->c.loop) / 1000000,
                         TOKEN_TTL_S, at, TOKEN_MAX);
    if (len < 0)
        return false;
    s->free = k->next_free;
    s->busy++;
    k->j = j;
    k->try = try;
    k->due_us = due_us;
    k->key = storm_key(&s->c, j);
    memcpy(at + len, s->tail, s->tail_len);
    uuid_format(&k->key, at + len + s->tail_key);
    k->call.request = (struct str){k->request, s->head_len + (size_t)len + s->tail_len};
    k->call.op.deadline_us = now_us + s->c.timeout_us;
    s->totals.sent++;
    if (!s->totals.first_send_us)
        s->totals.first_send_us = clock_mono_us();
    note(s, k, HISTORY_INVOKE, NULL, 0);
    http_client_send(k->client, &k->call);
    return true;
}

static void end(struct storm *s)
{
    if (s->ended)
        return;
    s->ended = true;
    sched_clear(loop_sched(s->c.loop), &s->timer);
    s->on_end(s, s->arg);
}

static void wake_at(struct storm *s, int64_t at_us)
{
    if (s->exact.impl) {
        struct itimerspec at = {
            .it_value = {.tv_sec = at_us / 1000000, .tv_nsec = at_us % 1000000 * 1000}};
        if (timerfd_settime(s->exact.fd, TFD_TIMER_ABSTIME, &at, NULL) == 0)
            return;
    }
    sched_set(loop_sched(s->c.loop), &s->timer, at_us);
}

static void on_absent(struct storm *s, int64_t now_us)
{
    if (now_us < s->absent_until_us)
        return; /* another connection met the same */
    int64_t twice = s->absent_us * 2;
    s->absent_us = twice < ABSENT_MIN_US   ? ABSENT_MIN_US
                   : twice > ABSENT_MAX_US ? ABSENT_MAX_US
                                           : twice;
    s->absent_until_us = now_us + s->absent_us;
}

/* Sends whatever is due and has a slot; sets the timer for what is not. Never leaves both a free
 * slot and something due. */
static void pump(struct storm *s)
{
    int64_t now_us = loop_now_us(s->c.loop), fresh = INT64_MAX;
    if (s->ended)
        return;
    int64_t heard_us = follow_heard_us(s->follow);
    heard_us = heard_us > s->heard_us ? heard_us : s->heard_us;
    if (now_us - heard_us >= s->c.silence_us)
        s->stopping = s->totals.gave_up = true;
    if (now_us - s->start_us >= s->c.limit_us)
        s->stopping = true;
    bool absent = now_us < s->absent_until_us;
    while (s->free && !s->stopping && !absent) {
        struct later l;
        if (later_pop(&s->after, now_us, &l) || later_pop(&s->soon, now_us, &l)) {
            s->stopping |= !begin(s, l.j, l.try, l.due_us);
            continue;
        }
        fresh = later_room(s) ? fresh_due_us(s, now_us) : INT64_MAX;
        if (fresh > now_us)
            break;
        s->stopping |= !begin(s, s->next++, 0, fresh);
    }
    bool left = !s->stopping && (s->next < s->requests || s->soon.n || s->after.n);
    if (s->stopping)
        follow_stop(s->follow);
    if (!left && s->busy == 0 && follow_over(s->follow)) {
        end(s);
        return;
    }
    int64_t at_us = s->start_us + s->c.limit_us, silent_us = heard_us + s->c.silence_us;
    at_us = silent_us < at_us ? silent_us : at_us;
    if (absent) {
        at_us = s->absent_until_us < at_us ? s->absent_until_us : at_us;
    } else if (s->free && !s->stopping) {
        int64_t a = later_due_us(&s->soon), b = later_due_us(&s->after);
        at_us = fresh < at_us ? fresh : at_us;
        at_us = a < at_us ? a : at_us;
        at_us = b < at_us ? b : at_us;
    }
    if (s->stopping)
        sched_clear(loop_sched(s->c.loop), &s->timer);
    else
        wake_at(s, at_us);
}

static void on_exact(struct loop_io *io, int what)
{
    uint64_t fired;
    (void)what;
    if (read(io->fd, &fired, sizeof(fired)) == (ssize_t)sizeof(fired))
        pump(container_of(io, struct storm, exact));
}

static void on_timer(struct timer *t)
{
    pump(container_of(t, struct storm, timer));
}

static void on_followed(void *arg)
{
    pump(arg);
}

/* --- answers --- */

/* Where a try goes on: the queue, or NULL when this is the end. */
static struct later_queue *later_of(struct storm *s, const struct slot *k, int rc,
                                    const struct storm_answer *a)
{
    if (k->try + 1 >= STORM_TRIES)
        return NULL;
    if (rc != 0)
        return &s->soon;
    int status = answer_info(a->answer)->status;
    if (status != 429 && status != 503 && status != 504)
        return NULL;
    return k->call.retry_after_s > 0 ? &s->after : &s->soon;
}

static void count(struct storm_outcomes *o, int rc, bool malformed, const struct storm_answer *a)
{
    if (malformed)
        o->malformed++;
    else if (rc == 0)
        o->answers[a->answer]++;
    else if (rc == ERR_UNCERTAIN)
        o->unknown++;
    else
        o->unsent++;
}

static void count_answer(struct storm_totals *t, const struct slot *k, const struct storm_answer *a,
                         bool malformed)
{
    int64_t now_us = k->call.answered_us, took_us = now_us - k->due_us;
    t->answered++;
    t->last_answer_us = now_us;
    latency_add(&t->all, took_us);
    if (malformed)
        return;
    if (storm_answer_says(a->answer) == STORM_ACCEPTED) {
        latency_add(&t->accepted, took_us);
        t->last_accept_us = now_us;
        if (!t->first_accept_us)
            t->first_accept_us = now_us;
    } else if (a->answer == ANSWER_SOLD_OUT && !t->first_sold_out_us) {
        t->first_sold_out_us = now_us;
    }
}

static void on_answered(struct op *op, int rc)
{
    struct http_call *call = container_of(op, struct http_call, op);
    struct slot *k = container_of(call, struct slot, call);
    struct storm *s = k->s;
    struct storm_totals *t = &s->totals;
    struct storm_answer a = {0};
    const char *why = NULL;
    bool malformed = rc == 0 && storm_answer_read(call->status, call->body, &k->key, &a, &why) < 0;
    if (rc == 0 && !malformed && call->status == 202 && s->follow)
        malformed = !follow_add(s->follow, k->j, call->location, &why);
    if (malformed && !t->malformed_why) {
        t->malformed_status = call->status;
        t->malformed_why = why;
    }
    if (rc == 0)
        count_answer(t, k, &a, malformed);
    count(&t->tries, rc, malformed, &a);
    /* Not sent is the one failure that is certain. */
    enum history_type type = rc == ERR_UNAVAIL                               ? HISTORY_FAIL
                             : rc != 0 || malformed                          ? HISTORY_UNKNOWN
                             : storm_answer_says(a.answer) == STORM_ACCEPTED ? HISTORY_OK
                             : storm_answer_says(a.answer) == STORM_UNSAID   ? HISTORY_UNKNOWN
                                                                             : HISTORY_FAIL;
    note(s, k, type, rc == 0 && !malformed ? &a : NULL, rc == 0 ? call->status : 0);

    int64_t now_us = loop_now_us(s->c.loop);
    if (rc == 0) {
        s->heard_us = now_us;
        s->absent_us = s->absent_until_us = 0;
    }
    struct later_queue *q = malformed || s->stopping ? NULL : later_of(s, k, rc, &a);
    if (rc == ERR_UNAVAIL && !s->stopping) {
        on_absent(s, now_us);
        later_push(&s->soon, k->j, k->try, now_us);
    } else if (q) {
        t->retries++;
        later_push(q, k->j, k->try + 1, now_us);
    } else {
        t->done++;
        count(&t->ends, rc, malformed, &a);
    }
    s->busy--;
    k->next_free = s->free;
    s->free = k;
    pump(s);
}

/* --- life --- */

static bool make_texts(struct storm *s)
{
    static const char key[] = "00000000-0000-0000-0000-000000000000";
    char body[96], head[HEAD_MAX];
    int body_len = snprintf(body, sizeof(body), "{\"activity_id\":%lld,\"sku_id\":%lld}",
                            (long long)s->c.item.activity_id, (long long)s->c.item.sku_id);
    const char *host = s->c.host_port[0] == '/' ? "localhost" : s->c.host_port;
    int head_len = snprintf(head, sizeof(head),
                            "POST /v1/orders HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer ", host);
    int tail_len = snprintf(s->tail, sizeof(s->tail),
                            "\r\nIdempotency-Key: %s\r\nContent-Type: application/json\r\n"
                            "Content-Length: %d\r\n\r\n%s",
                            key, body_len, body);
    if (head_len >= HEAD_MAX || tail_len >= TAIL_MAX)
        return false;
    s->head_len = (size_t)head_len;
    s->tail_len = (size_t)tail_len;
    s->tail_key = (size_t)(strstr(s->tail, key) - s->tail);
    for (int i = 0; i < s->c.connections; i++)
        memcpy(s->slots[i].request, head, s->head_len);
    return true;
}

struct storm *storm_new(const struct storm_config *c)
{
    struct storm *s = calloc(1, sizeof(*s));
    if (!s)
        return NULL;
    s->c = *c;
    s->requests = c->buyers * c->clicks;
    s->timer.on_fire = on_timer;
    s->exact.on_ready = on_exact;
    int fd = c->rate ? timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC) : -1;
    if (fd >= 0 && loop_io_add(c->loop, &s->exact, fd, LOOP_READ) != 0)
        close(fd);
    s->soon.delay_us = SOON_US;
    s->after.delay_us = RETRY_AFTER_MAX_US;
    s->soon.ring = calloc(LATER_ROOM, sizeof(struct later));
    s->after.ring = calloc(LATER_ROOM, sizeof(struct later));
    s->slots = calloc((size_t)c->connections, sizeof(struct slot));
    bool ok = s->soon.ring && s->after.ring && s->slots && make_texts(s);
    for (int i = c->connections - 1; ok && i >= 0; i--) {
        struct slot *k = &s->slots[i];
        k->s = s;
        k->call.op.on_done = on_answered;
        k->client = http_client_new(c->loop, c->host_port);
        k->next_free = s->free;
        s->free = k;
        ok = k->client != NULL;
    }
    if (ok && c->query)
        ok = (s->follow = follow_new(c, on_followed, s)) != NULL;
    if (ok)
        return s;
    s->ended = true;
    storm_free(s);
    return NULL;
}

void storm_start(struct storm *s, void (*on_end)(struct storm *s, void *arg), void *arg)
{
    s->on_end = on_end;
    s->arg = arg;
    s->start_us = s->heard_us = clock_mono_us();
    sched_set(loop_sched(s->c.loop), &s->timer, s->start_us);
}

void storm_stop(struct storm *s)
{
    if (s->ended)
        return;
    s->stopping = true;
    sched_set(loop_sched(s->c.loop), &s->timer, loop_now_us(s->c.loop)); /* never inside */
}

const struct storm_totals *storm_totals(struct storm *s)
{
    follow_totals(s->follow, &s->totals.states);
    return &s->totals;
}

static void on_cut_done(struct timer *t)
{
    struct storm *s = container_of(t, struct storm, timer);
    if (s->busy + follow_busy(s->follow) > 0)
        sched_set(loop_sched(s->c.loop), t, loop_now_us(s->c.loop));
    else
        loop_stop(s->c.loop);
}

void storm_free(struct storm *s)
{
    s->ended = s->stopping = true;
    sched_clear(loop_sched(s->c.loop), &s->timer);
    for (int i = 0; s->slots && i < s->c.connections; i++) {
        if (s->slots[i].client)
            http_client_free(s->slots[i].client);
    }
    follow_cut(s->follow);
    /* What was under way completes on the loop. */
    s->timer.on_fire = on_cut_done;
    while (s->busy + follow_busy(s->follow) > 0) {
        sched_set(loop_sched(s->c.loop), &s->timer, clock_mono_us());
        loop_run(s->c.loop);
    }
    sched_clear(loop_sched(s->c.loop), &s->timer);
    if (s->exact.impl) {
        loop_io_remove(s->c.loop, &s->exact);
        close(s->exact.fd);
    }
    follow_free(s->follow);
    free(s->soon.ring);
    free(s->after.ring);
    free(s->slots);
    free(s);
}
