/* The connection itself. Happy path: dial → AUTH, SELECT, TIME → up: calls flow. Behind sentinels
 * one of them is dialled first, and asked for the master's address; what is found there has to say
 * that it is one (ROLE), at the start and every stall_us. It fails by: no address, no connect
 * within dial_us, a greeting that is refused, EOF or error, bytes that are not RESP, no reply for
 * stall_us, not the master (any more). Each of these closes it; the next is tried after a wait with
 * full jitter, at the next of the addresses. */
#include "adapter/redis/internal.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/parse.h"
#include "core/retry.h"
#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* Up for so long: the next failure starts a new series of waits. */
enum { STEADY_US = 1000000, READ_BYTES = 64 << 10, READS_PER_TURN = 4 };

static void dial(struct redis_conn *r);
static void resolve(struct redis_conn *r, const struct redis_address *to);

static void on_dial_timer(struct timer *t)
{
    struct redis_conn *r = container_of(t, struct redis_conn, dial_timer);
    if (r->phase == LINK_DOWN)
        dial(r);
    else
        link_fail(r, "not up in time");
}

static void close_link(struct redis_conn *r)
{
    sched_clear(loop_sched(r->loop), &r->dial_timer);
    sched_clear(loop_sched(r->loop), &r->stall_timer);
    if (r->phase == LINK_RESOLVING)
        loop_resolve_cancel(r->loop, &r->resolve);
    loop_io_remove(r->loop, &r->io);
    if (r->fd >= 0)
        close(r->fd);
    r->fd = -1;
    r->leaving = false;
    reply_reader_deinit(&r->reader);
    bool was_up = r->phase == LINK_UP;
    r->phase = LINK_DOWN;
    if (was_up)
        metric_gauge_add(r->metrics.active, -1);
}

void link_stop(struct redis_conn *r)
{
    close_link(r);
}

void link_fail(struct redis_conn *r, const char *why)
{
    int64_t now = loop_now_us(r->loop);
    bool was_up = r->phase == LINK_UP;
    if (was_up && now - r->up_us > STEADY_US)
        r->attempt = 0;
    close_link(r);
    if (!r->failed_before)
        log_warn("redis connection lost", LOG_Z("link", r->metrics.link), LOG_Z("error", why));
    r->failed_before = true;
    metric_add(r->metrics.reconnects, 1);
    pipeline_lost(r);
    r->turn++;
    int64_t wait =
        retry_delay_us(&r->rng, r->config.backoff_min_us, r->config.backoff_max_us, r->attempt);
    if (r->attempt < 16)
        r->attempt++;
    sched_set_in(loop_sched(r->loop), &r->dial_timer, wait);
    if (was_up && r->on_link)
        r->on_link(r, false);
}

/* --- bytes --- */

void link_write(struct redis_conn *r)
{
    while (r->out_at < r->out.len) {
        ssize_t n = send(r->fd, r->out.ptr + r->out_at, r->out.len - r->out_at, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            loop_io_want(r->loop, &r->io, LOOP_READ | LOOP_WRITE);
            return;
        }
        if (n < 0) {
            link_fail(r, strerror(errno));
            return;
        }
        r->out_at += (size_t)n;
        r->written += (uint64_t)n;
    }
    strbuf_clear(&r->out);
    r->out_at = 0;
    loop_io_want(r->loop, &r->io, LOOP_READ);
}

/* False: the link was given up. */
static bool take_replies(struct redis_conn *r)
{
    int fd = r->fd;
    for (;;) {
        struct redis_reply *reply;
        if (reply_reader_get(&r->reader, &reply)) {
            link_fail(r, "not RESP, or too large");
            return false;
        }
        if (!reply)
            return true;
        pipeline_reply(r, reply);
        if (r->fd != fd || r->phase < LINK_GREETING)
            return false;
        reply_reader_next(&r->reader);
    }
}

static void on_readable(struct redis_conn *r)
{
    char buf[READ_BYTES];
    for (int i = 0; i < READS_PER_TURN; i++) {
        ssize_t n = recv(r->fd, buf, sizeof buf, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return;
        if (n <= 0) {
            link_fail(r, n < 0 ? strerror(errno) : "closed by Redis");
            return;
        }
        r->heard_us = clock_mono_us(); /* rule 15: after the read, a turn may be long */
        if (reply_reader_feed(&r->reader, buf, (size_t)n)) {
            link_fail(r, "too large");
            return;
        }
        if (!take_replies(r) || (size_t)n < sizeof buf)
            return;
    }
}

static void ask_role(struct redis_conn *r)
{
    struct str words[] = {STR("ROLE")};
    pipeline_words(r, SLOT_ROLE, words, 1);
}

static void on_stall_timer(struct timer *t)
{
    struct redis_conn *r = container_of(t, struct redis_conn, stall_timer);
    int64_t now = loop_now_us(r->loop);
    int64_t since = pipeline_owed(r) ? r->heard_us : now;
    if (now - since >= r->config.stall_us) {
        link_fail(r, "no reply any more");
        return;
    }
    sched_set(loop_sched(r->loop), t, since + r->config.stall_us);
    if (r->url.topology == REDIS_SENTINEL && !r->on_push) {
        ask_role(r);
        link_write(r);
    }
}

/* --- greeting --- */

static void ask_master(struct redis_conn *r)
{
    struct str words[] = {STR("SENTINEL"), STR("GET-MASTER-ADDR-BY-NAME"), str_of(r->url.master)};
    pipeline_words(r, SLOT_MASTER, words, 3);
    link_write(r);
}

static void greet(struct redis_conn *r)
{
    r->phase = LINK_GREETING;
    if (r->asking) {
        ask_master(r);
        return;
    }
    struct str auth[3] = {STR("AUTH")};
    int n = 1;
    if (r->url.user[0])
        auth[n++] = str_of(r->url.user);
    if (r->url.password[0]) {
        auth[n++] = str_of(r->url.password);
        pipeline_words(r, SLOT_GREETING, auth, n);
    }
    if (r->url.db > 0) {
        char digits[20];
        struct str words[] = {STR("SELECT"), {digits, str_from_i64(digits, r->url.db)}};
        pipeline_words(r, SLOT_GREETING, words, 2);
    }
    if (r->url.topology == REDIS_SENTINEL)
        ask_role(r);
    struct str words[] = {STR("TIME")};
    pipeline_words(r, SLOT_TIME, words, 1);
    link_write(r);
}

static bool time_of(const struct redis_reply *reply, int64_t *us)
{
    int64_t sec, usec;
    if (reply->type != REDIS_ARRAY || reply->n != 2 ||
        parse_i64(reply->items[0]->s, 0, INT64_MAX / 2000000, &sec) ||
        parse_i64(reply->items[1]->s, 0, 999999, &usec))
        return false;
    *us = sec * 1000000 + usec;
    return true;
}

/* From the sentinel to the master, within the same dial_us. */
static void take_master(struct redis_conn *r, const struct redis_reply *reply)
{
    struct redis_address master;
    int64_t port;
    if (reply->type != REDIS_ARRAY || reply->n != 2 ||
        !str_copy(master.host, sizeof master.host, reply->items[0]->s) ||
        parse_i64(reply->items[1]->s, 1, 65535, &port)) {
        link_fail(r, "the sentinel knows no such master");
        return;
    }
    master.port = (int)port;
    int64_t until = r->dial_timer.at_us;
    close_link(r);
    pipeline_lost(r);
    r->asking = false;
    sched_set(loop_sched(r->loop), &r->dial_timer, until);
    resolve(r, &master);
}

static void take_role(struct redis_conn *r, const struct redis_reply *reply)
{
    if (reply->type == REDIS_ARRAY && reply->n && str_eq(reply->items[0]->s, STR("master")))
        return;
    if (r->phase == LINK_UP)
        link_leave(r);
    else
        link_fail(r, "not the master");
}

void link_leave(struct redis_conn *r)
{
    r->leaving = true;
}

void link_greeted(struct redis_conn *r, const struct slot *s, const struct redis_reply *reply)
{
    if (reply->type == REDIS_ERROR) {
        char why[160];
        str_copy(why, sizeof why, reply->s);
        link_fail(r, why);
        return;
    }
    if (s->kind == SLOT_MASTER)
        take_master(r, reply);
    if (s->kind == SLOT_ROLE)
        take_role(r, reply);
    if (s->kind != SLOT_TIME)
        return;
    int64_t us;
    if (!time_of(reply, &us)) {
        link_fail(r, "TIME makes no sense");
        return;
    }
    redis_time_init(&r->time);
    redis_time_sample(&r->time, us, s->sent_us, r->heard_us);
    static _Atomic uint64_t connections;
    r->connection = ++connections;
    r->phase = LINK_UP;
    r->up_us = loop_now_us(r->loop);
    sched_clear(loop_sched(r->loop), &r->dial_timer);
    metric_gauge_add(r->metrics.active, 1);
    if (r->failed_before)
        log_info("redis connection up", LOG_Z("link", r->metrics.link));
    r->failed_before = false;
    sched_set_in(loop_sched(r->loop), &r->stall_timer, r->config.stall_us);
    if (r->on_link)
        r->on_link(r, true);
    pipeline_up(r);
}

/* --- dialing --- */

static void on_ready(struct loop_io *io, int what)
{
    struct redis_conn *r = container_of(io, struct redis_conn, io);
    if (r->phase == LINK_DIALING) {
        int err = loop_connect_error(r->fd);
        if (err)
            link_fail(r, strerror(err));
        else
            greet(r);
        return;
    }
    int fd = r->fd;
    r->reading = true;
    if (what & LOOP_READ)
        on_readable(r);
    r->reading = false;
    if (what & LOOP_WRITE && r->fd == fd && r->phase >= LINK_GREETING) {
        link_write(r);
        if (r->phase == LINK_UP && !list_empty(&r->waiting))
            loop_flush_later(r->loop, &r->flush);
    }
}

static void connect_to(struct redis_conn *r, const struct sockaddr *addr, socklen_t len)
{
    r->phase = LINK_DIALING;
    if (reply_reader_init(&r->reader)) {
        link_fail(r, "no memory");
        return;
    }
    r->io.on_ready = on_ready;
    int fd = loop_connect(r->loop, &r->io, addr, len, 0);
    if (fd < 0)
        link_fail(r, strerror(-fd));
    else
        r->fd = fd;
}

static void on_resolved(struct loop_resolve *res, int rc)
{
    struct redis_conn *r = container_of(res, struct redis_conn, resolve);
    r->phase = LINK_DIALING;
    if (rc)
        link_fail(r, "no such host");
    else
        connect_to(r, (const struct sockaddr *)&res->addr, res->addr_len);
}

static void resolve(struct redis_conn *r, const struct redis_address *to)
{
    r->phase = LINK_RESOLVING;
    r->resolve.on_done = on_resolved;
    loop_resolve_start(r->loop, &r->resolve, to->host, to->port);
}

static void dial(struct redis_conn *r)
{
    sched_set(loop_sched(r->loop), &r->dial_timer, clock_mono_us() + r->config.dial_us);
    if (r->url.path[0]) {
        struct sockaddr_un un = {.sun_family = AF_UNIX};
        str_copy(un.sun_path, sizeof un.sun_path, str_of(r->url.path));
        connect_to(r, (const struct sockaddr *)&un, sizeof un);
        return;
    }
    r->asking = r->url.topology == REDIS_SENTINEL;
    resolve(r, &r->url.at[r->turn % (unsigned)r->url.n]);
}

void link_start(struct redis_conn *r)
{
    r->fd = -1;
    r->dial_timer.on_fire = on_dial_timer;
    r->stall_timer.on_fire = on_stall_timer;
    sched_set_in(loop_sched(r->loop), &r->dial_timer, 0);
}
