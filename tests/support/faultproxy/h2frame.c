#include "h2frame.h"

enum { SETTINGS_TABLE_SIZE = 1, FRAME_OUT = 16384 };

bool h2_reader_init(struct h2_reader *r)
{
    strbuf_init(&r->kept, H2_KEPT_MAX);
    strbuf_init(&r->block, H2_KEPT_MAX);
    return nghttp2_hd_inflate_new(&r->inflater) == 0;
}

void h2_reader_deinit(struct h2_reader *r)
{
    if (r->inflater)
        nghttp2_hd_inflate_del(r->inflater);
    strbuf_deinit(&r->kept);
    strbuf_deinit(&r->block);
}

static uint32_t get32(const unsigned char *b)
{
    return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

bool h2_is_block(const struct h2_reader *r)
{
    return r->type == H2_HEADERS || r->type == H2_CONTINUATION || r->type == H2_PUSH;
}

bool h2_at_boundary(const struct h2_reader *r)
{
    return r->n_head == 0 && !r->in_payload && !r->in_block;
}

uint32_t h2_length(const struct h2_reader *r)
{
    return get32(r->head) >> 8;
}

bool h2_head_feed(struct h2_reader *r, const char **bytes, size_t *n)
{
    while (*n && r->n_head < H2_HEAD) {
        r->head[r->n_head++] = (unsigned char)*(*bytes)++;
        (*n)--;
    }
    if (r->n_head < H2_HEAD)
        return false;
    r->left = h2_length(r);
    r->type = r->head[3];
    r->flags = r->head[4];
    r->stream = get32(r->head + 5) & 0x7fffffff;
    r->in_payload = true;
    strbuf_clear(&r->kept);
    return true;
}

size_t h2_payload_feed(struct h2_reader *r, const char *bytes, size_t n)
{
    size_t take = n < r->left ? n : r->left;
    if (h2_is_block(r) || r->type == H2_SETTINGS)
        strbuf_add(&r->kept, bytes, take);
    r->left -= (uint32_t)take;
    return take;
}

void h2_frame_end(struct h2_reader *r)
{
    r->n_head = 0;
    r->in_payload = false;
}

/* Without what stands before the header block in HEADERS and PUSH_PROMISE, and the padding. */
static struct str block_of(const struct h2_reader *r)
{
    struct str s = strbuf_str(&r->kept);
    size_t before = 0, padding = 0;
    if (r->type == H2_CONTINUATION)
        return s;
    if (r->flags & H2_PADDED && s.len) {
        padding = (unsigned char)s.ptr[0];
        before = 1;
    }
    if (r->type == H2_HEADERS && r->flags & H2_PRIORITY)
        before += 5;
    if (r->type == H2_PUSH)
        before += 4;
    if (before + padding > s.len)
        return (struct str){NULL, 0};
    return (struct str){s.ptr + before, s.len - before - padding};
}

int h2_block_add(struct h2_reader *r, struct hpack_fields *f)
{
    if (r->type != H2_CONTINUATION) {
        strbuf_clear(&r->block);
        r->block_flags = r->flags;
    }
    strbuf_add_str(&r->block, block_of(r));
    r->in_block = !(r->flags & H2_END_HEADERS);
    if (r->kept.failed || r->block.failed)
        return -1;
    if (r->in_block)
        return 0;
    return hpack_read(r->inflater, strbuf_str(&r->block), f) ? 1 : -1;
}

bool h2_settings(struct h2_reader *r, struct h2_reader *other)
{
    const unsigned char *b = (const unsigned char *)r->kept.ptr;
    uint32_t size = UINT32_MAX; /* unchanged */
    if (r->flags & H2_ACK) {
        if (r->acked != r->announced)
            size = r->sizes[r->acked++ % H2_SETTINGS_KEPT];
        if (size != UINT32_MAX)
            (void)nghttp2_hd_inflate_change_table_size(r->inflater, size);
        return true;
    }
    for (size_t i = 0; i + 6 <= r->kept.len; i += 6)
        if (b[i] == 0 && b[i + 1] == SETTINGS_TABLE_SIZE)
            size = get32(b + i + 2);
    if (other->announced - other->acked == H2_SETTINGS_KEPT)
        return false;
    other->sizes[other->announced++ % H2_SETTINGS_KEPT] = size;
    return true;
}

static void put32(struct strbuf *out, uint32_t v)
{
    const unsigned char b[4] = {(unsigned char)(v >> 24), (unsigned char)(v >> 16),
                                (unsigned char)(v >> 8), (unsigned char)v};
    strbuf_add(out, b, 4);
}

void h2_put_head(struct strbuf *out, size_t n, enum h2_type type, int flags, uint32_t stream)
{
    put32(out, (uint32_t)n << 8 | (uint32_t)type);
    strbuf_add_char(out, (char)flags);
    put32(out, stream);
}

void h2_put_number(struct strbuf *out, enum h2_type type, uint32_t stream, uint32_t number)
{
    h2_put_head(out, 4, type, 0, stream);
    put32(out, number);
}

void h2_put_block(struct strbuf *out, struct str block, int flags, uint32_t stream)
{
    enum h2_type type = H2_HEADERS;
    size_t at = 0;
    do {
        size_t n = block.len - at < FRAME_OUT ? block.len - at : FRAME_OUT;
        h2_put_head(out, n, type, flags | (at + n == block.len ? H2_END_HEADERS : 0), stream);
        strbuf_add(out, block.ptr + at, n);
        at += n;
        type = H2_CONTINUATION;
        flags = 0;
    } while (at < block.len);
}
