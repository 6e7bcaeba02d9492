/* One command of RocketMQ's remoting protocol as bytes: u32 length of the rest, u32 length of the
 * header, header (JSON), body; big-endian. Pure; the design's rocketmq.md 5. */
#pragma once

#include "base/str.h"

#define REMOTING_FIELDS_MAX 8

enum { REMOTING_OK = 0, REMOTING_DENIED = 16, REMOTING_NO_TOPIC = 17 }; /* an answer's code */

/* In the order of the names, as the signature wants it; both are of characters that JSON takes as
 * they are. */
struct remoting_field {
    const char *name, *value;
};

/* Appends the request. access_key NULL or "": not signed. */
void remoting_encode(struct strbuf *out, int code, uint32_t opaque,
                     const struct remoting_field *fields, int n, const char *access_key,
                     const char *secret_key);

struct remoting_answer {
    int code;
    uint32_t opaque;
    struct str remark, body; /* in the bytes that were decoded; remark as JSON wrote it */
};
/* How long the frame at the start of `in` is: 0: more bytes are needed to tell; ERR_INTERNAL:
 * longer than max, or no frame. */
int64_t remoting_frame_length(struct str in, size_t max);
/* The frame is complete. 0 or ERR_INTERNAL. A request of the broker's own (it may notify its
 * clients) is no answer: code -1. */
int remoting_decode(struct str frame, struct remoting_answer *out);
