/* A small HTTP/1.1 client for tools (storm, health checks): keep-alive, one request of a connection
 * at a time, on a loop. Not for the hot path of the services. */
#pragma once

#include "base/op.h"
#include "base/str.h"
#include "loop/loop.h"

#define HTTP_CLIENT_BODY_MAX 16384
#define HTTP_CLIENT_VALUE_MAX 256 /* of a header that the call tells */

struct http_client; /* one connection, reconnecting on demand */

struct http_call {
    struct op
        op; /* rc 0: answered; ERR_UNAVAIL: not sent; ERR_UNCERTAIN: sent, no answer in time */
    struct str request;  /* the complete request, borrowed until on_done */
    int status;          /* out */
    int retry_after_s;   /* out: of a Retry-After in seconds; 0: none, or a date */
    struct str body;     /* out, valid during on_done only */
    struct str location; /* out, valid during on_done only: of a Location; empty: none, or longer
                            than HTTP_CLIENT_VALUE_MAX */
    int64_t sent_us, answered_us;
    struct op_space space;
};

/* "127.0.0.1:8080", "[::1]:80", "name:80", or a unix socket (a path). NULL when it is none of
 * these. */
struct http_client *http_client_new(struct loop *l, const char *host_port);
/* Not while a call is under way. */
void http_client_send(struct http_client *c, struct http_call *call);
void http_client_free(struct http_client *c); /* a call under way completes as ERR_UNCERTAIN,
                                                 deferred; before loop_free */
