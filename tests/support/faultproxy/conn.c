/* accept → connect to the upstream → read, stages, write in both directions → both have ended.
 * Otherwise: the upstream cannot be reached (the client is closed); either side resets (so is the
 * other); a toxic cuts or resets; the proxy is disabled. */
#include "conn.h"

#include "tracker.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int64_t conn_now_us(const struct conn *c)
{
    return loop_now_us(c->loop);
}

struct decide_about conn_about(const struct conn *c, const char *what, const struct toxic *t,
                               uint64_t index)
{
    return (struct decide_about){.what = what,
                                 .proxy = c->proxy->name,
                                 .toxic = t ? t->name : NULL,
                                 .connection = c->no,
                                 .index = index};
}

static void log_event(struct conn *c, const char *event, json_t *more)
{
    struct decide_about a = conn_about(c, event, NULL, 0);
    decide_log(&c->proxy->of->decide, event, &a, more);
}

/* --- a link --- */

static struct conn_end *source_of(struct link *l)
{
    return &l->conn->end[l->stream == STREAM_UPSTREAM ? END_CLIENT : END_SERVER];
}

static struct conn_end *sink_of(struct link *l)
{
    return &l->conn->end[l->stream == STREAM_UPSTREAM ? END_SERVER : END_CLIENT];
}

static size_t cost(const struct chunk *c)
{
    return sizeof *c + c->len;
}

static struct chunk *chunk_new(struct link *l, enum chunk_kind kind, const void *bytes, size_t n)
{
    struct chunk *c = malloc(sizeof *c + n);
    if (!c) {
        conn_kill(l->conn, true);
        return NULL;
    }
    *c = (struct chunk){.kind = kind, .len = n, .came_us = conn_now_us(l->conn)};
    if (n)
        memcpy(c->bytes, bytes, n);
    l->buffered += cost(c);
    return c;
}

static void chunk_free(struct link *l, struct chunk *c)
{
    list_remove(&c->link);
    l->buffered -= cost(c);
    free(c);
}

static struct list *behind(struct link *l, struct stage *s)
{
    struct list *next = s ? s->link.next : l->stages.next;
    return next == &l->stages ? &l->out : &container_of(next, struct stage, link)->in;
}

static void emit(struct link *l, enum chunk_kind kind, const void *bytes, size_t n)
{
    struct chunk *c = l->conn->dead ? NULL : chunk_new(l, kind, bytes, n);
    if (!c)
        return;
    c->at = l->read;
    l->read += n;
    list_push_back(behind(l, NULL), &c->link);
}

void link_emit(struct link *l, const void *bytes, size_t n)
{
    if (n)
        emit(l, CHUNK_DATA, bytes, n);
}

void link_emit_kind(struct link *l, enum chunk_kind kind)
{
    emit(l, kind, NULL, 0);
}

void stage_pass(struct stage *s, struct chunk *c, size_t n)
{
    struct link *l = s->of;
    if (c->kind == CHUNK_DATA && n < c->len) {
        struct chunk *first = chunk_new(l, CHUNK_DATA, c->bytes + c->off, n);
        if (!first)
            return;
        first->at = c->at;
        first->came_us = c->came_us;
        list_push_back(behind(l, s), &first->link);
        c->at += n;
        c->off += n;
        c->len -= n;
        l->buffered -= n;
        return;
    }
    list_remove(&c->link);
    list_push_back(behind(l, s), &c->link);
}

void stage_pass_new(struct stage *s, enum chunk_kind kind)
{
    struct chunk *c = chunk_new(s->of, kind, NULL, 0);
    if (c)
        list_push_back(behind(s->of, s), &c->link);
}

void stage_drop(struct stage *s, struct chunk *c)
{
    s->toxic->swallowed += (int64_t)c->len;
    chunk_free(s->of, c);
}

/* False when the sink takes no more for now. */
static bool write_data(struct link *l, struct chunk *c)
{
    struct conn_end *sink = sink_of(l);
    while (c->len) {
        ssize_t n = send(sink->fd, c->bytes + c->off, c->len, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno != EAGAIN)
            conn_kill(l->conn, true);
        if (n < 0)
            return false;
        c->off += (size_t)n;
        c->len -= (size_t)n;
        l->buffered -= (size_t)n;
    }
    return true;
}

/* Each chunk is a write of its own: what the slicer cut stays cut. */
static void write_out(struct link *l)
{
    struct conn *c = l->conn;
    l->waits_write = false;
    while (!c->dead && !list_empty(&l->out)) {
        struct chunk *k = container_of(l->out.next, struct chunk, link);
        if (sink_of(l)->connecting || (k->kind == CHUNK_DATA && !l->ended && !write_data(l, k))) {
            l->waits_write = true;
            return;
        }
        if (k->kind == CHUNK_CUT || k->kind == CHUNK_RESET) {
            conn_kill(c, k->kind == CHUNK_RESET);
            return;
        }
        if (k->kind == CHUNK_END && !l->ended) {
            (void)shutdown(sink_of(l)->fd, SHUT_WR);
            l->ended = true;
        }
        chunk_free(l, k);
    }
}

static void update_want(struct conn *c, int e)
{
    struct conn_end *end = &c->end[e];
    struct link *in = &c->links[e == END_CLIENT ? STREAM_UPSTREAM : STREAM_DOWNSTREAM];
    struct link *out = &c->links[e == END_CLIENT ? STREAM_DOWNSTREAM : STREAM_UPSTREAM];
    int want = 0;
    if (!in->read_ended && !end->connecting && in->buffered < LINK_BUFFER)
        want |= LOOP_READ;
    if (end->connecting || out->waits_write)
        want |= LOOP_WRITE;
    if (!want && in->read_ended)
        want = LOOP_HANGUP;
    loop_io_want(c->loop, &end->io, want);
}

static bool over(const struct link *l)
{
    return l->ended || (l->held && l->read_ended);
}

void link_pump(struct link *l)
{
    struct conn *c = l->conn;
    if (c->dead || c->pumping[l->stream])
        return;
    c->pumping[l->stream] = true;
    list_for_each_safe (it, &l->stages) {
        if (!c->dead)
            stage_run(container_of(it, struct stage, link));
    }
    if (!c->dead)
        write_out(l);
    c->pumping[l->stream] = false;
    if (!c->dead && over(&c->links[0]) && over(&c->links[1]))
        conn_kill(c, false);
    if (c->dead)
        return;
    update_want(c, END_CLIENT);
    update_want(c, END_SERVER);
}

/* --- the sockets --- */

static void pump_both(struct conn *c)
{
    link_pump(&c->links[STREAM_UPSTREAM]);
    link_pump(&c->links[STREAM_DOWNSTREAM]);
}

static void read_some(struct conn *c, struct link *l)
{
    char bytes[LINK_READ];
    ssize_t n = recv(source_of(l)->fd, bytes, sizeof bytes, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n < 0) {
        conn_kill(c, true);
        return;
    }
    if (n > 0) {
        tracker_bytes(c->tracker, l->stream, bytes, (size_t)n);
        return;
    }
    l->read_ended = true;
    tracker_end(c->tracker, l->stream);
    link_emit_kind(l, CHUNK_END);
}

static int socket_error(int fd)
{
    int error = 0;
    socklen_t len = sizeof error;
    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) ? errno : error;
}

static void on_connected(struct conn *c)
{
    struct conn_end *end = &c->end[END_SERVER];
    int error = socket_error(end->fd);
    if (error) {
        log_event(c, "upstream_failed", json_pack("{s:s}", "why", strerror(error)));
        conn_kill(c, false);
        return;
    }
    end->connecting = false;
}

static void on_ready(struct loop_io *io, int what)
{
    struct conn_end *end = container_of(io, struct conn_end, io);
    struct conn *c = end->conn;
    int e = end == &c->end[END_CLIENT] ? END_CLIENT : END_SERVER;
    struct link *in = &c->links[e == END_CLIENT ? STREAM_UPSTREAM : STREAM_DOWNSTREAM];
    if (what & LOOP_HANGUP) { /* without an error both sides have ended: that is known already */
        if (socket_error(end->fd))
            conn_kill(c, true);
        return;
    }
    if (end->connecting)
        on_connected(c);
    else if (what & LOOP_READ && !in->read_ended)
        read_some(c, in);
    pump_both(c);
}

/* --- its life --- */

static void on_reap(struct loop_task *t)
{
    struct conn *c = container_of(t, struct conn, reap);
    for (int i = 0; i < 2; i++) {
        list_for_each_safe (it, &c->links[i].stages)
            stage_free(container_of(it, struct stage, link));
        list_for_each_safe (it, &c->links[i].out)
            chunk_free(&c->links[i], container_of(it, struct chunk, link));
    }
    tracker_free(c->tracker);
    free(c);
}

static void end_close(struct conn *c, struct conn_end *end, bool reset)
{
    struct linger now = {.l_onoff = 1};
    if (end->fd < 0)
        return;
    loop_io_remove(c->loop, &end->io);
    if (reset)
        (void)setsockopt(end->fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    if (reset || end->connecting)
        close(end->fd);
    else
        linger(&c->proxy->of->lingers, end->fd);
    end->fd = -1;
}

void conn_kill(struct conn *c, bool reset)
{
    if (c->dead)
        return;
    c->dead = true;
    end_close(c, &c->end[END_CLIENT], reset);
    end_close(c, &c->end[END_SERVER], reset);
    for (int i = 0; i < 2; i++)
        list_for_each (it, &c->links[i].stages)
            sched_clear(loop_sched(c->loop), &container_of(it, struct stage, link)->timer);
    list_remove(&c->link);
    c->proxy->n_conns--;
    loop_defer(c->loop, &c->reap);
}

static bool attach(struct conn *c, int e, int fd, bool connecting)
{
    struct conn_end *end = &c->end[e];
    end->connecting = connecting;
    end->io.on_ready = on_ready;
    if (loop_io_add(c->loop, &end->io, fd, connecting ? LOOP_WRITE : LOOP_READ)) {
        close(fd);
        return false;
    }
    end->fd = fd;
    return true;
}

static void link_init(struct conn *c, enum stream stream)
{
    struct link *l = &c->links[stream];
    l->conn = c;
    l->stream = stream;
    list_init(&l->stages);
    list_init(&l->out);
}

void conn_open(struct proxy *p, int fd)
{
    struct conn *c = calloc(1, sizeof *c);
    if (!c) {
        close(fd);
        return;
    }
    c->loop = p->of->loop;
    c->proxy = p;
    c->no = p->accepted;
    c->reap = (struct loop_task){.on_run = on_reap};
    list_init(&c->reap.link);
    link_init(c, STREAM_UPSTREAM);
    link_init(c, STREAM_DOWNSTREAM);
    for (int e = 0; e < 2; e++)
        c->end[e] = (struct conn_end){.conn = c, .fd = -1};
    list_push_back(&p->conns, &c->link);
    p->n_conns++;
    c->tracker = tracker_new(c);
    if (!attach(c, END_CLIENT, fd, false) || !c->tracker) {
        conn_kill(c, false);
        return;
    }
    int server = address_connect(&p->upstream);
    if (server < 0)
        log_event(c, "upstream_failed", json_pack("{s:s}", "why", strerror(errno)));
    if (server < 0 || !attach(c, END_SERVER, server, true)) {
        conn_kill(c, false);
        return;
    }
    list_for_each (it, &p->toxics)
        conn_toxic_added(c, container_of(it, struct toxic, link));
}

/* --- toxics come and go --- */

void conn_toxic_added(struct conn *c, struct toxic *t)
{
    struct link *l = &c->links[t->stream];
    if (c->dead)
        return;
    struct stage *s = stage_new(l, t);
    if (!s) {
        conn_kill(c, true);
        return;
    }
    /* Behind the others, before what is on its way out already. */
    list_push_back(&l->stages, &s->link);
    link_pump(l);
}

struct stage *conn_stage(struct conn *c, const struct toxic *t)
{
    list_for_each (it, &c->links[t->stream].stages) {
        struct stage *s = container_of(it, struct stage, link);
        if (s->toxic == t)
            return s;
    }
    return NULL;
}

void conn_toxic_changed(struct conn *c, struct toxic *t)
{
    struct stage *s = conn_stage(c, t);
    if (!s)
        return;
    list_for_each (it, &s->in)
        container_of(it, struct chunk, link)->timed = NULL;
    link_pump(s->of);
}

void conn_toxic_removed(struct conn *c, struct toxic *t)
{
    struct stage *s = conn_stage(c, t);
    if (!s)
        return;
    struct link *l = s->of;
    l->held = false;
    list_splice_back(behind(l, s), &s->in);
    if (s->applied && t->kind->on_removed)
        t->kind->on_removed(s);
    list_remove(&s->link);
    stage_free(s);
    link_pump(l);
}
