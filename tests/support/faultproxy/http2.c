/* HTTP/2 without TLS, by prior knowledge. `match` is a part of "POST /path". The frames of a
 * dropped reply's stream are swallowed and those of all other streams pass; `close` cuts the
 * connection and `reset` resets the stream (INTERNAL_ERROR) when the server's end of stream has
 * come.
 *
 * Header blocks change the state of the receiver's table, so one cannot simply be left out: until
 * the first drop they pass as they came (and are read along), from then on the server's are written
 * again without a table. What is swallowed of DATA is given back to the server's windows, since the
 * client, which never sees it, will not. */
#include "drop.h"
#include "hpack.h"
#include "protocol.h"

#include <stdlib.h>
#include <string.h>

enum { HEAD = 9, PREFACE = 24, DROPPED_MAX = 4096, SETTINGS_KEPT = 16, FRAME_OUT = 16384 };
enum { KEPT_MAX = 256 * 1024 }; /* a frame's payload, or a header block, that is looked at */
enum {
    F_DATA = 0,
    F_HEADERS = 1,
    F_RST = 3,
    F_SETTINGS = 4,
    F_PUSH = 5,
    F_WINDOW = 8,
    F_CONTINUATION = 9,
};
enum { END_STREAM = 1, ACK = 1, END_HEADERS = 4, PADDED = 8, PRIORITY = 0x20 };
enum { SETTINGS_TABLE_SIZE = 1, INTERNAL_ERROR = 2 };

/* A direction, read frame by frame. */
struct reader {
    unsigned char head[HEAD];
    size_t n_head;
    uint32_t left; /* of the payload */
    uint8_t type, flags;
    uint32_t stream;
    bool in_payload;
    struct strbuf kept; /* the payload of HEADERS, CONTINUATION, PUSH_PROMISE and SETTINGS */
    bool in_block;      /* HEADERS came, END_HEADERS did not */
    struct strbuf block;
    uint8_t block_flags; /* of its HEADERS */
    nghttp2_hd_inflater *inflater;
    uint32_t
        sizes[SETTINGS_KEPT]; /* table sizes its receiver announced, acknowledged by its ACKs */
    unsigned announced, acked;
};

struct dropped {
    uint32_t stream;
    struct toxic *by; /* NULL: complete; what still comes of it is swallowed */
};

struct http2 {
    struct tracker *tracker;
    size_t preface; /* bytes of it still to come */
    struct reader up, down;
    struct hpack_fields fields;
    struct dropped dropped[DROPPED_MAX];
    int n_dropped;
    struct toxic *counter;         /* takes what is swallowed */
    nghttp2_hd_deflater *deflater; /* not NULL: the server's header blocks are written again */
    struct strbuf inject;          /* our frames to the server, at the next boundary */
};

static void *http2_open(struct tracker *t)
{
    struct http2 *h = calloc(1, sizeof *h);
    if (!h)
        return NULL;
    h->tracker = t;
    h->preface = PREFACE;
    if (nghttp2_hd_inflate_new(&h->up.inflater) || nghttp2_hd_inflate_new(&h->down.inflater)) {
        if (h->up.inflater)
            nghttp2_hd_inflate_del(h->up.inflater);
        free(h);
        return NULL;
    }
    hpack_fields_init(&h->fields);
    strbuf_init(&h->inject, KEPT_MAX);
    for (int i = 0; i < 2; i++) {
        struct reader *r = i ? &h->up : &h->down;
        strbuf_init(&r->kept, KEPT_MAX);
        strbuf_init(&r->block, KEPT_MAX);
    }
    return h;
}

static void http2_close(void *state)
{
    struct http2 *h = state;
    for (int i = 0; i < 2; i++) {
        struct reader *r = i ? &h->up : &h->down;
        nghttp2_hd_inflate_del(r->inflater);
        strbuf_deinit(&r->kept);
        strbuf_deinit(&r->block);
    }
    for (int i = 0; i < h->n_dropped; i++)
        toxic_unref(h->dropped[i].by);
    toxic_unref(h->counter);
    if (h->deflater)
        nghttp2_hd_deflate_del(h->deflater);
    hpack_fields_deinit(&h->fields);
    strbuf_deinit(&h->inject);
    free(h);
}

/* Half understood it cannot be passed on. */
static void broken(struct http2 *h, const char *why)
{
    tracker_lost(h->tracker, why);
    conn_kill(tracker_conn(h->tracker), true);
}

/* --- frames --- */

static uint32_t get32(const unsigned char *b)
{
    return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

static void put_frame(struct strbuf *out, size_t n, int type, int flags, uint32_t stream)
{
    const unsigned char head[HEAD] = {
        (unsigned char)(n >> 16),      (unsigned char)(n >> 8),      (unsigned char)n,
        (unsigned char)type,           (unsigned char)flags,         (unsigned char)(stream >> 24),
        (unsigned char)(stream >> 16), (unsigned char)(stream >> 8), (unsigned char)stream};
    strbuf_add(out, head, HEAD);
}

static void put32(struct strbuf *out, uint32_t v)
{
    const unsigned char b[4] = {(unsigned char)(v >> 24), (unsigned char)(v >> 16),
                                (unsigned char)(v >> 8), (unsigned char)v};
    strbuf_add(out, b, 4);
}

static bool is_block(const struct reader *r)
{
    return r->type == F_HEADERS || r->type == F_CONTINUATION || r->type == F_PUSH;
}

/* Takes bytes of a frame's head. True: it is complete with this call. */
static bool head_feed(struct reader *r, const char **bytes, size_t *n)
{
    while (*n && r->n_head < HEAD) {
        r->head[r->n_head++] = (unsigned char)*(*bytes)++;
        (*n)--;
    }
    if (r->n_head < HEAD)
        return false;
    r->left = get32(r->head) >> 8;
    r->type = r->head[3];
    r->flags = r->head[4];
    r->stream = get32(r->head + 5) & 0x7fffffff;
    r->in_payload = true;
    strbuf_clear(&r->kept);
    return true;
}

/* What stands before the header block in HEADERS and PUSH_PROMISE, and the padding behind it. */
static struct str block_of(const struct reader *r)
{
    struct str s = strbuf_str(&r->kept);
    size_t before = 0, padding = 0;
    if (r->type == F_CONTINUATION)
        return s;
    if (r->flags & PADDED && s.len) {
        padding = (unsigned char)s.ptr[0];
        before = 1;
    }
    if (r->type == F_HEADERS && r->flags & PRIORITY)
        before += 5;
    if (r->type == F_PUSH)
        before += 4;
    if (before + padding > s.len)
        return (struct str){NULL, 0};
    return (struct str){s.ptr + before, s.len - before - padding};
}

/* A complete frame of a header block is in `kept`. True: the block is complete, in h->fields. */
static bool on_block_frame(struct http2 *h, struct reader *r)
{
    struct str part = block_of(r);
    if (r->type != F_CONTINUATION) {
        strbuf_clear(&r->block);
        r->block_flags = r->flags;
    }
    strbuf_add_str(&r->block, part);
    r->in_block = !(r->flags & END_HEADERS);
    if (r->kept.failed || r->block.failed) {
        broken(h, "a header block too large");
        return false;
    }
    if (r->in_block)
        return false;
    if (hpack_read(r->inflater, strbuf_str(&r->block), &h->fields))
        return true;
    broken(h, "a header block that cannot be read");
    return false;
}

/* SETTINGS of one side bound the table of what the other side writes, from its ACK on. */
static void on_settings(struct http2 *h, struct reader *r, struct reader *other)
{
    const unsigned char *b = (const unsigned char *)r->kept.ptr;
    if (r->flags & ACK) {
        if (r->acked != r->announced) {
            uint32_t size = r->sizes[r->acked++ % SETTINGS_KEPT];
            if (size != UINT32_MAX)
                (void)nghttp2_hd_inflate_change_table_size(r->inflater, size);
        }
        return;
    }
    uint32_t size = UINT32_MAX; /* unchanged */
    for (size_t i = 0; i + 6 <= r->kept.len; i += 6)
        if (b[i] == 0 && b[i + 1] == SETTINGS_TABLE_SIZE)
            size = get32(b + i + 2);
    if (other->announced - other->acked == SETTINGS_KEPT)
        broken(h, "too many settings without an answer");
    else
        other->sizes[other->announced++ % SETTINGS_KEPT] = size;
}

/* --- dropped streams --- */

static struct dropped *dropped_find(struct http2 *h, uint32_t stream)
{
    for (int i = 0; i < h->n_dropped; i++)
        if (h->dropped[i].stream == stream)
            return &h->dropped[i];
    return NULL;
}

/* A new one, or the oldest complete one; NULL: so many are not complete. */
static struct dropped *dropped_slot(struct http2 *h)
{
    if (h->n_dropped < DROPPED_MAX)
        return &h->dropped[h->n_dropped++];
    struct dropped *oldest = NULL;
    for (int i = 0; i < h->n_dropped; i++)
        if (!h->dropped[i].by && (!oldest || h->dropped[i].stream < oldest->stream))
            oldest = &h->dropped[i];
    return oldest;
}

static void on_request_block(struct http2 *h, uint32_t stream)
{
    char text[2048];
    struct str method = hpack_get(&h->fields, STR(":method"));
    struct str path = hpack_get(&h->fields, STR(":path"));
    if (!path.ptr)
        return;
    struct strbuf b;
    strbuf_init_fixed(&b, text, sizeof text);
    strbuf_add_str(&b, method);
    strbuf_add_char(&b, ' ');
    strbuf_add_str(&b, (struct str){path.ptr, path.len < 1024 ? path.len : 1024});
    struct str request = strbuf_str(&b);
    struct toxic *by =
        drop_choose(tracker_conn(h->tracker), "http2", drop_contains, &request, request);
    if (!by)
        return;
    struct dropped *d = dropped_slot(h);
    if (!d) {
        drop_void(tracker_conn(h->tracker), by);
        return;
    }
    *d = (struct dropped){.stream = stream, .by = by};
    if (!h->counter)
        h->counter = toxic_ref(by);
}

static void on_dropped_end(struct http2 *h, struct dropped *d)
{
    struct toxic *by = d->by;
    if (!by)
        return;
    d->by = NULL;
    if (strcmp(by->text[DROP_THEN], "reset")) {
        drop_done(tracker_conn(h->tracker), by);
        return;
    }
    char frame[HEAD + 4];
    struct strbuf b;
    strbuf_init_fixed(&b, frame, sizeof frame);
    put_frame(&b, 4, F_RST, 0, d->stream);
    put32(&b, INTERNAL_ERROR);
    tracker_pass(h->tracker, STREAM_DOWNSTREAM, b.ptr, b.len);
    drop_count(tracker_conn(h->tracker), by);
}

/* --- the client's frames: all pass, ours come between them --- */

static void inject_now(struct http2 *h)
{
    bool boundary = !h->preface && h->up.n_head == 0 && !h->up.in_payload && !h->up.in_block;
    if (!boundary || !h->inject.len)
        return;
    tracker_pass(h->tracker, STREAM_UPSTREAM, h->inject.ptr, h->inject.len);
    strbuf_clear(&h->inject);
}

static void give_back(struct http2 *h, uint32_t stream, uint32_t n)
{
    put_frame(&h->inject, 4, F_WINDOW, 0, stream);
    put32(&h->inject, n);
    if (h->inject.failed)
        broken(h, "the client stands still within a frame");
}

static void request_frame_end(struct http2 *h)
{
    struct reader *r = &h->up;
    if (r->type == F_SETTINGS)
        on_settings(h, r, &h->down);
    else if (is_block(r) && on_block_frame(h, r))
        on_request_block(h, r->stream);
}

static void request_some(struct http2 *h, const char **bytes, size_t *n)
{
    struct reader *r = &h->up;
    if (!r->in_payload && !head_feed(r, bytes, n))
        return;
    size_t take = *n < r->left ? *n : r->left;
    if (is_block(r) || r->type == F_SETTINGS)
        strbuf_add(&r->kept, *bytes, take);
    r->left -= (uint32_t)take;
    *bytes += take;
    *n -= take;
    if (r->left)
        return;
    r->n_head = 0;
    r->in_payload = false;
    request_frame_end(h);
}

static void http2_request(void *state, const char *bytes, size_t n)
{
    struct http2 *h = state;
    const char *from = bytes;
    size_t skip = n < h->preface ? n : h->preface;
    h->preface -= skip;
    bytes += skip;
    n -= skip;
    while (n && !tracker_is_lost(h->tracker)) {
        request_some(h, &bytes, &n);
        if (h->inject.len) {
            tracker_pass(h->tracker, STREAM_UPSTREAM, from, (size_t)(bytes - from));
            from = bytes;
            inject_now(h);
        }
    }
    tracker_pass(h->tracker, STREAM_UPSTREAM, from, (size_t)(bytes + n - from));
    inject_now(h);
}

/* --- the server's frames --- */

/* The block in h->fields, as HEADERS and CONTINUATION of ours. */
static void pass_rewritten(struct http2 *h, struct reader *r)
{
    struct strbuf block, out;
    strbuf_init(&block, 2 * HPACK_BYTES_MAX);
    strbuf_init(&out, 4 * HPACK_BYTES_MAX);
    bool ok = hpack_write(h->deflater, &h->fields, &block);
    int type = F_HEADERS, flags = r->block_flags & END_STREAM;
    for (size_t at = 0; ok && (at < block.len || type == F_HEADERS);) {
        size_t n = block.len - at < FRAME_OUT ? block.len - at : FRAME_OUT;
        put_frame(&out, n, type, flags | (at + n == block.len ? END_HEADERS : 0), r->stream);
        strbuf_add(&out, block.ptr + at, n);
        at += n;
        type = F_CONTINUATION;
        flags = 0;
    }
    if (!ok || out.failed)
        broken(h, "a header block cannot be written");
    else
        tracker_pass(h->tracker, STREAM_DOWNSTREAM, out.ptr, out.len);
    strbuf_deinit(&block);
    strbuf_deinit(&out);
}

static bool swallowed(const struct reader *r, const struct dropped *d)
{
    return d && r->type != F_WINDOW && r->type != F_PUSH;
}

/* Whether this frame's bytes are kept from the client as they are. */
static bool withheld(struct http2 *h, const struct reader *r, const struct dropped *d)
{
    return swallowed(r, d) || (h->deflater && is_block(r));
}

static void reply_block(struct http2 *h, struct reader *r, struct dropped *d)
{
    bool was_whole = h->deflater == NULL;
    if (!on_block_frame(h, r))
        return;
    if (!d && !was_whole)
        pass_rewritten(h, r);
    if (d && !h->deflater && nghttp2_hd_deflate_new(&h->deflater, 0))
        broken(h, "no memory");
    if (d && r->block_flags & END_STREAM)
        on_dropped_end(h, d);
}

static void reply_frame_end(struct http2 *h, uint32_t length)
{
    struct reader *r = &h->down;
    struct dropped *d = dropped_find(h, r->stream);
    if (r->type == F_SETTINGS) {
        on_settings(h, r, &h->up);
    } else if (r->type == F_PUSH && h->deflater) {
        broken(h, "pushed after a drop");
    } else if (is_block(r)) {
        reply_block(h, r, d);
    } else if (d && r->type == F_DATA) {
        if (length)
            give_back(h, 0, length);
        if (length && !(r->flags & END_STREAM))
            give_back(h, r->stream, length);
        inject_now(h);
        if (r->flags & END_STREAM)
            on_dropped_end(h, d);
    } else if (d && r->type == F_RST) {
        on_dropped_end(h, d);
    }
}

static void reply_bytes(struct http2 *h, bool keep_back, bool counts, const void *bytes, size_t n)
{
    if (!keep_back)
        tracker_pass(h->tracker, STREAM_DOWNSTREAM, bytes, n);
    else if (counts)
        h->counter->swallowed += (int64_t)n;
}

static void reply_some(struct http2 *h, const char **bytes, size_t *n)
{
    struct reader *r = &h->down;
    bool begins = !r->in_payload;
    if (begins && !head_feed(r, bytes, n))
        return;
    struct dropped *d = dropped_find(h, r->stream);
    bool keep_back = withheld(h, r, d), counts = swallowed(r, d);
    if (begins)
        reply_bytes(h, keep_back, counts, r->head, HEAD);
    size_t take = *n < r->left ? *n : r->left;
    if (is_block(r) || r->type == F_SETTINGS)
        strbuf_add(&r->kept, *bytes, take);
    reply_bytes(h, keep_back, counts, *bytes, take);
    r->left -= (uint32_t)take;
    *bytes += take;
    *n -= take;
    if (r->left)
        return;
    r->n_head = 0;
    r->in_payload = false;
    reply_frame_end(h, get32(r->head) >> 8);
}

static void http2_reply(void *state, const char *bytes, size_t n)
{
    struct http2 *h = state;
    while (n && !tracker_is_lost(h->tracker))
        reply_some(h, &bytes, &n);
    tracker_pass(h->tracker, STREAM_DOWNSTREAM, bytes, n);
}

const struct protocol protocol_http2 = {.name = "http2",
                                        .passes_requests = true,
                                        .open = http2_open,
                                        .close = http2_close,
                                        .on_request = http2_request,
                                        .on_reply = http2_reply};
