/* An HTTP/1.1 server of one loop: keep-alive, pipelining (answered in order, one request of a
 * connection at a time), llhttp with our own strict rules on top. Whatever two parsers could read
 * differently is refused and the connection closed; nothing behind a bad request is executed.
 * Absolute deadlines for header, body and response writing. */
#pragma once

#include "base/str.h"
#include "core/uuid.h"
#include "core/verdict.h"
#include "loop/loop.h"

struct http_exchange;
struct http_service;

struct http_route {
    const char *method; /* "GET" (also answers HEAD) or "POST" */
    /* "/v1/orders/{}": each {} matches one non-empty segment, given as params[0…] */
    const char *pattern;
    const char *name; /* metric label */
    void (*on_request)(struct http_service *s, struct http_exchange *x);
};

#define HTTP_MAX_PARAMS 4

/* One request being answered. Views are valid until it is answered. */
struct http_exchange {
    struct str method, path,
        query; /* path: as sent, not percent-decoded; a path with % or // or a dot segment is 404 */
    struct str params[HTTP_MAX_PARAMS];
    /* {NULL,0}: absent. A second one of the first three is refused with 400 */
    struct str authorization, idempotency_key, content_type, traceparent, tracestate;
    struct str body;
    int64_t received_us;            /* monotonic: when its first byte was read */
    const struct http_route *route; /* NULL in refusals before routing */
    /* The client went away before the answer: x is dead after this call, which comes once. Set by
     * whoever answers later, may be NULL (then the answer is still due, and goes nowhere).
     *
     * Gone is: a reset, or a write that fails. The end of the client's sending (FIN) is not: it may
     * have half-closed, and then it gets its answer. close() sends the same FIN; the client's
     * kernel adds a reset when there was something unread, or as soon as anything reaches the
     * closed socket (an answer earlier in the pipeline, 100 Continue). So a client that closes
     * while its only request waits, having read all it was sent, is heard of with the answer itself
     * and not before: nothing short of writing to it tells the two apart. Such a request runs to
     * its end within its budget; everybody else's departure is heard at once. */
    void (*on_gone)(struct http_exchange *x);
    void *viewer; /* whoever answers later: its own */
};

/* What is served, embedded in the program's struct. */
struct http_service {
    const struct http_route *routes;
    int n_routes;
};

struct http_limits {
    int64_t header_us, read_us, write_us,
        idle_us; /* absolute: whole header; whole request; whole response; between requests */
    int max_connections; /* above: accepted and closed at once, counted */
    int max_header;      /* bytes of request line and headers: 431 (414 for the request line) */
    int max_body;        /* 413 */
};

struct http_server;

/* Listens on "127.0.0.1:8080", "[::1]:0", ":8080". reuse_port: several loops share the port. NULL
 * with a message in err. */
struct http_server *
http_server_new(struct loop *l, const char *listen, bool reuse_port,
                const struct http_limits *limits, struct http_service *service,
                const char *metric_prefix /* "seckill_http" or "seckill_admin" */, char *err,
                size_t err_cap);
int http_server_port(const struct http_server *s);
int http_server_connections(const struct http_server *s);
/* Stops accepting: new connections are no longer begun (http_listen_quiet); for 200 ms, or a
 * quarter of the time, those that had begun are still taken in; then the listener is closed, so no
 * client sees a reset. Idle connections get their next answer with Connection: close, or are closed
 * after two seconds of silence (one second before the deadline if that is earlier); every close
 * lingers: our end is sent, then what still comes is read for up to a second. on_drained (deferred,
 * may free s) when none is left or at the deadline, when the rest is cut. */
void http_server_drain(struct http_server *s, int64_t deadline_us,
                       void (*on_drained)(struct http_server *s, void *arg), void *arg);
void http_server_free(struct http_server *s); /* cuts what is open */

/* Answers; x must not be touched after. extra: complete header lines ("Location: /x\r\n") or
 * {NULL,0}. */
void http_respond(struct http_exchange *x, int status, struct str content_type, struct str extra,
                  struct str body);
/* application/problem+json of an answer, with Retry-After where it belongs; request_id may be NULL;
 * detail may be NULL. */
void http_problem(struct http_exchange *x, enum answer a, const struct uuid *request_id,
                  const char *detail);
/* The same with more members: `members` is raw JSON to append, e.g.
 * `"order_id":"7","reservation_id":"…"`. */
void http_problem_with(struct http_exchange *x, enum answer a, const struct uuid *request_id,
                       const char *detail, struct str members);
/* And with complete header lines, as http_respond's extra: WWW-Authenticate, Idempotent-Replayed.
 */
void http_problem_extra(struct http_exchange *x, enum answer a, const struct uuid *request_id,
                        const char *detail, struct str members, struct str extra);
/* The loop it came in on. */
struct loop *http_exchange_loop(const struct http_exchange *x);
