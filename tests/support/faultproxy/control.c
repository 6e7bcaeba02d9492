#include "control.h"

#include "address.h"
#include <errno.h>
#include <llhttp.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { CONNECTIONS_MAX = 64, PATH_MAX_BYTES = 1024, BODY_MAX = 1024 * 1024, READ = 16384 };
#define IDLE_US 60000000

struct control {
    struct loop *loop;
    struct loop_io listener;
    struct control_handler *handler;
    struct list clients;
    int n;
};

struct client {
    struct list link;
    struct control *of;
    struct loop_io io;
    struct timer idle;
    struct loop_task reap;
    llhttp_t parser;
    char path[PATH_MAX_BYTES + 1];
    size_t path_len;
    struct strbuf body, out;
    size_t sent;
    bool bad, closing, dead;
};

static void on_reap(struct loop_task *t)
{
    struct client *c = container_of(t, struct client, reap);
    strbuf_deinit(&c->body);
    strbuf_deinit(&c->out);
    free(c);
}

static void client_close(struct client *c)
{
    if (c->dead)
        return;
    c->dead = true;
    sched_clear(loop_sched(c->of->loop), &c->idle);
    loop_io_remove(c->of->loop, &c->io);
    close(c->io.fd);
    list_remove(&c->link);
    c->of->n--;
    loop_defer(c->of->loop, &c->reap);
}

static void on_idle(struct timer *t)
{
    client_close(container_of(t, struct client, idle));
}

static void write_out(struct client *c)
{
    while (c->sent < c->out.len) {
        ssize_t n = send(c->io.fd, c->out.ptr + c->sent, c->out.len - c->sent, MSG_NOSIGNAL);
        if (n < 0 && errno != EAGAIN)
            client_close(c);
        if (n < 0)
            break;
        c->sent += (size_t)n;
    }
    if (c->dead)
        return;
    if (c->sent < c->out.len) {
        loop_io_want(c->of->loop, &c->io, LOOP_WRITE);
        return;
    }
    strbuf_clear(&c->out);
    c->sent = 0;
    if (c->closing)
        client_close(c);
    else
        loop_io_want(c->of->loop, &c->io, LOOP_READ);
}

static const char *reason(int status)
{
    switch (status) {
    case 200:
        return "OK";
    case 201:
        return "Created";
    case 204:
        return "No Content";
    case 400:
        return "Bad Request";
    case 404:
        return "Not Found";
    case 405:
        return "Method Not Allowed";
    case 409:
        return "Conflict";
    default:
        return "Internal Server Error";
    }
}

static void answer(struct client *c, struct control_answer a)
{
    struct str json = str_of(a.json);
    strbuf_printf(&c->out, "HTTP/1.1 %d %s\r\n", a.status, reason(a.status));
    if (a.json)
        strbuf_printf(&c->out, "Content-Type: application/json\r\n");
    if (a.status != 204)
        strbuf_printf(&c->out, "Content-Length: %zu\r\n", json.len);
    strbuf_printf(&c->out, "%s\r\n", c->closing ? "Connection: close\r\n" : "");
    strbuf_add_str(&c->out, json);
    free(a.json);
    if (c->out.failed)
        client_close(c);
}

/* --- llhttp's callbacks --- */

static int on_begin(llhttp_t *p)
{
    struct client *c = p->data;
    c->path_len = 0;
    c->bad = false;
    strbuf_clear(&c->body);
    return 0;
}

static int on_url(llhttp_t *p, const char *at, size_t n)
{
    struct client *c = p->data;
    if (c->path_len + n > PATH_MAX_BYTES)
        return -1;
    memcpy(c->path + c->path_len, at, n);
    c->path_len += n;
    return 0;
}

static int on_body(llhttp_t *p, const char *at, size_t n)
{
    struct client *c = p->data;
    strbuf_add(&c->body, at, n);
    return c->body.failed ? -1 : 0;
}

static int hex(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* Percent-decoded, without the query. */
static void clean_path(struct client *c)
{
    size_t to = 0;
    for (size_t i = 0; i < c->path_len && c->path[i] != '?'; i++) {
        if (c->path[i] == '%' && i + 2 < c->path_len && hex(c->path[i + 1]) >= 0 &&
            hex(c->path[i + 2]) >= 0) {
            c->path[to++] = (char)(hex(c->path[i + 1]) * 16 + hex(c->path[i + 2]));
            i += 2;
        } else {
            c->path[to++] = c->path[i];
        }
    }
    c->path[to] = 0;
}

static int on_complete(llhttp_t *p)
{
    struct client *c = p->data;
    clean_path(c);
    c->closing = !llhttp_should_keep_alive(p);
    answer(c, c->of->handler->on_request(c->of->handler, llhttp_method_name(p->method), c->path,
                                         strbuf_str(&c->body)));
    return 0;
}

static const llhttp_settings_t callbacks = {.on_message_begin = on_begin,
                                            .on_url = on_url,
                                            .on_body = on_body,
                                            .on_message_complete = on_complete};

/* --- its sockets --- */

static void on_client(struct loop_io *io, int what)
{
    struct client *c = container_of(io, struct client, io);
    char bytes[READ];
    sched_set_in(loop_sched(c->of->loop), &c->idle, IDLE_US);
    if (what & LOOP_WRITE) {
        write_out(c);
        return;
    }
    ssize_t n = recv(io->fd, bytes, sizeof bytes, 0);
    if (n < 0 && errno == EAGAIN)
        return;
    if (n <= 0) {
        client_close(c);
        return;
    }
    if (llhttp_execute(&c->parser, bytes, (size_t)n) != HPE_OK && !c->dead) {
        c->closing = true;
        answer(c, (struct control_answer){.status = 400});
    }
    if (!c->dead)
        write_out(c);
}

static void on_listener(struct loop_io *io, int what)
{
    (void)what;
    struct control *s = container_of(io, struct control, listener);
    int fd = accept4(io->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0)
        return;
    struct client *c = s->n < CONNECTIONS_MAX ? calloc(1, sizeof *c) : NULL;
    if (!c || loop_io_add(s->loop, &c->io, fd, LOOP_READ)) {
        free(c);
        close(fd);
        return;
    }
    c->of = s;
    c->io.on_ready = on_client;
    c->idle.on_fire = on_idle;
    c->reap.on_run = on_reap;
    list_init(&c->reap.link);
    strbuf_init(&c->body, BODY_MAX);
    strbuf_init(&c->out, 16 * BODY_MAX);
    llhttp_init(&c->parser, HTTP_REQUEST, &callbacks);
    c->parser.data = c;
    list_push_back(&s->clients, &c->link);
    s->n++;
    sched_set_in(loop_sched(s->loop), &c->idle, IDLE_US);
}

struct control *control_new(struct loop *l, const char *listen, struct control_handler *h,
                            int *port, char *err, size_t err_cap)
{
    struct address a;
    if (!address_parse(&a, listen, err, err_cap))
        return NULL;
    int fd = address_listen(&a, err, err_cap);
    if (fd < 0)
        return NULL;
    const char *colon = strrchr(a.text, ':');
    *port = atoi(colon + 1);
    struct control *c = calloc(1, sizeof *c);
    if (!c || loop_io_add(l, &c->listener, fd, LOOP_READ)) {
        snprintf(err, err_cap, "no memory");
        free(c);
        close(fd);
        return NULL;
    }
    c->loop = l;
    c->handler = h;
    c->listener.on_ready = on_listener;
    list_init(&c->clients);
    return c;
}

void control_free(struct control *c)
{
    list_for_each_safe (it, &c->clients)
        client_close(container_of(it, struct client, link));
    loop_io_remove(c->loop, &c->listener);
    close(c->listener.fd);
    free(c);
}
