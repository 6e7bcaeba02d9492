/* The request path without sockets: whatever the bytes are, they read the same whole, byte by byte,
 * and cut at a place that the input itself chooses, with the buffer moved each time. */
#include "adapter/http/request.h"

#include <stdio.h>
#include <stdlib.h>

enum { HEADER = 1024, BODY = 256, ROOM = HEADER + BODY + 64, REQUESTS = 8 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What became of the input: one line for each request, then how it ended. */
struct story {
    char text[REQUESTS * (BODY + 512)];
    size_t len;
};

static void tell(struct story *s, const void *bytes, size_t n)
{
    if (n > sizeof s->text - s->len)
        n = sizeof s->text - s->len;
    if (n)
        memcpy(s->text + s->len, bytes, n);
    s->len += n;
}

static void tell_span(struct story *s, const struct http_request *r, struct http_span span,
                      const char *bytes)
{
    if (span.off + span.len > r->head_len)
        abort();
    uint32_t n = span.len < 32 ? span.len : 32;
    tell(s, &span, sizeof span);
    tell(s, bytes + span.off, n);
}

static void tell_request(struct story *s, const struct http_request *r, const char *bytes, size_t n)
{
    if (r->end > n || r->head_len + r->body_len > r->end || r->body_len > BODY ||
        r->head_len > HEADER)
        abort();
    tell_span(s, r, r->path, bytes);
    tell_span(s, r, r->query, bytes);
    tell_span(s, r, r->host, bytes);
    tell_span(s, r, r->authorization, bytes);
    tell_span(s, r, r->idempotency_key, bytes);
    tell_span(s, r, r->content_type, bytes);
    tell_span(s, r, r->traceparent, bytes);
    tell(s, bytes + r->head_len, r->body_len);
    char end[3] = {(char)r->method, (char)r->keep_alive, '\n'};
    tell(s, end, sizeof end);
}

static void read_all(struct story *s, const uint8_t *data, size_t size, size_t first, size_t step)
{
    struct http_request r;
    char *buf = malloc(ROOM);
    size_t n = 0, at = 0;
    int done = 0;
    s->len = 0;
    http_request_init(&r, HEADER, BODY);
    for (enum http_request_result got = HTTP_REQUEST_MORE; done < REQUESTS;) {
        if (got == HTTP_REQUEST_MORE || n == 0) {
            size_t take = at == 0 && first ? first : step;
            if (take > size - at)
                take = size - at;
            if (take > ROOM - n)
                take = ROOM - n;
            if (take == 0)
                break;
            memcpy(buf + n, data + at, take);
            n += take;
            at += take;
        }
        char *moved = malloc(n); /* exactly as large: reading behind it is seen */
        memcpy(moved, buf, n);
        got = http_request_feed(&r, moved, &n);
        memcpy(buf, moved, n);
        free(moved);
        if (got == HTTP_REQUEST_REFUSED) {
            tell(s, &r.refusal, sizeof r.refusal);
            break;
        }
        if (got == HTTP_REQUEST_COMPLETE) {
            tell_request(s, &r, buf, n);
            memmove(buf, buf + r.end, n - r.end);
            n -= r.end;
            http_request_init(&r, HEADER, BODY);
            done++;
        }
    }
    free(buf);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct story whole, bytewise, cut;
    read_all(&whole, data, size, 0, ROOM);
    read_all(&bytewise, data, size, 0, 1);
    read_all(&cut, data, size, size ? data[size - 1] + 1u : 1, ROOM);
    if (whole.len != bytewise.len || memcmp(whole.text, bytewise.text, whole.len) != 0 ||
        whole.len != cut.len || memcmp(whole.text, cut.text, whole.len) != 0)
        abort();
    return 0;
}
