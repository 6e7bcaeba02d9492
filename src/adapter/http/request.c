/* The head is scanned as it arrives: its end is found and bytes that may stand nowhere in it are
 * refused at once. When it is complete it is parsed in one go (request_head.c). Then the body is
 * counted, or unchunked (request_chunk.c). */
#include "adapter/http/request.h"

void http_request_init(struct http_request *r, uint32_t max_header, uint32_t max_body)
{
    *r = (struct http_request){.max_header = max_header, .max_body = max_body};
}

static enum http_request_result refuse(struct http_request *r, enum answer a)
{
    r->phase = HTTP_PHASE_REFUSED;
    r->refusal = a;
    return HTTP_REQUEST_REFUSED;
}

/* Everything but control characters: visible, space, tab (checked again where it stands), and bytes
 * above 127. */
static inline bool plain(unsigned char c)
{
    return c >= 0x20 ? c != 0x7f : c == '\t';
}

/* The first byte at or behind i that is not plain; a stretch of eight at a time, as most of a head
 * is one. */
static uint32_t skip_plain(const unsigned char *b, uint32_t i, uint32_t limit)
{
    const uint64_t ones = UINT64_C(0x0101010101010101), highs = ones << 7;
    for (; limit - i >= 8; i += 8) {
        uint64_t w;
        memcpy(&w, b + i, 8);
        uint64_t del = w ^ (ones * 0x7f);
        if (((w - ones * 0x20) & ~w & highs) | ((del - ones) & ~del & highs))
            break;
    }
    while (i < limit && plain(b[i]))
        i++;
    return i;
}

/* A line ended before `at`, where CR LF stands. True at the end of the head. */
static bool end_of_line(struct http_request *r, uint32_t at, enum answer *refusal)
{
    uint32_t len = at - r->line;
    if (len == 0 && r->lines == 0) {
        /* One empty line before a request is allowed: old clients send it after a body. */
        if (r->line)
            *refusal = ANSWER_BAD_REQUEST;
        return false;
    }
    if (len == 0)
        return true;
    if (r->lines++ == 0) {
        r->first = r->line;
        r->first_len = len;
    } else if (r->lines > HTTP_MAX_HEADERS + 1) {
        *refusal = ANSWER_HEADERS_TOO_LARGE;
    }
    return false;
}

static enum http_request_result scan_head(struct http_request *r, const char *bytes, size_t n)
{
    const unsigned char *b = (const unsigned char *)bytes;
    uint32_t limit = n < r->max_header ? (uint32_t)n : r->max_header;
    uint32_t i = r->scanned;
    enum answer refusal = ANSWERS;
    while (i < limit) {
        if (i == r->line &&
            (b[i] == ' ' || b[i] == '\t')) /* a folded line, or a space before the request */
            return refuse(r, ANSWER_BAD_REQUEST);
        i = skip_plain(b, i, limit);
        if (i == limit)
            break;
        if (b[i] != '\r')
            return refuse(r, ANSWER_BAD_REQUEST);
        if (i + 1 >= limit)
            break;
        if (b[i + 1] != '\n')
            return refuse(r, ANSWER_BAD_REQUEST);
        bool end = end_of_line(r, i, &refusal);
        if (refusal != ANSWERS)
            return refuse(r, refusal);
        i += 2;
        r->line = i;
        if (end) {
            r->head_len = i;
            return HTTP_REQUEST_COMPLETE;
        }
    }
    r->scanned = i;
    if (limit == r->max_header)
        return refuse(r, r->lines ? ANSWER_HEADERS_TOO_LARGE : ANSWER_URI_TOO_LONG);
    return HTTP_REQUEST_MORE;
}

static enum http_request_result count_body(struct http_request *r, size_t n)
{
    if (n - r->head_len < r->length)
        return HTTP_REQUEST_MORE;
    r->body_len = r->length;
    r->end = r->head_len + r->length;
    r->phase = HTTP_PHASE_DONE;
    return HTTP_REQUEST_COMPLETE;
}

enum http_request_result http_request_feed(struct http_request *r, char *bytes, size_t *n)
{
    if (r->phase == HTTP_PHASE_HEAD) {
        enum http_request_result found = scan_head(r, bytes, *n);
        if (found != HTTP_REQUEST_COMPLETE)
            return found;
        enum answer refusal = ANSWER_BAD_REQUEST;
        if (!http_head_parse(r, bytes, &refusal))
            return refuse(r, refusal);
        r->raw = r->head_len;
        if (r->phase == HTTP_PHASE_HEAD)
            r->phase = HTTP_PHASE_LENGTH;
        if (*n > r->head_len) /* whoever sends the body at once did not mean to wait */
            r->expects_continue = false;
    }
    switch (r->phase) {
    case HTTP_PHASE_LENGTH:
        return count_body(r, *n);
    case HTTP_PHASE_CHUNKED: {
        enum http_request_result got = http_chunk_feed(r, bytes, n);
        return got == HTTP_REQUEST_REFUSED ? refuse(r, r->refusal) : got;
    }
    case HTTP_PHASE_DONE:
        return HTTP_REQUEST_COMPLETE;
    case HTTP_PHASE_HEAD:
    case HTTP_PHASE_REFUSED:
        break;
    }
    return HTTP_REQUEST_REFUSED;
}
