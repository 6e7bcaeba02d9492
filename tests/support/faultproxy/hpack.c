#include "hpack.h"

void hpack_fields_init(struct hpack_fields *f)
{
    f->n = 0;
    strbuf_init(&f->bytes, HPACK_BYTES_MAX);
}

void hpack_fields_deinit(struct hpack_fields *f)
{
    strbuf_deinit(&f->bytes);
}

static bool add(struct hpack_fields *f, const nghttp2_nv *nv)
{
    if (f->n == HPACK_FIELDS_MAX)
        return false;
    strbuf_add(&f->bytes, nv->name, nv->namelen);
    strbuf_add(&f->bytes, nv->value, nv->valuelen);
    f->nv[f->n++] = *nv;
    return !f->bytes.failed;
}

/* The bytes do not move any more. */
static void settle(struct hpack_fields *f)
{
    uint8_t *at = (uint8_t *)f->bytes.ptr;
    for (size_t i = 0; i < f->n; i++) {
        f->nv[i].name = at;
        f->nv[i].value = at + f->nv[i].namelen;
        at += f->nv[i].namelen + f->nv[i].valuelen;
        f->nv[i].flags &= NGHTTP2_NV_FLAG_NO_INDEX;
    }
}

bool hpack_read(nghttp2_hd_inflater *h, struct str block, struct hpack_fields *f)
{
    const uint8_t *at = (const uint8_t *)block.ptr;
    size_t left = block.len;
    f->n = 0;
    strbuf_clear(&f->bytes);
    for (;;) {
        nghttp2_nv nv;
        int flags = 0;
        ssize_t used = nghttp2_hd_inflate_hd2(h, &nv, &flags, at, left, 1);
        if (used < 0)
            return false;
        at += used;
        left -= (size_t)used;
        if (flags & NGHTTP2_HD_INFLATE_EMIT && !add(f, &nv))
            return false;
        if (flags & NGHTTP2_HD_INFLATE_FINAL)
            break;
        if (!(flags & NGHTTP2_HD_INFLATE_EMIT) && !left)
            return false;
    }
    settle(f);
    return nghttp2_hd_inflate_end_headers(h) == 0;
}

struct str hpack_get(const struct hpack_fields *f, struct str name)
{
    for (size_t i = 0; i < f->n; i++)
        if (str_eq((struct str){(const char *)f->nv[i].name, f->nv[i].namelen}, name))
            return (struct str){(const char *)f->nv[i].value, f->nv[i].valuelen};
    return (struct str){NULL, 0};
}

bool hpack_write(nghttp2_hd_deflater *h, const struct hpack_fields *f, struct strbuf *out)
{
    size_t bound = nghttp2_hd_deflate_bound(h, f->nv, f->n);
    char *at = strbuf_reserve(out, bound);
    if (!at)
        return false;
    ssize_t n = nghttp2_hd_deflate_hd(h, (uint8_t *)at, bound, f->nv, f->n);
    if (n < 0)
        return false;
    strbuf_commit(out, (size_t)n);
    return true;
}
