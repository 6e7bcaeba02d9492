/* Idle → (resolve → connect →) send → read the answer → idle again. It fails as "not sent" as long
 * as no byte was written, as "uncertain" after that; a failed or late call costs the connection, so
 * that no answer meets another call. */
#include "adapter/http/client.h"

#include "base/err.h"
#include "base/panic.h"
#include "base/parse.h"
#include <errno.h>
#include <limits.h>
#include <llhttp.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum state { CLOSED, RESOLVING, CONNECTING, READY };

struct http_client {
    struct loop *loop;
    struct loop_io io;
    struct loop_resolve resolve;
    struct timer timer;
    struct http_call *call; /* under way */
    size_t sent;
    enum state state;
    int port;
    char host[256];
    llhttp_t parser;
    bool complete, keep, failing;
    /* The header that is being read: it may come in pieces. What does not fit is none of ours. */
    char name[16], value[HTTP_CLIENT_VALUE_MAX];
    size_t name_len, value_len;
    char location[HTTP_CLIENT_VALUE_MAX];
    size_t location_len;
    size_t body_len;
    char body[HTTP_CLIENT_BODY_MAX];
};

/* In the call's space: a completion that must not come inside the caller, and may outlive the
 * client. */
struct failure {
    struct loop_task task;
    struct http_client *client; /* NULL: freed */
    struct http_call *call;
    int rc;
};
_Static_assert(sizeof(struct failure) <= sizeof(struct op_space), "a call's space is too small");

static struct failure *failure_of(struct http_call *call)
{
    return (struct failure *)(void *)call->space.bytes;
}

static void disconnect(struct http_client *c)
{
    loop_resolve_cancel(c->loop, &c->resolve);
    if (c->io.impl) {
        int fd = c->io.fd;
        loop_io_remove(c->loop, &c->io);
        close(fd);
    }
    c->state = CLOSED;
}

static void complete(struct http_client *c, int rc)
{
    struct http_call *call = c->call;
    sched_clear(loop_sched(c->loop), &c->timer);
    c->call = NULL;
    c->failing = false;
    call->answered_us = loop_now_us(c->loop);
    call->body = rc == 0 ? (struct str){c->body, c->body_len} : (struct str){NULL, 0};
    call->location = (struct str){c->location, rc == 0 ? c->location_len : 0};
    call->op.on_done(&call->op, rc);
}

static void on_failure(struct loop_task *t)
{
    struct failure *f = container_of(t, struct failure, task);
    struct http_call *call = f->call;
    if (f->client) {
        complete(f->client, f->rc);
        return;
    }
    call->body = call->location = (struct str){NULL, 0};
    call->op.on_done(&call->op, f->rc);
}

static void fail(struct http_client *c)
{
    int rc = c->sent ? ERR_UNCERTAIN : ERR_UNAVAIL;
    disconnect(c);
    if (!c->call || c->failing)
        return;
    sched_clear(loop_sched(c->loop), &c->timer);
    c->failing = true;
    struct failure *f = failure_of(c->call);
    *f = (struct failure){.task.on_run = on_failure, .client = c, .call = c->call, .rc = rc};
    list_init(&f->task.link);
    loop_defer(c->loop, &f->task);
}

/* --- the answer --- */

static int append(char *dst, size_t cap, size_t *len, const char *at, size_t n)
{
    if (*len + n <= cap)
        memcpy(dst + *len, at, n);
    *len += n;
    return 0;
}

static int on_name(llhttp_t *p, const char *at, size_t n)
{
    struct http_client *c = p->data;
    return append(c->name, sizeof c->name, &c->name_len, at, n);
}

static int on_value(llhttp_t *p, const char *at, size_t n)
{
    struct http_client *c = p->data;
    return append(c->value, sizeof c->value, &c->value_len, at, n);
}

static int on_header(llhttp_t *p)
{
    struct http_client *c = p->data;
    struct str name = {c->name, c->name_len}, value = {c->value, c->value_len};
    int64_t seconds;
    bool fits = name.len <= sizeof c->name && value.len <= sizeof c->value;
    if (fits && c->call && str_eq_nocase(name, STR("Retry-After")) &&
        parse_i64(value, 0, INT_MAX, &seconds) == 0)
        c->call->retry_after_s = (int)seconds;
    if (fits && str_eq_nocase(name, STR("Location")) &&
        str_copy(c->location, sizeof c->location, value))
        c->location_len = value.len;
    c->name_len = c->value_len = 0;
    return 0;
}

static int on_head(llhttp_t *p)
{
    struct http_client *c = p->data;
    return c->call && str_starts(c->call->request, STR("HEAD ")) ? 1 : 0;
}

static int on_body(llhttp_t *p, const char *at, size_t n)
{
    struct http_client *c = p->data;
    if (n > sizeof c->body - c->body_len)
        return -1;
    memcpy(c->body + c->body_len, at, n);
    c->body_len += n;
    return 0;
}

static int on_end(llhttp_t *p)
{
    struct http_client *c = p->data;
    if (p->status_code < 200) /* 100 Continue: the answer is still to come */
        return 0;
    c->complete = true;
    c->keep = llhttp_should_keep_alive(p);
    return HPE_PAUSED;
}

static const llhttp_settings_t settings = {
    .on_header_field = on_name,
    .on_header_value = on_value,
    .on_header_value_complete = on_header,
    .on_headers_complete = on_head,
    .on_body = on_body,
    .on_message_complete = on_end,
};

static void read_answer(struct http_client *c)
{
    char bytes[16384];
    ssize_t n = recv(c->io.fd, bytes, sizeof bytes, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (!c->call || c->failing ||
        n < 0) { /* the server ends an idle connection, or speaks unasked */
        fail(c);
        return;
    }
    llhttp_errno_t rc =
        n ? llhttp_execute(&c->parser, bytes, (size_t)n) : llhttp_finish(&c->parser);
    if (!c->complete) {
        if (n == 0 || rc != HPE_OK)
            fail(c);
        return;
    }
    c->call->status = c->parser.status_code;
    if (!c->keep || n == 0)
        disconnect(c);
    complete(c, 0);
}

/* --- the request --- */

static void write_request(struct http_client *c)
{
    struct str r = c->call->request;
    ssize_t n = send(c->io.fd, r.ptr + c->sent, r.len - c->sent, MSG_NOSIGNAL);
    if (n < 0 && errno != EAGAIN && errno != EINTR) {
        fail(c);
        return;
    }
    if (n > 0 && !c->sent)
        c->call->sent_us = loop_now_us(c->loop);
    c->sent += n > 0 ? (size_t)n : 0;
    loop_io_want(c->loop, &c->io, LOOP_READ | (c->sent < r.len ? LOOP_WRITE : 0));
}

static void on_ready(struct loop_io *io, int what)
{
    struct http_client *c = container_of(io, struct http_client, io);
    if (c->state == CONNECTING) {
        if (loop_connect_error(io->fd)) {
            fail(c);
            return;
        }
        c->state = READY;
        write_request(c);
        return;
    }
    if (what & LOOP_WRITE && c->call && !c->failing && c->sent < c->call->request.len)
        write_request(c);
    if (what & LOOP_READ && c->state == READY)
        read_answer(c);
}

static void on_address(struct loop_resolve *r, int rc)
{
    struct http_client *c = container_of(r, struct http_client, resolve);
    if (rc || loop_connect(c->loop, &c->io, (struct sockaddr *)&r->addr, r->addr_len, 0) < 0) {
        fail(c);
        return;
    }
    c->state = CONNECTING;
}

static void on_deadline(struct timer *t)
{
    fail(container_of(t, struct http_client, timer));
}

void http_client_send(struct http_client *c, struct http_call *call)
{
    if (c->call)
        panic("http_client_send: busy");
    c->call = call;
    c->sent = 0;
    c->body_len = c->name_len = c->value_len = c->location_len = 0;
    c->complete = false;
    call->status = call->retry_after_s = 0;
    call->sent_us = 0;
    llhttp_init(&c->parser, HTTP_RESPONSE, &settings);
    c->parser.data = c;
    if (call->op.deadline_us != INT64_MAX)
        sched_set(loop_sched(c->loop), &c->timer, call->op.deadline_us);
    if (c->state == READY) {
        write_request(c);
    } else {
        c->state = RESOLVING;
        loop_resolve_start(c->loop, &c->resolve, c->host, c->port);
    }
}

struct http_client *http_client_new(struct loop *l, const char *host_port)
{
    const char *colon = strrchr(host_port, ':');
    int64_t port = 0;
    bool path = host_port[0] == '/' || strncmp(host_port, "unix:", 5) == 0;
    struct http_client *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    struct str host =
        path || !colon ? str_of(host_port) : (struct str){host_port, (size_t)(colon - host_port)};
    bool ok = str_copy(c->host, sizeof c->host, host) && host.len &&
              (path || (colon && parse_i64(str_of(colon + 1), 1, 65535, &port) == 0));
    if (!ok) {
        free(c);
        return NULL;
    }
    c->loop = l;
    c->port = (int)port;
    c->io.on_ready = on_ready;
    c->resolve.on_done = on_address;
    c->timer.on_fire = on_deadline;
    return c;
}

void http_client_free(struct http_client *c)
{
    if (!c)
        return;
    fail(c);
    if (c->call) {
        failure_of(c->call)->client = NULL;
        failure_of(c->call)->rc = ERR_UNCERTAIN;
    }
    free(c);
}
