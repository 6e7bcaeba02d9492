#include "h2_server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

static const char MAGIC[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
enum { MAGIC_N = sizeof MAGIC - 1 };

/* --- out --- */

static void flush(struct h2_conn *c)
{
    while (c->open && c->out.len) {
        ssize_t n = c->ssl ? SSL_write(c->ssl, c->out.ptr, (int)c->out.len)
                           : send(c->io.fd, c->out.ptr, c->out.len, MSG_NOSIGNAL);
        if (n <= 0) {
            bool wait =
                c->ssl ? SSL_get_error(c->ssl, (int)n) == SSL_ERROR_WANT_WRITE : errno == EAGAIN;
            if (wait)
                loop_io_want(c->server->loop, &c->io, LOOP_READ | LOOP_WRITE);
            else
                h2_close(c);
            return;
        }
        memmove(c->out.ptr, c->out.ptr + n, c->out.len - (size_t)n);
        c->out.len -= (size_t)n;
    }
    if (c->open)
        loop_io_want(c->server->loop, &c->io, LOOP_READ);
}

void h2_say_bytes(struct h2_conn *c, const void *bytes, size_t n)
{
    if (!c->open)
        return;
    strbuf_add(&c->out, bytes, n);
    assert_false(c->out.failed);
    bool last = c->limit > 0 && c->out.len >= (size_t)c->limit;
    if (last)
        c->out.len = (size_t)c->limit;
    else if (c->limit > 0)
        c->limit -= (long)c->out.len;
    flush(c);
    if (last)
        h2_close(c);
}

void h2_say(struct h2_conn *c, int type, int flags, int32_t id, const void *payload, size_t n)
{
    unsigned char head[9] = {
        (unsigned char)(n >> 16),  (unsigned char)(n >> 8),  (unsigned char)n,
        (unsigned char)type,       (unsigned char)flags,     (unsigned char)((uint32_t)id >> 24),
        (unsigned char)(id >> 16), (unsigned char)(id >> 8), (unsigned char)id};
    if (!c->open)
        return;
    h2_say_bytes(c, head, sizeof head);
    if (n)
        h2_say_bytes(c, payload, n);
}

static void put_u32(unsigned char *at, uint32_t v)
{
    at[0] = (unsigned char)(v >> 24);
    at[1] = (unsigned char)(v >> 16);
    at[2] = (unsigned char)(v >> 8);
    at[3] = (unsigned char)v;
}

static uint32_t get_u32(const char *at)
{
    const unsigned char *b = (const unsigned char *)at;
    return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

void h2_say_u32(struct h2_conn *c, int type, int32_t id, uint32_t v)
{
    unsigned char payload[4];
    put_u32(payload, v);
    if (type == RST_STREAM)
        c->streams--;
    h2_say(c, type, 0, id, payload, 4);
}

void h2_say_goaway(struct h2_conn *c, int32_t last, uint32_t code)
{
    unsigned char payload[8];
    put_u32(payload, (uint32_t)last);
    put_u32(payload + 4, code);
    h2_say(c, GOAWAY, 0, 0, payload, 8);
}

static size_t put_text(unsigned char *at, const char *text)
{
    size_t n = strlen(text), i = 0;
    if (n < 127) {
        at[i++] = (unsigned char)n;
    } else {
        at[i++] = 127;
        size_t rest = n - 127;
        for (; rest >= 128; rest >>= 7)
            at[i++] = (unsigned char)(rest | 128);
        at[i++] = (unsigned char)rest;
    }
    memcpy(at + i, text, n);
    return i + n;
}

void h2_say_headers(struct h2_conn *c, int32_t id, int flags, const char *const *pairs)
{
    static unsigned char block[128 << 10];
    size_t n = 0;
    for (; pairs[0]; pairs += 2) { /* literals that stay out of the table */
        block[n++] = 0;
        n += put_text(block + n, pairs[0]);
        n += put_text(block + n, pairs[1]);
    }
    if (flags & END_STREAM)
        c->streams--;
    size_t first = n < 16384 ? n : 16384;
    h2_say(c, HEADERS, flags | (first == n ? END_HEADERS : 0), id, block, first);
    for (size_t at = first; at < n;) { /* CONTINUATION */
        size_t take = n - at < 16384 ? n - at : 16384;
        h2_say(c, 9, at + take == n ? END_HEADERS : 0, id, block + at, take);
        at += take;
    }
}

void h2_say_head(struct h2_conn *c, int32_t id)
{
    SAY_HEADERS(c, id, 0, ":status", "200", "content-type", "application/grpc");
}

void h2_say_message(struct h2_conn *c, int32_t id, const char *text)
{
    unsigned char payload[4096] = {0};
    size_t n = strlen(text);
    put_u32(payload + 1, (uint32_t)n);
    memcpy(payload + 5, text, n);
    h2_say(c, DATA, 0, id, payload, n + 5);
}

void h2_say_status(struct h2_conn *c, int32_t id, const char *status)
{
    SAY_HEADERS(c, id, END_STREAM, "grpc-status", status);
}

void h2_say_ok(struct h2_conn *c, int32_t id)
{
    h2_say_head(c, id);
    h2_say_message(c, id, "ok");
    h2_say_status(c, id, "0");
}

void h2_nothing(struct h2_conn *c, int32_t id)
{
    (void)c, (void)id;
}

uint32_t h2_sum(uint32_t sum, const void *bytes, size_t n)
{
    const unsigned char *b = bytes;
    while (n--)
        sum = sum * 31 + *b++;
    return sum;
}

/* --- in --- */

static void take_headers(struct h2_conn *c, int32_t id, char *block, size_t n)
{
    struct strbuf text;
    strbuf_init_fixed(&text, c->headers, sizeof c->headers - 1);
    for (;;) {
        nghttp2_nv nv;
        int flags = 0;
        ssize_t took =
            nghttp2_hd_inflate_hd2(c->inflater, &nv, &flags, (const uint8_t *)block, n, 1);
        assert_true(took >= 0);
        block += took;
        n -= (size_t)took;
        if (flags & NGHTTP2_HD_INFLATE_EMIT)
            strbuf_printf(&text, "%.*s: %.*s\n", (int)nv.namelen, nv.name, (int)nv.valuelen,
                          nv.value);
        if (flags & NGHTTP2_HD_INFLATE_FINAL)
            break;
    }
    nghttp2_hd_inflate_end_headers(c->inflater);
    c->headers[text.len] = 0;
    c->last = id;
    c->server->requests++;
    if (++c->streams > c->most_streams)
        c->most_streams = c->streams;
    if (c->server->refuse) {
        c->server->refuse--;
        h2_say_u32(c, RST_STREAM, id, 7);
    } else if (c->server->on_request) {
        c->server->on_request(c, id);
    }
}

static void take_data(struct h2_conn *c, int32_t id, const char *bytes, size_t n)
{
    if (c->data < sizeof c->body)
        memcpy(c->body + c->data, bytes,
               n < sizeof c->body - c->data ? n : sizeof c->body - c->data);
    c->data += n;
    c->sum = h2_sum(c->sum, bytes, n);
    if (n && !c->server->stall) {
        h2_say_u32(c, WINDOW, 0, (uint32_t)n);
        h2_say_u32(c, WINDOW, id, (uint32_t)n);
    }
    if (n && c->server->on_bytes)
        c->server->on_bytes(c);
}

static void take_frame(struct h2_conn *c, int type, int flags, int32_t id, char *payload, size_t n)
{
    struct h2_server *s = c->server;
    int refuse = s->refuse;
    switch (type) {
    case HEADERS:
        assert_true(flags & END_HEADERS);
        take_headers(c, id, payload, n);
        break;
    case DATA:
        take_data(c, id, payload, n);
        break;
    case RST_STREAM:
        c->resets++;
        c->reset = (int)get_u32(payload);
        c->streams--;
        break;
    case SETTINGS:
        if (!(flags & ACK) && !s->mute)
            h2_say(c, SETTINGS, ACK, 0, NULL, 0);
        break;
    case PING:
        if (flags & ACK)
            c->pongs++;
        else
            c->pings++;
        break;
    case GOAWAY:
        c->goaways++;
        break;
    case WINDOW:
        c->window_bytes += (int)get_u32(payload);
        break;
    default:
        break;
    }
    if ((type == HEADERS || type == DATA) && flags & END_STREAM && refuse == s->refuse) {
        s->ends++;
        if (s->on_end)
            s->on_end(c, id);
        else
            h2_say_ok(c, id);
    }
}

static void take(struct h2_conn *c)
{
    size_t at = 0;
    if (!c->greeted) {
        if (c->in.len < MAGIC_N)
            return;
        if (memcmp(c->in.ptr, MAGIC, MAGIC_N) != 0) {
            h2_close(c);
            return;
        }
        at = MAGIC_N;
        c->greeted = true;
        if (!c->server->mute)
            h2_say(c, SETTINGS, 0, 0, c->server->settings, c->server->settings_n);
    }
    while (c->open && c->in.len - at >= 9) {
        char *f = c->in.ptr + at;
        size_t n = get_u32(f) >> 8;
        if (c->in.len - at < 9 + n)
            break;
        at += 9 + n;
        take_frame(c, f[3], f[4], (int32_t)(get_u32(f + 5) & INT32_MAX), f + 9, n);
    }
    if (!c->open)
        return;
    memmove(c->in.ptr, c->in.ptr + at, c->in.len - at);
    c->in.len -= at;
}

static void on_ready(struct loop_io *io, int what)
{
    (void)what;
    struct h2_conn *c = container_of(io, struct h2_conn, io);
    for (int i = 0; i < 64 && c->open; i++) {
        char buf[32768];
        ssize_t n = c->ssl ? SSL_read(c->ssl, buf, sizeof buf) : recv(io->fd, buf, sizeof buf, 0);
        if (n <= 0) {
            bool wait = c->ssl ? SSL_get_error(c->ssl, (int)n) == SSL_ERROR_WANT_READ
                               : n < 0 && errno == EAGAIN;
            if (!wait)
                h2_close(c);
            break;
        }
        strbuf_add(&c->in, buf, (size_t)n);
        assert_false(c->in.failed);
        take(c);
    }
    if (c->open)
        flush(c);
}

void h2_close(struct h2_conn *c)
{
    if (!c->open)
        return;
    c->open = false;
    int fd = c->io.fd;
    loop_io_remove(c->server->loop, &c->io);
    if (c->ssl && SSL_is_init_finished(c->ssl) && !c->server->abrupt)
        SSL_shutdown(c->ssl);
    SSL_free(c->ssl);
    close(fd);
    nghttp2_hd_inflate_del(c->inflater);
    strbuf_deinit(&c->in);
    strbuf_deinit(&c->out);
}

void h2_pause(struct h2_conn *c)
{
    loop_io_want(c->server->loop, &c->io, 0);
}

void h2_resume(struct h2_conn *c)
{
    loop_io_want(c->server->loop, &c->io, LOOP_READ);
}

static void on_accept(struct loop_io *io, int what)
{
    (void)what;
    struct h2_server *s = container_of(io, struct h2_server, io);
    int fd = accept4(io->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0)
        return;
    struct h2_conn *c = &s->conns[s->accepted++ % 32];
    assert_false(c->open);
    memset(c, 0, sizeof *c);
    c->server = s;
    c->open = true;
    c->limit = s->limit;
    c->io.on_ready = on_ready;
    strbuf_init(&c->in, 16 << 20);
    strbuf_init(&c->out, 64 << 20);
    assert_int_equal(nghttp2_hd_inflate_new(&c->inflater), 0);
    if (s->tls) {
        c->ssl = SSL_new(s->tls);
        SSL_set_mode(c->ssl, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
        SSL_set_fd(c->ssl, fd);
        SSL_set_accept_state(c->ssl);
    }
    assert_int_equal(loop_io_add(s->loop, &c->io, fd, LOOP_READ), 0);
}

void h2_server_setting(struct h2_server *s, int id, uint32_t value)
{
    unsigned char *at = s->settings + s->settings_n;
    at[0] = 0;
    at[1] = (unsigned char)id;
    put_u32(at + 2, value);
    s->settings_n += 6;
}

struct h2_conn *h2_server_conn(struct h2_server *s)
{
    return &s->conns[s->accepted ? (s->accepted - 1) % 32 : 0];
}

void h2_server_start(struct h2_server *s, struct loop *l)
{
    memset(s, 0, sizeof *s);
    s->loop = l;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof a;
    assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &len), 0);
    assert_int_equal(listen(fd, 16), 0);
    snprintf(s->target, sizeof s->target, "127.0.0.1:%d", ntohs(a.sin_port));
    s->io.on_ready = on_accept;
    assert_int_equal(loop_io_add(l, &s->io, fd, LOOP_READ), 0);
}

void h2_server_stop(struct h2_server *s)
{
    for (int i = 0; i < 32; i++)
        h2_close(&s->conns[i]);
    int fd = s->io.fd;
    loop_io_remove(s->loop, &s->io);
    close(fd);
    SSL_CTX_free(s->tls);
    s->tls = NULL;
}
