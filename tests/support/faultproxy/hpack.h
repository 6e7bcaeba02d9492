/* Header blocks: read in step with whoever wrote them, and written again without any state, so that
 * some of them can be left out. */
#pragma once

#include "base/str.h"
#include <nghttp2/nghttp2.h>

enum { HPACK_FIELDS_MAX = 256, HPACK_BYTES_MAX = 256 * 1024 };

struct hpack_fields {
    nghttp2_nv
        nv[HPACK_FIELDS_MAX]; /* name and value are offsets into bytes until hpack_read ends */
    size_t n;
    struct strbuf bytes;
};

void hpack_fields_init(struct hpack_fields *f);
void hpack_fields_deinit(struct hpack_fields *f);
/* A complete block. False: it cannot be understood, and none that follows. */
bool hpack_read(nghttp2_hd_inflater *h, struct str block, struct hpack_fields *f);
/* {NULL, 0}: absent. */
struct str hpack_get(const struct hpack_fields *f, struct str name);
/* Appends the block. The deflater is one with a table of size 0. */
bool hpack_write(nghttp2_hd_deflater *h, const struct hpack_fields *f, struct strbuf *out);
