/* A connection's life. Happy path: readable → a block is taken, one read → the parser → the handler
 * answers into the out block, again for each pipelined request → one write → nothing is left, both
 * blocks go back. A handler that answers later leaves the blocks where they are; its answer is
 * written at the end of that turn.
 *
 * Other ways: a bad request is answered and the connection closed, lingering; a deadline passes
 * (408 if a request was partly read); the client ends its sending (half-close: it still gets its
 * answers); the client is gone (reset, or the write fails: the handler hears on_gone; server.h
 * says what close() looks like).
 *
 * After whatever happened settle() decides from the state alone: what to wait for, what is due,
 * whether to close. */
#include "adapter/http/conn.h"

#include "adapter/http/conn_answer.h"
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum { LINGER_US = 1000000 };

/* --- the end --- */

static void detach(struct http_conn *c)
{
    struct http_server *s = c->server;
    int fd = c->io.fd;
    loop_io_remove(s->loop, &c->io);
    close(fd);
    sched_clear(loop_sched(s->loop), &c->timer);
    loop_flush_cancel(&c->flush);
    loop_defer_cancel(&c->resume);
    http_out_release(&s->out_pool, &c->out);
    list_remove(&c->link);
    s->n_open--;
    metric_gauge_add(s->metrics.connections, -1);
}

static void bury(struct http_conn *c)
{
    struct http_server *s = c->server;
    if (c->in)
        http_in_release(s, c->in);
    c->in = NULL;
    c->state = HTTP_CONN_DEAD;
    list_push_back(&s->dead,
                   &c->link); /* freed after this turn: a caller may still look at its state */
    loop_defer(s->loop, &s->reap);
}

static void close_now(struct http_conn *c)
{
    struct http_server *s = c->server;
    detach(c);
    bury(c);
    http_server_closed(s);
}

void http_conn_cut(struct http_conn *c)
{
    struct http_server *s = c->server;
    if (!c->active) {
        close_now(c);
        return;
    }
    struct http_exchange *x = &c->in->x;
    detach(c);
    if (x->on_gone) {
        http_exchange_over(c);
        x->on_gone(x);
        bury(c);
    } else {
        c->state = HTTP_CONN_ZOMBIE;
        list_push_back(&s->zombies, &c->link);
    }
    http_server_closed(s);
}

/* The client is. */
static void gone(struct http_conn *c)
{
    if (c->active)
        metric_add(c->server->metrics.canceled, 1);
    http_conn_cut(c);
}

static void set_due(struct http_conn *c, enum http_due due, int64_t at_us)
{
    c->due = (uint8_t)due;
    c->due_us = at_us;
    /* A timer that is armed for earlier stays: it will look again. So a request costs no change of
     * the heap. */
    if (due != HTTP_DUE_NONE && (!c->timer.slot || c->timer.at_us > at_us))
        sched_set(loop_sched(c->server->loop), &c->timer, at_us);
}

/* All is said and written. */
static void begin_linger(struct http_conn *c)
{
    if (c->ended || shutdown(c->io.fd, SHUT_WR)) {
        close_now(c);
        return;
    }
    c->state = HTTP_CONN_LINGER;
    if (c->in)
        http_in_release(c->server, c->in);
    c->in = NULL;
    loop_io_want(c->server->loop, &c->io, LOOP_READ);
    set_due(c, HTTP_DUE_LINGER, loop_now_us(c->server->loop) + LINGER_US);
}

static void linger(struct http_conn *c)
{
    char drop[4096];
    for (int i = 0; i < 16; i++) {
        ssize_t n = recv(c->io.fd, drop, sizeof drop, 0);
        if (n > 0)
            continue;
        if (n == 0 || (errno != EAGAIN && errno != EINTR))
            close_now(c);
        return;
    }
}

/* --- what comes next --- */

static void settle_due(struct http_conn *c)
{
    const struct http_limits *lim = &c->server->limits;
    const struct http_in *in = c->in;
    if (c->blocked) {
        set_due(c, HTTP_DUE_WRITE, c->writing_us + lim->write_us);
    } else if (c->active || c->out || !list_empty(&c->resume.link)) {
        set_due(c, HTTP_DUE_NONE, 0);
    } else if (!in) {
        int64_t at = c->idle_us + lim->idle_us;
        if (c->server->draining && at > c->server->drain_idle_us)
            at = c->server->drain_idle_us;
        set_due(c, HTTP_DUE_IDLE, at);
    } else if (in->request.phase == HTTP_PHASE_HEAD && lim->header_us < lim->read_us) {
        set_due(c, HTTP_DUE_HEADER, c->begun_us + lim->header_us);
    } else {
        set_due(c, HTTP_DUE_BODY, c->begun_us + lim->read_us);
    }
}

static void settle(struct http_conn *c)
{
    struct http_server *s = c->server;
    if (c->state != HTTP_CONN_OPEN)
        return;
    struct http_in *in = c->in;
    if (in && !c->active && in->start == in->len) {
        http_in_release(s, in);
        c->in = in = NULL;
    }
    bool resuming = !list_empty(&c->resume.link);
    if (!c->out && !c->active && !resuming && (c->closing || c->ended)) {
        begin_linger(c);
        return;
    }
    int want = c->blocked ? LOOP_WRITE : 0;
    if (!c->ended && !c->closing && !c->blocked && (!in || in->len < s->in_cap))
        want |= LOOP_READ;
    loop_io_want(s->loop, &c->io, want ? want : LOOP_HANGUP);
    settle_due(c);
}

/* --- writing --- */

static void write_out(struct http_conn *c)
{
    struct http_server *s = c->server;
    struct http_out *o = c->out;
    if (!o)
        return;
    ssize_t n = send(c->io.fd, o->bytes + o->sent, o->len - o->sent, MSG_NOSIGNAL);
    if (n < 0 && errno != EAGAIN && errno != EINTR) {
        gone(c);
        return;
    }
    o->sent += n > 0 ? (uint32_t)n : 0;
    if (o->sent < o->len) {
        if (!c->blocked)
            c->writing_us = loop_now_us(s->loop);
        c->blocked = true;
        return;
    }
    http_out_release(&s->out_pool, &c->out);
    c->blocked = false;
    if (c->stalled) {
        c->stalled = false;
        loop_defer(s->loop, &c->resume);
    }
}

/* --- reading --- */

static void read_in(struct http_conn *c)
{
    struct http_server *s = c->server;
    if (!c->in && !(c->in = http_in_take(s))) {
        http_conn_cut(c);
        return;
    }
    struct http_in *in = c->in;
    in->conn = c;
    if (in->len == s->in_cap)
        return;
    ssize_t n = recv(c->io.fd, in->bytes + in->len, s->in_cap - in->len, 0);
    if (n > 0) {
        in->len += (uint32_t)n;
        c->read_us = loop_now_us(s->loop);
    } else if (n == 0) {
        c->ended = true;
    } else if (errno != EAGAIN && errno != EINTR) {
        gone(c);
    }
}

static void keep_partial(struct http_in *in)
{
    if (in->start == 0)
        return;
    memmove(in->bytes, in->bytes + in->start, in->len - in->start);
    in->len -= in->start;
    in->start = 0;
}

static bool may_begin(struct http_conn *c)
{
    if (c->state != HTTP_CONN_OPEN || !c->in || c->active || c->closing ||
        c->in->start == c->in->len)
        return false;
    if (c->blocked || (c->out && c->out->len - c->out->sent > HTTP_OUT_HIGH))
        c->stalled = true;
    return !c->stalled;
}

static void process(struct http_conn *c)
{
    struct http_server *s = c->server;
    while (may_begin(c)) {
        struct http_in *in = c->in;
        size_t n = in->len - in->start;
        if (!c->begun_us) {
            c->begun_us = loop_now_us(s->loop);
            in->received_us = c->read_us;
        }
        enum http_request_result got = http_request_feed(&in->request, in->bytes + in->start, &n);
        in->len = in->start + (uint32_t)n;
        if (got == HTTP_REQUEST_COMPLETE) {
            http_exchange_begin(c);
        } else if (got == HTTP_REQUEST_REFUSED) {
            metric_add(s->metrics.malformed, 1);
            http_exchange_refuse(c, in->request.refusal);
        } else {
            keep_partial(in);
            if (in->request.expects_continue) {
                in->request.expects_continue = false;
                http_exchange_continue(c);
            }
            return;
        }
    }
}

/* --- callbacks --- */

static void on_ready(struct loop_io *io, int what)
{
    struct http_conn *c = container_of(io, struct http_conn, io);
    if (c->state == HTTP_CONN_LINGER) {
        linger(c);
        return;
    }
    if (what & LOOP_HANGUP) {
        gone(c);
        return;
    }
    c->in_callback = true;
    if (what & LOOP_WRITE && c->blocked)
        write_out(c);
    if (what & LOOP_READ && c->state == HTTP_CONN_OPEN) {
        read_in(c);
        process(c);
    }
    c->in_callback = false;
    if (c->state == HTTP_CONN_OPEN && !c->blocked)
        write_out(c);
    settle(c);
}

static void on_flush(struct loop_flush *f)
{
    struct http_conn *c = container_of(f, struct http_conn, flush);
    if (!c->blocked)
        write_out(c);
    settle(c);
}

static void on_resume(struct loop_task *t)
{
    struct http_conn *c = container_of(t, struct http_conn, resume);
    c->in_callback = true;
    process(c);
    c->in_callback = false;
    if (c->state == HTTP_CONN_OPEN && !c->blocked)
        write_out(c);
    settle(c);
}

static void on_due(struct timer *t)
{
    struct http_conn *c = container_of(t, struct http_conn, timer);
    struct http_server *s = c->server;
    if (c->due == HTTP_DUE_NONE)
        return;
    if (loop_now_us(s->loop) < c->due_us) {
        sched_set(loop_sched(s->loop), &c->timer, c->due_us);
        return;
    }
    metric_add(s->metrics.deadlines[c->due], 1);
    switch ((enum http_due)c->due) {
    case HTTP_DUE_HEADER:
    case HTTP_DUE_BODY:
        http_exchange_refuse(c, ANSWER_REQUEST_TIMEOUT);
        break;
    case HTTP_DUE_IDLE:
        begin_linger(c);
        break;
    case HTTP_DUE_WRITE: {
        /* It does not read: what is unwritten is thrown away, also by the kernel. */
        struct linger reset = {.l_onoff = 1};
        setsockopt(c->io.fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
        http_conn_cut(c);
        break;
    }
    default:
        close_now(c);
    }
}

bool http_conn_new(struct http_server *s, int fd)
{
    struct http_conn *c = calloc(1, sizeof *c);
    if (!c) {
        close(fd);
        return false;
    }
    c->server = s;
    c->io.on_ready = on_ready;
    c->timer.on_fire = on_due;
    c->flush.on_flush = on_flush;
    c->resume.on_run = on_resume;
    list_init(&c->flush.link);
    list_init(&c->resume.link);
    if (loop_io_add(s->loop, &c->io, fd, LOOP_READ)) {
        close(fd);
        free(c);
        return false;
    }
    list_push_back(&s->open, &c->link);
    s->n_open++;
    metric_gauge_add(s->metrics.connections, 1);
    c->idle_us = loop_now_us(s->loop);
    settle_due(c);
    return true;
}

void http_conn_drain(struct http_conn *c)
{
    settle(c);
}

void http_conn_release_zombie(struct http_conn *c)
{
    if (!c->server) {
        free(c->in);
        free(c);
        return;
    }
    list_remove(&c->link);
    bury(c);
}
