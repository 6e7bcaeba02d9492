#include "adapter/h2grpc/message.h"

enum { KEEP_BYTES = 16 << 10 }; /* a buffer that has grown above this is given back */

void grpc_message_init(struct grpc_message *m, size_t max)
{
    *m = (struct grpc_message){.max = max};
    strbuf_init(&m->body, max);
}

void grpc_message_deinit(struct grpc_message *m)
{
    strbuf_deinit(&m->body);
}

void grpc_message_reset(struct grpc_message *m)
{
    m->head_n = 0;
    if (m->body.cap <= KEEP_BYTES) {
        strbuf_clear(&m->body);
        return;
    }
    strbuf_deinit(&m->body);
    strbuf_init(&m->body, m->max);
}

static size_t announced(const struct grpc_message *m)
{
    return (size_t)m->head[1] << 24 | (size_t)m->head[2] << 16 | (size_t)m->head[3] << 8 |
           m->head[4];
}

static struct str take(struct str *in, size_t n)
{
    struct str head = {in->ptr, n};
    in->ptr += n;
    in->len -= n;
    return head;
}

enum grpc_message_result grpc_message_next(struct grpc_message *m, struct str *in, struct str *out)
{
    if (m->head_n == 0 && m->body.len)
        grpc_message_reset(m); /* what the last call lent */
    while (m->head_n < sizeof m->head) {
        if (in->len == 0)
            return GRPC_MESSAGE_MORE;
        m->head[m->head_n++] = (unsigned char)*take(in, 1).ptr;
    }
    if (m->head[0] != 0)
        return GRPC_MESSAGE_COMPRESSED;
    size_t want = announced(m);
    if (want > m->max)
        return GRPC_MESSAGE_TOO_LARGE;
    if (m->body.len == 0 && in->len >= want) {
        *out = want ? take(in, want) : STR("");
        m->head_n = 0;
        return GRPC_MESSAGE_READY;
    }
    size_t n = want - m->body.len < in->len ? want - m->body.len : in->len;
    /* Memory follows what has come, not what was announced. */
    strbuf_add_str(&m->body, take(in, n));
    if (m->body.failed)
        return GRPC_MESSAGE_TOO_LARGE;
    if (m->body.len < want)
        return GRPC_MESSAGE_MORE;
    *out = strbuf_str(&m->body);
    m->head_n = 0;
    return GRPC_MESSAGE_READY;
}

bool grpc_message_cut(const struct grpc_message *m)
{
    return m->head_n > 0;
}
