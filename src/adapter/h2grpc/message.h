/* Length-prefixed messages out of the bytes of DATA frames, however they are cut. Pure. */
#pragma once

#include "base/str.h"

struct grpc_message {
    unsigned char head[5];
    uint8_t head_n;
    struct strbuf body; /* only of a message that came in pieces */
    size_t max;
};

enum grpc_message_result {
    GRPC_MESSAGE_MORE,       /* everything was taken; the next bytes, please */
    GRPC_MESSAGE_READY,      /* a whole one in *out: valid until the next call, or end of *in */
    GRPC_MESSAGE_COMPRESSED, /* its flag is not 0: we never said that we could read that */
    GRPC_MESSAGE_TOO_LARGE,  /* above max, or no memory */
};

void grpc_message_init(struct grpc_message *m, size_t max);
void grpc_message_deinit(struct grpc_message *m);
/* For another stream; keeps a small buffer. */
void grpc_message_reset(struct grpc_message *m);
/* Takes bytes off the front of *in. After a refusal nothing more may be fed. */
enum grpc_message_result grpc_message_next(struct grpc_message *m, struct str *in, struct str *out);
/* The stream ended inside a message. */
bool grpc_message_cut(const struct grpc_message *m);
