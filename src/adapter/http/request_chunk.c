/* The chunked coding, decoded in place. Stricter than the grammar where parsers are known to
 * differ: no white space, no trailers, no controls in extensions (which are otherwise ignored), at
 * most eight digits, and a bound on framing. */
#include "adapter/http/request.h"

enum {
    CHUNK_SIZE,
    CHUNK_EXTENSION,
    CHUNK_SIZE_LF,
    CHUNK_DATA,
    CHUNK_DATA_CR,
    CHUNK_DATA_LF,
    CHUNK_END_CR,
    CHUNK_END_LF,
};

static int hex(unsigned char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool size_byte(struct http_request *r, unsigned char c)
{
    int digit = hex(c);
    if (digit >= 0) {
        if (++r->chunk_digits > 8)
            return false;
        r->chunk_left = r->chunk_left << 4 | (uint32_t)digit;
        return true;
    }
    if (r->chunk_digits == 0)
        return false;
    r->chunk_state = c == ';' ? CHUNK_EXTENSION : CHUNK_SIZE_LF;
    return c == ';' || c == '\r';
}

static bool extension_byte(struct http_request *r, unsigned char c)
{
    if (c == '\r')
        r->chunk_state = CHUNK_SIZE_LF;
    return c == '\r' || (c >= 0x20 && c < 0x7f);
}

/* One byte of framing. False: refuse; *end: it was the last one. */
static bool framing_byte(struct http_request *r, unsigned char c, bool *end)
{
    switch (r->chunk_state) {
    case CHUNK_SIZE:
        return size_byte(r, c);
    case CHUNK_EXTENSION:
        return extension_byte(r, c);
    case CHUNK_SIZE_LF:
        r->chunk_state = r->chunk_left ? CHUNK_DATA : CHUNK_END_CR;
        if (c == '\n' && r->chunk_left > r->max_body - r->body_len) {
            r->refusal = ANSWER_CONTENT_TOO_LARGE;
            return false;
        }
        return c == '\n';
    case CHUNK_DATA_CR:
        r->chunk_state = CHUNK_DATA_LF;
        return c == '\r';
    case CHUNK_DATA_LF:
        r->chunk_state = CHUNK_SIZE;
        r->chunk_digits = 0;
        return c == '\n';
    case CHUNK_END_CR: /* anything else is a trailer */
        r->chunk_state = CHUNK_END_LF;
        return c == '\r';
    default:
        *end = true;
        return c == '\n';
    }
}

static size_t data(struct http_request *r, char *bytes, size_t at, size_t n)
{
    size_t take = n - at < r->chunk_left ? n - at : r->chunk_left;
    memmove(bytes + r->head_len + r->body_len, bytes + at, take);
    r->body_len += (uint32_t)take;
    r->chunk_left -= (uint32_t)take;
    if (r->chunk_left == 0)
        r->chunk_state = CHUNK_DATA_CR;
    return take;
}

enum http_request_result http_chunk_feed(struct http_request *r, char *bytes, size_t *n)
{
    size_t at = r->raw;
    bool end = false;
    r->refusal = ANSWER_BAD_REQUEST;
    while (at < *n && !end) {
        if (r->chunk_state == CHUNK_DATA) {
            at += data(r, bytes, at, *n);
            continue;
        }
        /* A chunk of one byte costs six: more than that for each byte of the largest body is
         * somebody's game. */
        if (++r->framing > 8 * r->max_body + 1024 ||
            !framing_byte(r, (unsigned char)bytes[at], &end))
            return HTTP_REQUEST_REFUSED;
        at++;
    }
    if (end) {
        r->end = (uint32_t)at;
        r->phase = HTTP_PHASE_DONE;
        return HTTP_REQUEST_COMPLETE;
    }
    /* All of it was taken: the next bytes are to come right behind the decoded ones. */
    r->raw = r->head_len + r->body_len;
    *n = r->raw;
    return HTTP_REQUEST_MORE;
}
