/* One TCP connection. Happy path: name → connect → TLS where wanted → both SETTINGS → up. It fails
 * by: no address, no way there within dial_us, a certificate or protocol that is not the wanted
 * one, EOF or error, silence to what was sent (TCP_USER_TIMEOUT), frames that are no HTTP/2, being
 * doomed by the channel. Each closes it; its calls are over or, where the server certainly did not
 * see them, wait again. */
#include "adapter/h2grpc/internal.h"

#include "base/clock.h"
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum { READ_BYTES = 64 << 10, READS_PER_TURN = 8 };

static void flush_later(struct h2_link *k)
{
    loop_flush_later(k->channel->loop, &k->channel->flush);
}

void h2_link_close(struct h2_link *k, const char *why)
{
    struct h2grpc *ch = k->channel;
    sched_clear(loop_sched(ch->loop), &k->dial_timer);
    if (k->phase == LINK_RESOLVING)
        loop_resolve_cancel(ch->loop, &k->resolve);
    loop_io_remove(ch->loop, &k->io);
    h2_session_close(k);
    SSL_free(k->ssl);
    if (k->fd >= 0)
        close(k->fd);
    if (k->phase >= LINK_UP)
        metric_gauge_add(ch->metrics.connections, -1);
    if (k->phase == LINK_DRAINING)
        ch->draining--;
    k->phase = LINK_DRAINING; /* nothing is handed to it any more */
    while (!list_empty(&k->streams))
        h2_call_lost(container_of(k->streams.next, struct h2grpc_stream, link), why);
    list_remove(&k->node);
    strbuf_deinit(&k->out);
    free(k);
}

void h2_link_fail(struct h2_link *k, const char *why)
{
    struct h2grpc *ch = k->channel;
    if (k != ch->current) {
        h2_link_close(k, why);
        return;
    }
    int64_t up_us = k->phase == LINK_UP ? k->up_us : 0;
    bool idle = up_us && list_empty(&k->streams) && list_empty(&ch->waiting);
    if (why != ch->error)
        str_copy(ch->error, sizeof ch->error, str_of(why));
    h2_link_close(k, ch->error);
    h2_channel_lost(ch, up_us, idle);
}

void h2_link_doom(struct h2_link *k, const char *why)
{
    if (!k->doomed)
        k->doomed = why;
    flush_later(k);
}

/* --- bytes --- */

/* False: the link is gone. */
static bool write_out(struct h2_link *k)
{
    k->want_write = false;
    while (k->out_at < k->out.len) {
        const char *from = k->out.ptr + k->out_at;
        size_t left = k->out.len - k->out_at;
        ssize_t n =
            k->ssl ? h2_tls_send(k->ssl, from, left) : send(k->fd, from, left, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN) {
            k->want_write = true;
            break;
        }
        if (n <= 0) {
            h2_link_fail(k, n < 0 ? strerror(errno) : "closed by the server");
            return false;
        }
        k->out_at += (size_t)n;
        k->taken += (uint64_t)n;
    }
    if (k->out_at == k->out.len) {
        strbuf_clear(&k->out);
        k->out_at = 0;
    }
    loop_io_want(k->channel->loop, &k->io, k->want_write ? LOOP_READ | LOOP_WRITE : LOOP_READ);
    return true;
}

void h2_link_flush(struct h2_link *k)
{
    struct h2grpc *ch = k->channel;
    bool more = true;
    while (more && !k->doomed && k->session) {
        h2_channel_submit(ch, k);
        h2_session_pump(k);
        /* A reset that went out just now left its place to who waits, and nothing else may come
         * that would tell. */
        more = k->out.len - k->out_at >= OUT_SOFT_MAX ||
               (k->phase == LINK_UP && !list_empty(&ch->waiting) && h2_session_room(k));
        if (!write_out(k))
            return;
        more = more && !k->want_write;
    }
    if (k->doomed)
        h2_link_fail(k, k->doomed);
    else if (k->phase == LINK_DRAINING && list_empty(&k->streams) && !k->want_write)
        h2_link_close(k, "drained");
    else if (k->session && !nghttp2_session_want_read(k->session) &&
             !nghttp2_session_want_write(k->session))
        h2_link_fail(k, "the session ended");
}

static void on_readable(struct h2_link *k)
{
    struct h2grpc *ch = k->channel;
    unsigned char buf[READ_BYTES];
    for (int i = 0; i < READS_PER_TURN; i++) {
        ssize_t n = k->ssl ? h2_tls_recv(k->ssl, buf, sizeof buf) : recv(k->fd, buf, sizeof buf, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return;
        if (n <= 0) {
            h2_link_fail(k, n < 0 ? strerror(errno) : "closed by the server");
            return;
        }
        ch->busy++;
        h2_session_feed(k, buf, (size_t)n);
        ch->busy--;
        h2_stream_reap(ch);
        flush_later(k);
        if (k->doomed || (!k->ssl && (size_t)n < sizeof buf))
            return;
    }
}

/* --- the way up --- */

static void start_session(struct h2_link *k)
{
    k->phase = LINK_SETTINGS;
    if (h2_session_open(k)) {
        h2_link_fail(k, "no memory");
        return;
    }
    flush_later(k);
}

static void shake_hands(struct h2_link *k)
{
    const char *why;
    int done = h2_tls_handshake(k->ssl, &why);
    if (done < 0)
        h2_link_fail(k, why);
    else if (done)
        start_session(k);
    else
        loop_io_want(k->channel->loop, &k->io,
                     SSL_want_write(k->ssl) ? LOOP_READ | LOOP_WRITE : LOOP_READ);
}

static void on_connected(struct h2_link *k)
{
    struct h2grpc *ch = k->channel;
    int err = loop_connect_error(k->fd);
    if (err) {
        h2_link_fail(k, strerror(err));
        return;
    }
    if (!ch->tls) {
        start_session(k);
        return;
    }
    k->phase = LINK_TLS;
    k->ssl = h2_tls_open(ch->tls, &ch->target, k->fd);
    if (k->ssl)
        shake_hands(k);
    else
        h2_link_fail(k, "no memory for TLS");
}

static void on_ready(struct loop_io *io, int what)
{
    struct h2_link *k = container_of(io, struct h2_link, io);
    if (k->phase == LINK_DIALING) {
        on_connected(k);
    } else if (k->phase == LINK_TLS) {
        shake_hands(k);
    } else {
        if (what & LOOP_WRITE)
            flush_later(k);
        if (what & LOOP_READ)
            on_readable(k);
    }
}

static void connect_to(struct h2_link *k, const struct sockaddr *addr, socklen_t len)
{
    struct h2grpc *ch = k->channel;
    k->phase = LINK_DIALING;
    k->io.on_ready = on_ready;
    int fd = loop_connect(ch->loop, &k->io, addr, len, (int)(ch->config.user_timeout_us / 1000));
    if (fd < 0)
        h2_link_fail(k, strerror(-fd));
    else
        k->fd = fd;
}

static void on_resolved(struct loop_resolve *r, int rc)
{
    struct h2_link *k = container_of(r, struct h2_link, resolve);
    k->phase = LINK_DIALING;
    if (rc)
        h2_link_fail(k, "no such host");
    else
        connect_to(k, (const struct sockaddr *)&r->addr, r->addr_len);
}

static void on_dial_timer(struct timer *t)
{
    struct h2_link *k = container_of(t, struct h2_link, dial_timer);
    h2_link_fail(k, k->phase == LINK_RESOLVING  ? "the name was not found in time"
                    : k->phase == LINK_DIALING  ? "no connection in time"
                    : k->phase == LINK_SETTINGS ? "no SETTINGS in time"
                                                : "no TLS in time");
}

struct h2_link *h2_link_new(struct h2grpc *ch)
{
    struct h2_link *k = calloc(1, sizeof *k);
    if (!k)
        return NULL;
    k->channel = ch;
    k->fd = -1;
    list_init(&k->streams);
    list_push_back(&ch->links, &k->node);
    strbuf_init(&k->out, OUT_MAX);
    k->phase = LINK_RESOLVING;
    k->dial_timer.on_fire = on_dial_timer;
    sched_set(loop_sched(ch->loop), &k->dial_timer, clock_mono_us() + ch->config.dial_us);
    k->resolve.on_done = on_resolved;
    k->resolve.prefer_ipv4 = ch->config.prefer_ipv4;
    loop_resolve_start(ch->loop, &k->resolve, ch->target.host, ch->target.port);
    return k;
}
