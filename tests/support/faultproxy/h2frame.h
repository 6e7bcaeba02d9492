/* HTTP/2's frames: one direction of a connection, read frame by frame, and frames of our own. */
#pragma once

#include "hpack.h"

enum {
    H2_HEAD = 9,
    H2_KEPT_MAX = 256 * 1024 /* a payload, or a header block, that is looked at */
};
enum { H2_SETTINGS_KEPT = 16 };
enum h2_type {
    H2_DATA = 0,
    H2_HEADERS = 1,
    H2_RST = 3,
    H2_SETTINGS = 4,
    H2_PUSH = 5,
    H2_WINDOW = 8,
    H2_CONTINUATION = 9,
};
enum { H2_END_STREAM = 1, H2_ACK = 1, H2_END_HEADERS = 4, H2_PADDED = 8, H2_PRIORITY = 0x20 };
enum { H2_INTERNAL_ERROR = 2 };

struct h2_reader {
    unsigned char head[H2_HEAD];
    size_t n_head;
    uint32_t left; /* of the payload */
    uint8_t type, flags;
    uint32_t stream;
    bool in_payload;
    struct strbuf kept; /* the payload, of header blocks and SETTINGS */
    bool in_block;      /* HEADERS came, END_HEADERS did not */
    struct strbuf block;
    uint8_t block_flags; /* of its HEADERS */
    nghttp2_hd_inflater *inflater;
    uint32_t
        sizes[H2_SETTINGS_KEPT]; /* table sizes its receiver announced, in force from its ACKs */
    unsigned announced, acked;
};

bool h2_reader_init(struct h2_reader *r); /* false without memory; deinit is due all the same */
void h2_reader_deinit(struct h2_reader *r);
/* Takes bytes of a frame's head. True: it is complete with this call. */
bool h2_head_feed(struct h2_reader *r, const char **bytes, size_t *n);
/* Takes bytes of the payload, and says how many. The frame is complete when `left` is 0: then
 * h2_frame_end. */
size_t h2_payload_feed(struct h2_reader *r, const char *bytes, size_t n);
void h2_frame_end(struct h2_reader *r);
bool h2_is_block(const struct h2_reader *r); /* a part of a header block */
bool h2_at_boundary(const struct h2_reader *r);
uint32_t h2_length(const struct h2_reader *r); /* of the last frame's payload */

/* The frame that ended is part of a header block. 1: the block is complete, in *f; 0: it goes on;
 * -1: it cannot be understood. */
int h2_block_add(struct h2_reader *r, struct hpack_fields *f);
/* The frame that ended is SETTINGS: they bound what `other`, the other direction, writes. False:
 * too many of them have no answer. */
bool h2_settings(struct h2_reader *r, struct h2_reader *other);

void h2_put_head(struct strbuf *out, size_t n, enum h2_type type, int flags, uint32_t stream);
/* A frame whose payload is one number: RST_STREAM, WINDOW_UPDATE. */
void h2_put_number(struct strbuf *out, enum h2_type type, uint32_t stream, uint32_t number);
/* A header block as HEADERS and CONTINUATIONs. */
void h2_put_block(struct strbuf *out, struct str block, int flags, uint32_t stream);
