/* Happy path: dial → write the question → read one frame → on_done → the next. It fails by: no
 * address, no connection, EOF or error, bytes that are no frame, an answer to another question, the
 * deadline. Each closes the connection and fails the question that was under way; those that wait
 * are tried on the next connection, until their own deadline. */
#include "adapter/rocketmq/remoting.h"

#include "adapter/rocketmq/names.h"
#include "base/err.h"
#include "base/panic.h"
#include "base/parse.h"
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum { READ_BYTES = 16 << 10, REQUEST_MAX = 4096, DIAL_US = 2000000 };

struct remoting {
    struct loop *loop;
    char address[160], host[160];
    int port;
    char access_key[RMQ_ACCESS_KEY_MAX + 1], secret_key[RMQ_SECRET_KEY_MAX + 1];
    enum { DOWN, RESOLVING, DIALING, UP } phase;
    struct loop_resolve resolve;
    struct loop_io io;
    int fd;
    struct list waiting; /* remoting_call; the first is under way when asking */
    bool asking, answering;
    uint32_t opaque;
    struct strbuf out, in;
    size_t out_at;
    struct timer timer; /* the first one's deadline, or the dial's */
    struct loop_task pump;
};

static struct remoting_call *first(const struct remoting *r)
{
    return list_empty(&r->waiting) ? NULL
                                   : container_of(r->waiting.next, struct remoting_call, link);
}

static void close_link(struct remoting *r)
{
    if (r->phase == RESOLVING)
        loop_resolve_cancel(r->loop, &r->resolve);
    loop_io_remove(r->loop, &r->io);
    if (r->fd >= 0)
        close(r->fd);
    r->fd = -1;
    r->phase = DOWN;
    strbuf_clear(&r->out);
    strbuf_clear(&r->in);
    r->out_at = 0;
}

static void end(struct remoting *r, int rc, const struct remoting_answer *a)
{
    struct remoting_call *c = first(r);
    r->asking = false;
    if (!c)
        return;
    list_remove(&c->link);
    sched_clear(loop_sched(r->loop), &r->timer);
    r->answering = true;
    c->on_done(c, rc, a);
    r->answering = false;
    if (first(r))
        loop_defer(r->loop, &r->pump);
}

/* An idle connection that the peer closed harms nobody. */
static void lost(struct remoting *r, int rc)
{
    bool busy = r->asking || r->phase != UP;
    close_link(r);
    if (busy)
        end(r, rc, NULL);
}

static void on_timer(struct timer *t)
{
    struct remoting *r = container_of(t, struct remoting, timer);
    const struct remoting_call *c = first(r);
    bool late = c && c->deadline_us <= loop_now_us(r->loop);
    lost(r, late ? ERR_DEADLINE : ERR_UNAVAIL);
}

static void write_out(struct remoting *r)
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
            lost(r, ERR_UNAVAIL);
            return;
        }
        r->out_at += (size_t)n;
    }
    strbuf_clear(&r->out);
    r->out_at = 0;
    loop_io_want(r->loop, &r->io, LOOP_READ);
}

static void ask_next(struct remoting *r)
{
    const struct remoting_call *c = first(r);
    if (!c || r->asking)
        return;
    r->asking = true;
    sched_set(loop_sched(r->loop), &r->timer, c->deadline_us);
    remoting_encode(&r->out, c->code, ++r->opaque, c->fields, c->n, r->access_key, r->secret_key);
    if (r->out.failed) {
        strbuf_clear(&r->out);
        end(r, ERR_INVALID, NULL);
        return;
    }
    write_out(r);
}

/* Everything that is complete. False: the connection is gone. */
static bool take_frames(struct remoting *r)
{
    for (;;) {
        int64_t n = remoting_frame_length(strbuf_str(&r->in), REMOTING_FRAME_MAX);
        struct remoting_answer a;
        if (n == 0 || (n > 0 && (size_t)n > r->in.len))
            return true;
        if (n < 0 || remoting_decode((struct str){r->in.ptr, (size_t)n}, &a) ||
            (a.code >= 0 && (!r->asking || a.opaque != r->opaque))) {
            lost(r, ERR_INTERNAL);
            return false;
        }
        if (a.code >= 0)
            end(r, 0, &a);
        memmove(r->in.ptr, r->in.ptr + n, r->in.len - (size_t)n);
        r->in.len -= (size_t)n;
    }
}

static void on_readable(struct remoting *r)
{
    for (;;) {
        char *dst = strbuf_reserve(&r->in, READ_BYTES);
        if (!dst) {
            lost(r, ERR_INTERNAL);
            return;
        }
        ssize_t n = recv(r->fd, dst, READ_BYTES, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return;
        if (n <= 0) {
            lost(r, ERR_UNAVAIL);
            return;
        }
        strbuf_commit(&r->in, (size_t)n);
        if (!take_frames(r) || n < READ_BYTES)
            return;
    }
}

static void on_ready(struct loop_io *io, int what)
{
    struct remoting *r = container_of(io, struct remoting, io);
    if (r->phase == DIALING) {
        if (loop_connect_error(r->fd)) {
            lost(r, ERR_UNAVAIL);
            return;
        }
        r->phase = UP;
        loop_io_want(r->loop, &r->io, LOOP_READ);
        ask_next(r);
        return;
    }
    int fd = r->fd;
    if (what & LOOP_READ)
        on_readable(r);
    if (what & LOOP_WRITE && r->fd == fd && r->phase == UP)
        write_out(r);
}

static void on_resolved(struct loop_resolve *res, int rc)
{
    struct remoting *r = container_of(res, struct remoting, resolve);
    r->phase = DIALING;
    if (rc) {
        lost(r, ERR_UNAVAIL);
        return;
    }
    int fd = loop_connect(r->loop, &r->io, (const struct sockaddr *)&res->addr, res->addr_len, 0);
    if (fd < 0)
        lost(r, ERR_UNAVAIL);
    else
        r->fd = fd;
}

static void on_pump(struct loop_task *t)
{
    struct remoting *r = container_of(t, struct remoting, pump);
    const struct remoting_call *c = first(r);
    if (!c)
        return;
    if (r->phase == UP) {
        ask_next(r);
    } else if (r->phase == DOWN) {
        int64_t until = loop_now_us(r->loop) + DIAL_US;
        sched_set(loop_sched(r->loop), &r->timer, c->deadline_us < until ? c->deadline_us : until);
        r->phase = RESOLVING;
        loop_resolve_start(r->loop, &r->resolve, r->host, r->port);
    }
}

struct remoting *remoting_new(struct loop *l, const char *address, const char *access_key,
                              const char *secret_key)
{
    struct str host;
    int port;
    if (parse_host_port(str_of(address), &host, &port))
        return NULL;
    struct remoting *r = calloc(1, sizeof *r);
    if (!r)
        return NULL;
    if (!str_copy(r->address, sizeof r->address, str_of(address)) ||
        !str_copy(r->host, sizeof r->host, host) ||
        !str_copy(r->access_key, sizeof r->access_key, str_of(access_key ? access_key : "")) ||
        !str_copy(r->secret_key, sizeof r->secret_key, str_of(secret_key ? secret_key : ""))) {
        free(r);
        return NULL;
    }
    r->loop = l;
    r->port = port;
    r->fd = -1;
    r->io.on_ready = on_ready;
    r->resolve.on_done = on_resolved;
    r->timer.on_fire = on_timer;
    r->pump.on_run = on_pump;
    list_init(&r->pump.link);
    list_init(&r->waiting);
    strbuf_init(&r->out, REQUEST_MAX);
    strbuf_init(&r->in, REMOTING_FRAME_MAX + READ_BYTES);
    return r;
}

void remoting_free(struct remoting *r)
{
    if (!r)
        return;
    if (r->answering)
        panic("remoting_free: inside a callback of its own");
    close_link(r);
    while (first(r))
        end(r, ERR_CANCELED, NULL);
    loop_defer_cancel(&r->pump);
    sched_clear(loop_sched(r->loop), &r->timer);
    strbuf_deinit(&r->out);
    strbuf_deinit(&r->in);
    free(r);
}

void remoting_ask(struct remoting *r, struct remoting_call *c)
{
    list_push_back(&r->waiting, &c->link);
    if (r->phase == UP || r->phase == DOWN)
        loop_defer(r->loop, &r->pump);
}

const char *remoting_address(const struct remoting *r)
{
    return r->address;
}
