/* A stream's memory and our side of it. Streams are kept for the next call: none is allocated while
 * as many calls are under way as before. */
#include "adapter/h2grpc/internal.h"

#include <stdlib.h>

enum { PREFIX = 5, KEEP_BYTES = 16 << 10, SPARE_MAX = 256 };

static void destroy(struct h2grpc_stream *s)
{
    grpc_message_deinit(&s->message);
    strbuf_deinit(&s->writes);
    free(s);
}

struct h2grpc_stream *h2_stream_get(struct h2grpc *ch, struct h2grpc_call *c)
{
    if (c->stream)
        return c->stream;
    struct list *n = list_pop_front(&ch->spare);
    struct h2grpc_stream *s;
    if (n) {
        s = container_of(n, struct h2grpc_stream, link);
        ch->spare_n--;
    } else {
        s = calloc(1, sizeof *s);
        if (!s)
            return NULL;
        list_init(&s->link);
        grpc_message_init(&s->message, ch->config.max_message);
        strbuf_init(&s->writes, WRITES_MAX + PREFIX);
    }
    s->call = c;
    s->closing = !c->streaming;
    s->wrote = false;
    s->writes_at = 0;
    h2_stream_rewind(s);
    c->stream = s;
    return s;
}

void h2_stream_rewind(struct h2grpc_stream *s)
{
    list_remove(&s->link);
    s->on = NULL;
    s->id = 0;
    s->begin = 0;
    s->request_at = 0;
    s->sent_all = s->answered = s->grpc = false;
    s->http = 0;
    s->status = -1;
    s->header_bytes = s->text_len = 0;
    grpc_message_reset(&s->message);
}

void h2_stream_drop(struct h2grpc_stream *s)
{
    struct h2grpc *ch = s->call->channel;
    s->call->stream = NULL;
    s->call = NULL;
    s->on = NULL;
    list_remove(&s->link);
    list_push_back(&ch->gone, &s->link);
}

void h2_stream_reap(struct h2grpc *ch)
{
    for (struct list *n; (n = list_pop_front(&ch->gone)) != NULL;) {
        struct h2grpc_stream *s = container_of(n, struct h2grpc_stream, link);
        if (ch->spare_n == SPARE_MAX) {
            destroy(s);
            continue;
        }
        grpc_message_reset(&s->message);
        strbuf_clear(&s->writes);
        if (s->writes.cap > KEEP_BYTES) {
            strbuf_deinit(&s->writes);
            strbuf_init(&s->writes, WRITES_MAX + PREFIX);
        }
        list_push_back(&ch->spare, &s->link);
        ch->spare_n++;
    }
}

void h2_stream_free_all(struct h2grpc *ch)
{
    list_splice_back(&ch->spare, &ch->gone);
    for (struct list *n; (n = list_pop_front(&ch->spare)) != NULL;)
        destroy(container_of(n, struct h2grpc_stream, link));
}

bool h2_stream_has_body(const struct h2grpc_stream *s)
{
    return s->call->request.ptr || s->call->streaming;
}

static void put_prefix(unsigned char dst[PREFIX], size_t n)
{
    dst[0] = 0;
    dst[1] = (unsigned char)(n >> 24);
    dst[2] = (unsigned char)(n >> 16);
    dst[3] = (unsigned char)(n >> 8);
    dst[4] = (unsigned char)n;
}

int h2_stream_write(struct h2grpc_stream *s, struct str message)
{
    size_t unsent = s->writes.len - s->writes_at;
    if (message.len > WRITES_MAX || unsent + PREFIX + message.len > WRITES_MAX + PREFIX)
        return ERR_OVERLOAD;
    if (s->writes_at) {
        memmove(s->writes.ptr, s->writes.ptr + s->writes_at, unsent);
        s->writes.len = unsent;
        s->writes_at = 0;
    }
    char *at = strbuf_reserve(&s->writes, PREFIX + message.len);
    if (!at) {
        s->writes.failed = false;
        return ERR_OVERLOAD;
    }
    put_prefix((unsigned char *)at, message.len);
    if (message.len)
        memcpy(at + PREFIX, message.ptr, message.len);
    strbuf_commit(&s->writes, PREFIX + message.len);
    return 0;
}

/* The request is read from where the caller has it. */
static size_t read_request(struct h2grpc_stream *s, unsigned char *dst, size_t cap)
{
    struct str request = s->call->request;
    unsigned char prefix[PREFIX];
    size_t n = 0;
    if (!request.ptr)
        return 0;
    put_prefix(prefix, request.len);
    while (s->request_at < PREFIX && n < cap)
        dst[n++] = prefix[s->request_at++];
    if (s->request_at < PREFIX || n == cap)
        return n;
    size_t left = request.len - (s->request_at - PREFIX);
    if (left > cap - n)
        left = cap - n;
    if (left)
        memcpy(dst + n, request.ptr + (s->request_at - PREFIX), left);
    s->request_at += left;
    return n + left;
}

size_t h2_stream_read(struct h2grpc_stream *s, unsigned char *dst, size_t cap, bool *eof)
{
    size_t n = read_request(s, dst, cap);
    size_t whole = s->call->request.ptr ? PREFIX + s->call->request.len : 0;
    size_t unsent = s->writes.len - s->writes_at;
    if (s->request_at == whole && unsent && n < cap) {
        size_t take = unsent < cap - n ? unsent : cap - n;
        memcpy(dst + n, s->writes.ptr + s->writes_at, take);
        s->writes_at += take;
        s->wrote = true;
        n += take;
        unsent -= take;
    }
    if (unsent == 0 && s->writes_at) {
        strbuf_clear(&s->writes);
        s->writes_at = 0;
    }
    *eof = s->closing && s->request_at == whole && unsent == 0;
    s->sent_all = *eof;
    return n;
}
