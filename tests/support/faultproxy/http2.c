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
#include "h2frame.h"
#include "protocol.h"

#include <stdlib.h>
#include <string.h>

enum { PREFACE = 24, DROPPED_MAX = 4096 };

struct dropped {
    uint32_t stream;
    struct toxic *by; /* NULL: complete; what still comes of it is swallowed */
};

struct http2 {
    struct tracker *tracker;
    size_t preface; /* bytes of it still to come */
    struct h2_reader up, down;
    struct hpack_fields fields;
    struct dropped dropped[DROPPED_MAX];
    int n_dropped;
    struct toxic *counter;         /* takes what is swallowed */
    nghttp2_hd_deflater *deflater; /* not NULL: the server's header blocks are written again */
    struct strbuf inject;          /* our frames to the server, at the next boundary */
};

static void http2_close(void *state)
{
    struct http2 *h = state;
    h2_reader_deinit(&h->up);
    h2_reader_deinit(&h->down);
    for (int i = 0; i < h->n_dropped; i++)
        toxic_unref(h->dropped[i].by);
    toxic_unref(h->counter);
    if (h->deflater)
        nghttp2_hd_deflate_del(h->deflater);
    hpack_fields_deinit(&h->fields);
    strbuf_deinit(&h->inject);
    free(h);
}

static void *http2_open(struct tracker *t)
{
    struct http2 *h = calloc(1, sizeof *h);
    if (!h)
        return NULL;
    h->tracker = t;
    h->preface = PREFACE;
    hpack_fields_init(&h->fields);
    strbuf_init(&h->inject, H2_KEPT_MAX);
    bool up = h2_reader_init(&h->up), down = h2_reader_init(&h->down);
    if (up && down)
        return h;
    http2_close(h);
    return NULL;
}

/* Half understood it cannot be passed on. */
static void broken(struct http2 *h, const char *why)
{
    tracker_lost(h->tracker, why);
    conn_kill(tracker_conn(h->tracker), true);
}

/* The frame that ended belongs to a header block. True: the block is complete, in h->fields. */
static bool on_block_frame(struct http2 *h, struct h2_reader *r)
{
    int rc = h2_block_add(r, &h->fields);
    if (rc < 0)
        broken(h, "a header block that cannot be read");
    return rc > 0;
}

static void on_settings(struct http2 *h, struct h2_reader *r, struct h2_reader *other)
{
    if (!h2_settings(r, other))
        broken(h, "too many settings without an answer");
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
    char frame[H2_HEAD + 4];
    struct strbuf b;
    strbuf_init_fixed(&b, frame, sizeof frame);
    h2_put_number(&b, H2_RST, d->stream, H2_INTERNAL_ERROR);
    tracker_pass(h->tracker, STREAM_DOWNSTREAM, b.ptr, b.len);
    drop_count(tracker_conn(h->tracker), by);
}

/* --- the client's frames: all pass, ours come between them --- */

static void inject_now(struct http2 *h)
{
    bool boundary = !h->preface && h2_at_boundary(&h->up);
    if (!boundary || !h->inject.len)
        return;
    tracker_pass(h->tracker, STREAM_UPSTREAM, h->inject.ptr, h->inject.len);
    strbuf_clear(&h->inject);
}

static void give_back(struct http2 *h, uint32_t stream, uint32_t n)
{
    h2_put_number(&h->inject, H2_WINDOW, stream, n);
    if (h->inject.failed)
        broken(h, "the client stands still within a frame");
}

static void request_frame_end(struct http2 *h)
{
    struct h2_reader *r = &h->up;
    if (r->type == H2_SETTINGS)
        on_settings(h, r, &h->down);
    else if (h2_is_block(r) && on_block_frame(h, r))
        on_request_block(h, r->stream);
}

static void request_some(struct http2 *h, const char **bytes, size_t *n)
{
    struct h2_reader *r = &h->up;
    if (!r->in_payload && !h2_head_feed(r, bytes, n))
        return;
    size_t take = h2_payload_feed(r, *bytes, *n);
    *bytes += take;
    *n -= take;
    if (r->left)
        return;
    h2_frame_end(r);
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
static void pass_rewritten(struct http2 *h, struct h2_reader *r)
{
    struct strbuf block, out;
    strbuf_init(&block, 2 * HPACK_BYTES_MAX);
    strbuf_init(&out, 4 * HPACK_BYTES_MAX);
    bool ok = hpack_write(h->deflater, &h->fields, &block);
    if (ok)
        h2_put_block(&out, strbuf_str(&block), r->block_flags & H2_END_STREAM, r->stream);
    if (!ok || out.failed)
        broken(h, "a header block cannot be written");
    else
        tracker_pass(h->tracker, STREAM_DOWNSTREAM, out.ptr, out.len);
    strbuf_deinit(&block);
    strbuf_deinit(&out);
}

static bool swallowed(const struct h2_reader *r, const struct dropped *d)
{
    return d && r->type != H2_WINDOW && r->type != H2_PUSH;
}

/* Whether this frame's bytes are kept from the client as they are. */
static bool withheld(struct http2 *h, const struct h2_reader *r, const struct dropped *d)
{
    return swallowed(r, d) || (h->deflater && h2_is_block(r));
}

static void reply_block(struct http2 *h, struct h2_reader *r, struct dropped *d)
{
    bool was_whole = h->deflater == NULL;
    if (!on_block_frame(h, r))
        return;
    if (!d && !was_whole)
        pass_rewritten(h, r);
    if (d && !h->deflater && nghttp2_hd_deflate_new(&h->deflater, 0))
        broken(h, "no memory");
    if (d && r->block_flags & H2_END_STREAM)
        on_dropped_end(h, d);
}

static void reply_frame_end(struct http2 *h, uint32_t length)
{
    struct h2_reader *r = &h->down;
    struct dropped *d = dropped_find(h, r->stream);
    if (r->type == H2_SETTINGS) {
        on_settings(h, r, &h->up);
    } else if (r->type == H2_PUSH && h->deflater) {
        broken(h, "pushed after a drop");
    } else if (h2_is_block(r)) {
        reply_block(h, r, d);
    } else if (d && r->type == H2_DATA) {
        if (length)
            give_back(h, 0, length);
        if (length && !(r->flags & H2_END_STREAM))
            give_back(h, r->stream, length);
        inject_now(h);
        if (r->flags & H2_END_STREAM)
            on_dropped_end(h, d);
    } else if (d && r->type == H2_RST) {
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
    struct h2_reader *r = &h->down;
    bool begins = !r->in_payload;
    if (begins && !h2_head_feed(r, bytes, n))
        return;
    struct dropped *d = dropped_find(h, r->stream);
    bool keep_back = withheld(h, r, d), counts = swallowed(r, d);
    if (begins)
        reply_bytes(h, keep_back, counts, r->head, H2_HEAD);
    size_t take = h2_payload_feed(r, *bytes, *n);
    reply_bytes(h, keep_back, counts, *bytes, take);
    *bytes += take;
    *n -= take;
    if (r->left)
        return;
    h2_frame_end(r);
    reply_frame_end(h, h2_length(r));
}

static void http2_reply(void *state, const char *bytes, size_t n)
{
    struct http2 *h = state;
    while (n && !tracker_is_lost(h->tracker))
        reply_some(h, &bytes, &n);
    tracker_pass(h->tracker, STREAM_DOWNSTREAM, bytes, n);
}

static void http2_flush(void *state)
{
    struct http2 *h = state;
    if (!h->down.in_payload)
        tracker_pass(h->tracker, STREAM_DOWNSTREAM, h->down.head, h->down.n_head);
    h->down.n_head = 0;
}

const struct protocol protocol_http2 = {.name = "http2",
                                        .passes_requests = true,
                                        .open = http2_open,
                                        .close = http2_close,
                                        .on_request = http2_request,
                                        .on_reply = http2_reply,
                                        .flush = http2_flush};
