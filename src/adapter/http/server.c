/* The listening socket, its connections, and the drain. */
#include "adapter/http/server.h"

#include "adapter/http/conn.h"
#include "adapter/http/listen.h"
#include "adapter/http/route.h"
#include "base/log.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    ACCEPT_AT_ONCE = 64,     /* of a turn: the connections that are there get their turn as well */
    ACCEPT_AGAIN_US = 50000, /* after the descriptors ran out */
    DRAIN_IDLE_US = 2000000, /* a client that is idle so long has nothing under way to us */
    DRAIN_LINGER_US = 1000000, /* and leaves that much before the deadline */
    DRAIN_QUIET_US = 200000,   /* connections that had begun are completed by then */
};

/* --- blocks --- */

struct http_in *http_in_take(struct http_server *s)
{
    struct http_in *in = s->in_free;
    if (in) {
        s->in_free = in->next;
        s->n_in_free--;
    } else if (!(in = malloc(sizeof *in + s->in_cap))) {
        return NULL;
    }
    in->start = in->len = 0;
    in->inflight = false;
    http_request_init(&in->request, (uint32_t)s->limits.max_header, (uint32_t)s->limits.max_body);
    return in;
}

void http_in_release(struct http_server *s, struct http_in *in)
{
    if (s->n_in_free >= HTTP_POOL_KEEP) {
        free(in);
        return;
    }
    in->next = s->in_free;
    s->in_free = in;
    s->n_in_free++;
}

static void free_dead(struct http_server *s)
{
    for (struct list *n; (n = list_pop_front(&s->dead)) != NULL;)
        free(container_of(n, struct http_conn, link));
}

static void on_reap(struct loop_task *t)
{
    free_dead(container_of(t, struct http_server, reap));
}

/* --- accepting --- */

static bool out_of_descriptors(int err)
{
    return err == EMFILE || err == ENFILE || err == ENOBUFS || err == ENOMEM;
}

/* True: there may be more. */
static bool accept_one(struct http_server *s)
{
    int fd = accept4(s->listener.fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) {
        if (!out_of_descriptors(errno))
            return errno == ECONNABORTED || errno == EINTR || errno == EPROTO;
        /* The one at the head of the queue keeps the listener readable: not to spin on it, look
         * again later. */
        static struct log_limit limit;
        uint64_t more;
        if (log_allowed(&limit, loop_now_us(s->loop), &more))
            log_error("http cannot accept", LOG_I("errno", errno),
                      LOG_I("suppressed", (int64_t)more));
        metric_add(s->metrics.refused_connections, 1);
        if (!s->draining) {
            loop_io_want(s->loop, &s->listener, 0);
            sched_set_in(loop_sched(s->loop), &s->accept_again, ACCEPT_AGAIN_US);
        }
        return false;
    }
    if (s->n_open >= s->limits.max_connections) {
        metric_add(s->metrics.refused_connections, 1); /* whoever sees the close finds it counted */
        close(fd);
    } else if (http_conn_new(s, fd)) {
        metric_add(s->metrics.accepted, 1);
    } else {
        metric_add(s->metrics.refused_connections, 1);
    }
    return true;
}

static void on_listener(struct loop_io *io, int what)
{
    (void)what;
    struct http_server *s = container_of(io, struct http_server, listener);
    for (int i = 0; i < ACCEPT_AT_ONCE && accept_one(s); i++)
        ;
}

static void on_accept_again(struct timer *t)
{
    struct http_server *s = container_of(t, struct http_server, accept_again);
    loop_io_want(s->loop, &s->listener, LOOP_READ);
}

static void close_listener(struct http_server *s)
{
    sched_clear(loop_sched(s->loop), &s->accept_again);
    if (s->listener.fd < 0)
        return;
    loop_io_remove(s->loop, &s->listener);
    close(s->listener.fd);
    s->listener.fd = -1;
}

/* --- draining --- */

static void on_drained_task(struct loop_task *t)
{
    struct http_server *s = container_of(t, struct http_server, drained);
    void (*done)(struct http_server *, void *) = s->on_drained;
    s->on_drained = NULL;
    sched_clear(loop_sched(s->loop), &s->drain_timer);
    if (done)
        done(s, s->drained_arg); /* may free s */
}

void http_server_closed(struct http_server *s)
{
    if (s->draining && s->listener.fd < 0 && s->n_open == 0)
        loop_defer(s->loop, &s->drained);
}

static void cut_all(struct http_server *s)
{
    while (!list_empty(&s->open))
        http_conn_cut(container_of(s->open.next, struct http_conn, link));
}

static void on_drain_deadline(struct timer *t)
{
    struct http_server *s = container_of(t, struct http_server, drain_timer);
    cut_all(s);
    http_server_closed(s);
}

static void on_drain_quiet(struct timer *t)
{
    struct http_server *s = container_of(t, struct http_server, drain_timer);
    /* What waits in the queue is a client that believes to be connected: closing the listener would
     * reset it. */
    for (int i = 0; i < 65536 && s->listener.fd >= 0 && accept_one(s); i++)
        ;
    close_listener(s);
    s->drain_timer.on_fire = on_drain_deadline;
    sched_set(loop_sched(s->loop), &s->drain_timer, s->drain_deadline_us);
    http_server_closed(s);
}

void http_server_drain(struct http_server *s, int64_t deadline_us,
                       void (*on_drained)(struct http_server *s, void *arg), void *arg)
{
    if (s->draining)
        return;
    s->on_drained = on_drained;
    s->drained_arg = arg;
    s->draining = true;
    s->drain_deadline_us = deadline_us;
    if (s->listener.fd >= 0)
        http_listen_quiet(s->listener.fd);
    int64_t now = loop_now_us(s->loop), quiet_us = (deadline_us - now) / 4;
    s->drain_idle_us = now + DRAIN_IDLE_US;
    if (s->drain_idle_us > deadline_us - DRAIN_LINGER_US)
        s->drain_idle_us = deadline_us - DRAIN_LINGER_US;
    list_for_each_safe (n, &s->open)
        http_conn_drain(container_of(n, struct http_conn, link));
    s->drain_timer.on_fire = on_drain_quiet;
    sched_set(loop_sched(s->loop), &s->drain_timer,
              now + (quiet_us < DRAIN_QUIET_US ? quiet_us : DRAIN_QUIET_US));
}

/* --- the whole --- */

static struct http_server *init(struct http_server *s, const char *metric_prefix)
{
    list_init(&s->open);
    list_init(&s->zombies);
    list_init(&s->dead);
    list_init(&s->reap.link);
    list_init(&s->drained.link);
    s->reap.on_run = on_reap;
    s->drained.on_run = on_drained_task;
    s->listener.on_ready = on_listener;
    s->accept_again.on_fire = on_accept_again;
    /* Room for one whole request, and for a chunk's framing to be read beside it. */
    s->in_cap = (uint32_t)(s->limits.max_header + s->limits.max_body) + 1024;
    http_metrics_init(&s->metrics, metric_prefix, s->service);
    return s;
}

struct http_server *http_server_new(struct loop *l, const char *listen, bool reuse_port,
                                    const struct http_limits *limits, struct http_service *service,
                                    const char *metric_prefix, char *err, size_t err_cap)
{
    http_routes_check(service);
    int port, fd = http_listen(listen, reuse_port, &port, err, err_cap);
    if (fd < 0)
        return NULL;
    struct http_server *s = calloc(1, sizeof *s);
    if (!s) {
        close(fd);
        snprintf(err, err_cap, "no memory");
        return NULL;
    }
    *s = (struct http_server){.loop = l, .limits = *limits, .service = service, .port = port};
    init(s, metric_prefix);
    if (loop_io_add(l, &s->listener, fd, LOOP_READ)) {
        close(fd);
        s->listener.fd = -1;
        http_server_free(s);
        snprintf(err, err_cap, "%s: the loop cannot watch one more descriptor", listen);
        return NULL;
    }
    return s;
}

int http_server_port(const struct http_server *s)
{
    return s->port;
}

int http_server_connections(const struct http_server *s)
{
    return s->n_open;
}

void http_server_free(struct http_server *s)
{
    if (!s)
        return;
    close_listener(s);
    cut_all(s);
    sched_clear(loop_sched(s->loop), &s->drain_timer);
    loop_defer_cancel(&s->reap);
    loop_defer_cancel(&s->drained);
    free_dead(s);
    /* Their handlers do not listen to on_gone and will answer into the void. */
    for (struct list *n; (n = list_pop_front(&s->zombies)) != NULL;)
        container_of(n, struct http_conn, link)->server = NULL;
    for (struct http_in *in = s->in_free, *next; in; in = next) {
        next = in->next;
        free(in);
    }
    http_out_pool_deinit(&s->out_pool);
    http_metrics_deinit(&s->metrics);
    free(s);
}
