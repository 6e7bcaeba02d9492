/* HTTP/2 of one connection: nghttp2's callbacks, and what a stream's frames mean for its call. No
 * socket here: frames go into `out`, bytes come in by h2_session_feed. Callbacks never close the
 * link (they doom it), and a stream that is over stays in memory until they have returned. */
#include "adapter/h2grpc/internal.h"

#include <stdlib.h>

static struct h2grpc_stream *stream_of(nghttp2_session *session, int32_t id)
{
    return nghttp2_session_get_stream_user_data(session, id);
}

/* nghttp2 does not know the stream's call any more; the server is told where it still matters. */
static void let_go(struct h2grpc_stream *s, uint32_t code)
{
    nghttp2_session *session = s->on->session;
    nghttp2_session_set_stream_user_data(session, s->id, NULL);
    nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, s->id, code);
    loop_flush_later(s->on->channel->loop, &s->on->channel->flush);
}

void h2_session_reset(struct h2grpc_stream *s)
{
    let_go(s, NGHTTP2_CANCEL);
}

/* Over, by a fault of the answer's: what the server did is not known. */
static void spoiled(struct h2grpc_stream *s, int status, struct str why)
{
    let_go(s, NGHTTP2_CANCEL);
    h2_call_end(s, ERR_UNCERTAIN, status, why, false);
}

/* --- what the server says --- */

/* The server's side ended. Its word counts only if it is a gRPC answer as a whole. */
static void ended(struct h2grpc_stream *s)
{
    s->on->answered++;
    if (!s->sent_all)
        let_go(s, NGHTTP2_NO_ERROR); /* it does not want the rest */
    else
        nghttp2_session_set_stream_user_data(s->on->session, s->id, NULL);
    s->text_len = grpc_percent_decode(s->text, s->text_len);
    struct str text = {s->text, s->text_len};
    if (s->http != 200 && s->status <= 0)
        h2_call_end(s, ERR_UNCERTAIN, grpc_status_of_http(s->http), STR("no gRPC answer"), false);
    else if (s->status < 0)
        h2_call_end(s, ERR_UNCERTAIN, GRPC_UNKNOWN, STR("no grpc-status"), false);
    else if (s->status == GRPC_OK && !s->grpc)
        h2_call_end(s, ERR_UNCERTAIN, GRPC_UNKNOWN, STR("no gRPC content-type"), false);
    else if (s->status == GRPC_OK && grpc_message_cut(&s->message))
        h2_call_end(s, ERR_UNCERTAIN, GRPC_INTERNAL, STR("ended inside a message"), false);
    else
        h2_call_end(s, grpc_status_rc(s->status), s->status, text, true);
}

static void headers_done(struct h2grpc_stream *s, bool end)
{
    if (s->http >= 100 && s->http < 200) { /* an interim answer */
        s->http = 0;
        s->status = -1;
        s->grpc = false;
        s->text_len = 0;
    } else if (end) {
        ended(s);
    } else if (s->http != 200) {
        spoiled(s, grpc_status_of_http(s->http), STR("no gRPC answer"));
    } else if (!s->grpc) {
        spoiled(s, GRPC_UNKNOWN, STR("no gRPC content-type"));
    } else {
        s->status = -1; /* it counts only at the end */
        s->text_len = 0;
    }
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_n, const uint8_t *value, size_t value_n, uint8_t flags, void *data)
{
    (void)flags, (void)data;
    struct h2grpc_stream *s = stream_of(session, frame->hd.stream_id);
    if (!s)
        return 0;
    s->answered = true;
    s->header_bytes += name_n + value_n + 32;
    if (s->header_bytes > HEADERS_MAX) {
        spoiled(s, GRPC_RESOURCE_EXHAUSTED, STR("too many header bytes"));
        return 0;
    }
    struct str n = {(const char *)name, name_n}, v = {(const char *)value, value_n};
    if (str_eq(n, STR(":status"))) {
        s->http =
            value_n == 3 ? (value[0] - '0') * 100 + (value[1] - '0') * 10 + (value[2] - '0') : 0;
    } else if (str_eq(n, STR("content-type"))) {
        s->grpc = str_starts(v, STR("application/grpc")) &&
                  (v.len == 16 || v.ptr[16] == '+' || v.ptr[16] == ';');
    } else if (str_eq(n, STR("grpc-status"))) {
        /* Two of them, or no number: no status. */
        int status = grpc_status_parse(v);
        s->status = status < 0 || s->status >= 0 ? GRPC_UNKNOWN : status;
    } else if (str_eq(n, STR("grpc-message"))) {
        s->text_len = v.len < TEXT_MAX ? v.len : TEXT_MAX;
        memcpy(s->text, v.ptr, s->text_len);
    }
    return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *bytes,
                   size_t n, void *data)
{
    (void)flags, (void)data;
    struct h2grpc_stream *s = stream_of(session, id);
    if (!s)
        return 0;
    struct h2grpc_call *c = s->call;
    struct str in = {(const char *)bytes, n}, message;
    for (;;) {
        switch (grpc_message_next(&s->message, &in, &message)) {
        case GRPC_MESSAGE_MORE:
            return 0;
        case GRPC_MESSAGE_READY:
            c->on_message(c, message);
            if (s->call != c) /* it was cancelled inside */
                return 0;
            break;
        case GRPC_MESSAGE_COMPRESSED:
            spoiled(s, GRPC_INTERNAL, STR("a compressed message"));
            return 0;
        case GRPC_MESSAGE_TOO_LARGE:
            spoiled(s, GRPC_RESOURCE_EXHAUSTED, STR("a message above the bound"));
            return 0;
        }
    }
}

static void went_away(struct h2_link *k)
{
    if (k->phase != LINK_UP)
        return;
    k->phase = LINK_DRAINING;
    h2_channel_drain(k->channel, k);
}

static void settled(struct h2_link *k)
{
    if (k->phase != LINK_SETTINGS)
        return;
    k->phase = LINK_UP;
    k->up_us = loop_now_us(k->channel->loop);
    sched_clear(loop_sched(k->channel->loop), &k->dial_timer);
    metric_gauge_add(k->channel->metrics.connections, 1);
    h2_channel_up(k->channel);
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *data)
{
    struct h2_link *k = data;
    bool end = frame->hd.flags & NGHTTP2_FLAG_END_STREAM;
    struct h2grpc_stream *s = NULL;
    switch (frame->hd.type) {
    case NGHTTP2_HEADERS:
        if ((s = stream_of(session, frame->hd.stream_id)))
            headers_done(s, end);
        break;
    case NGHTTP2_DATA:
        if (end && (s = stream_of(session, frame->hd.stream_id)))
            ended(s);
        break;
    case NGHTTP2_SETTINGS:
        if (!(frame->hd.flags & NGHTTP2_FLAG_ACK))
            settled(k);
        break;
    case NGHTTP2_GOAWAY:
        went_away(k);
        break;
    default:
        break;
    }
    return 0;
}

/* Comes for each stream once, also for those above GOAWAY's last one: as REFUSED_STREAM. */
static int on_stream_close(nghttp2_session *session, int32_t id, uint32_t code, void *data)
{
    struct h2_link *k = data;
    k->open--;
    struct h2grpc_stream *s = stream_of(session, id);
    if (!s)
        return 0;
    if (code == NGHTTP2_REFUSED_STREAM && !s->answered)
        h2_call_refused(s, "refused by the server");
    else
        h2_call_end(s, ERR_UNCERTAIN, grpc_status_of_reset(code), STR("reset by the server"),
                    false);
    return 0;
}

/* --- what we say --- */

static ssize_t on_read(nghttp2_session *session, int32_t id, uint8_t *dst, size_t cap,
                       uint32_t *flags, nghttp2_data_source *source, void *data)
{
    (void)source, (void)data;
    struct h2grpc_stream *s = stream_of(session, id);
    if (!s) /* its reset is on the way */
        return NGHTTP2_ERR_DEFERRED;
    bool eof;
    size_t n = h2_stream_read(s, dst, cap, &eof);
    if (eof)
        *flags |= NGHTTP2_DATA_FLAG_EOF;
    return n || eof ? (ssize_t)n : NGHTTP2_ERR_DEFERRED;
}

static int on_frame_sent(nghttp2_session *session, const nghttp2_frame *frame, void *data)
{
    (void)session;
    struct h2_link *k = data;
    if (frame->hd.type == NGHTTP2_HEADERS && k->submitted) {
        k->submitted->begin = k->queued;
        k->submitted = NULL;
    }
    return 0;
}

static int on_frame_not_sent(nghttp2_session *session, const nghttp2_frame *frame, int error,
                             void *data)
{
    (void)error;
    struct h2_link *k = data;
    struct h2grpc_stream *s = k->submitted;
    if (frame->hd.type != NGHTTP2_HEADERS || !s)
        return 0;
    k->submitted = NULL;
    if (!nghttp2_session_find_stream(session, s->id))
        k->open--; /* else on_stream_close follows */
    nghttp2_session_set_stream_user_data(session, s->id, NULL);
    went_away(k); /* whatever it was: a fresh connection does not have it */
    h2_call_refused(s, "the connection takes no more streams");
    return 0;
}

void h2_session_pump(struct h2_link *k)
{
    if (!k->session)
        return;
    if (k->out_at) {
        memmove(k->out.ptr, k->out.ptr + k->out_at, k->out.len - k->out_at);
        k->out.len -= k->out_at;
        k->out_at = 0;
    }
    k->channel->busy++;
    /* HEADERS of a call leave in any case: what they borrow is its caller's. */
    while (k->out.len < OUT_SOFT_MAX || k->submitted) {
        const uint8_t *bytes;
        ssize_t n = nghttp2_session_mem_send(k->session, &bytes);
        if (n < 0)
            h2_link_doom(k, nghttp2_strerror((int)n));
        if (n <= 0)
            break;
        strbuf_add(&k->out, bytes, (size_t)n);
        k->queued += (uint64_t)n;
        if (k->out.failed) {
            h2_link_doom(k, "no memory");
            break;
        }
    }
    k->channel->busy--;
}

bool h2_session_room(const struct h2_link *k)
{
    uint32_t theirs =
        nghttp2_session_get_remote_settings(k->session, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS);
    return k->open < k->channel->config.max_streams && (uint32_t)k->open < theirs &&
           k->out.len - k->out_at < OUT_SOFT_MAX;
}

enum { FIXED = 8 };

static nghttp2_nv field(const char *name, struct str value, uint8_t flags)
{
    return (nghttp2_nv){(uint8_t *)(uintptr_t)name, (uint8_t *)(uintptr_t)value.ptr, strlen(name),
                        value.len, flags};
}

static size_t head_of(const struct h2_link *k, const struct h2grpc_call *c, nghttp2_nv *nv,
                      char timeout[GRPC_TIMEOUT_MAX])
{
    enum { BORROW = NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE };
    struct h2grpc *ch = k->channel;
    size_t n = 0;
    nv[n++] = field(":method", STR("POST"), BORROW);
    nv[n++] = field(":scheme", ch->tls ? STR("https") : STR("http"), BORROW);
    nv[n++] = field(":path", str_of(c->path), BORROW);
    nv[n++] = field(":authority", str_of(ch->target.authority), BORROW);
    nv[n++] = field("te", STR("trailers"), BORROW);
    nv[n++] = field("content-type", STR("application/grpc"), BORROW);
    nv[n++] = field("user-agent", STR("grpc-c-seckill/" SECKILL_VERSION), BORROW);
    if (c->deadline_us != INT64_MAX) {
        struct str left = {timeout, grpc_timeout_format(timeout, c->deadline_us - c->sent_us)};
        /* Different each time: not into the table of the compression. */
        nv[n++] =
            field("grpc-timeout", left, NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_INDEX);
    }
    for (int i = 0; i < c->n_metadata; i++)
        nv[n++] = field(c->metadata[i].name, c->metadata[i].value, BORROW);
    return n;
}

int h2_session_submit(struct h2_link *k, struct h2grpc_stream *s)
{
    struct h2grpc_call *c = s->call;
    nghttp2_nv nv[FIXED + METADATA_MAX];
    char timeout[GRPC_TIMEOUT_MAX];
    size_t n = head_of(k, c, nv, timeout), bytes = 0;
    for (size_t i = 0; i < n; i++)
        bytes += nv[i].namelen + nv[i].valuelen + 32;
    if (bytes > nghttp2_session_get_remote_settings(k->session,
                                                    NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE) ||
        bytes > OUT_SOFT_MAX)
        return ERR_INVALID;
    nghttp2_data_provider body = {.read_callback = on_read};
    int32_t id =
        nghttp2_submit_request(k->session, NULL, nv, n, h2_stream_has_body(s) ? &body : NULL, s);
    if (id < 0) {
        went_away(k);
        return 1;
    }
    s->on = k;
    s->id = id;
    s->sent_all = !h2_stream_has_body(s);
    s->begin = UINT64_MAX;
    list_push_back(&k->streams, &s->link);
    k->submitted = s;
    k->open++;
    return 0;
}

void h2_session_resume(struct h2grpc_stream *s)
{
    nghttp2_session_resume_data(s->on->session, s->id); /* refused where it is not deferred: fine */
    loop_flush_later(s->on->channel->loop, &s->on->channel->flush);
}

/* --- life --- */

void h2_session_feed(struct h2_link *k, const unsigned char *bytes, size_t n)
{
    ssize_t got = nghttp2_session_mem_recv(k->session, bytes, n);
    if (got < 0)
        h2_link_doom(k, nghttp2_strerror((int)got));
}

static nghttp2_session_callbacks *callbacks_new(void)
{
    nghttp2_session_callbacks *c;
    if (nghttp2_session_callbacks_new(&c))
        return NULL;
    nghttp2_session_callbacks_set_on_header_callback(c, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(c, on_data);
    nghttp2_session_callbacks_set_on_frame_recv_callback(c, on_frame);
    nghttp2_session_callbacks_set_on_stream_close_callback(c, on_stream_close);
    nghttp2_session_callbacks_set_on_frame_send_callback(c, on_frame_sent);
    nghttp2_session_callbacks_set_on_frame_not_send_callback(c, on_frame_not_sent);
    return c;
}

int h2_session_open(struct h2_link *k)
{
    static const nghttp2_settings_entry ours[] = {
        {NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, STREAM_WINDOW},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, HEADERS_MAX},
    };
    nghttp2_session_callbacks *callbacks = callbacks_new();
    nghttp2_option *options = NULL;
    if (callbacks && nghttp2_option_new(&options) == 0) {
        nghttp2_option_set_no_closed_streams(options, 1);
        /* Its default of 8 counts each piece in which the head of a CONTINUATION arrives. */
        nghttp2_option_set_max_continuations(options, 64);
        nghttp2_session_client_new2(&k->session, callbacks, k, options);
    }
    nghttp2_option_del(options);
    nghttp2_session_callbacks_del(callbacks);
    if (!k->session ||
        nghttp2_submit_settings(k->session, NGHTTP2_FLAG_NONE, ours, sizeof ours / sizeof *ours) ||
        nghttp2_session_set_local_window_size(k->session, NGHTTP2_FLAG_NONE, 0, LINK_WINDOW))
        return ERR_OVERLOAD;
    return 0;
}

void h2_session_goodbye(struct h2_link *k)
{
    if (!k->session || k->doomed)
        return;
    nghttp2_session_terminate_session(k->session, NGHTTP2_NO_ERROR);
    h2_session_pump(k);
}

void h2_session_close(struct h2_link *k)
{
    nghttp2_session_del(k->session);
    k->session = NULL;
}
