/* The request path without sockets: bytes of one connection in, one request at a time out, or a
 * refusal. What is accepted does not depend on how the bytes are cut. llhttp reads the head;
 * everything that two parsers could read differently is refused by rules of our own, before and
 * after it. Bodies are framed here. Pure, no memory but the caller's. */
#pragma once

#include "base/str.h"
#include "core/verdict.h"

#define HTTP_MAX_HEADERS 64

/* Relative to the request's first byte, so that the buffer may move; off 0: absent. */
struct http_span {
    uint32_t off, len;
};

enum http_phase {
    HTTP_PHASE_HEAD,
    HTTP_PHASE_LENGTH,
    HTTP_PHASE_CHUNKED,
    HTTP_PHASE_DONE,
    HTTP_PHASE_REFUSED
};

enum http_method { HTTP_METHOD_GET, HTTP_METHOD_HEAD, HTTP_METHOD_POST, HTTP_METHOD_OTHER };

struct http_request {
    uint32_t max_header, max_body;
    enum http_phase phase;
    enum answer refusal;

    enum http_method method;
    bool http_1_0, keep_alive;
    bool expects_continue; /* and its body is not there yet: cleared by whoever has told the client
                              to go on */
    struct http_span method_name, target, path, query, host, authorization, idempotency_key,
        content_type, traceparent, tracestate;
    uint32_t head_len; /* the body starts there */
    uint32_t body_len;
    uint32_t end; /* when done: bytes of the input that this request took */

    /* Internal: the scan of the head. */
    uint32_t scanned, line, first, first_len, lines;
    /* Internal: framing of the body. */
    uint32_t length, chunk_left, raw, framing;
    uint8_t chunk_state, chunk_digits;
};

enum http_request_result { HTTP_REQUEST_MORE, HTTP_REQUEST_COMPLETE, HTTP_REQUEST_REFUSED };

void http_request_init(struct http_request *r, uint32_t max_header, uint32_t max_body);

/* bytes: all of the connection's bytes from the request's first one on, *n of them; on a later call
 * the same with more at the end, wherever they are then. A chunked body is decoded in place: *n
 * shrinks by the framing that is not needed any more. There is room enough when the buffer holds
 * max_header + max_body bytes and one more. After COMPLETE what stands behind `end` belongs to the
 * next request. REFUSED stays: the connection must be closed after the answer. */
enum http_request_result http_request_feed(struct http_request *r, char *bytes, size_t *n);

static inline struct str http_span_str(struct http_span s, const char *bytes)
{
    return s.off ? (struct str){bytes + s.off, s.len} : (struct str){NULL, 0};
}

/* --- between the files of the parser --- */
/* The complete head at [first, head_len): fills in the results, or says what is wrong. */
bool http_head_parse(struct http_request *r, const char *bytes, enum answer *refusal);
enum http_request_result http_chunk_feed(struct http_request *r, char *bytes, size_t *n);
/* host[:port] as we accept it in a Host header and in an absolute target. */
bool http_host_ok(struct str host);
bool http_is_token(struct str s);
