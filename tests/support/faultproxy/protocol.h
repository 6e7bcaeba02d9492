/* Between the tracker and the protocols it knows. A protocol gets a connection's bytes of both
 * directions in the order in which they were read; the requests' are passed on by the tracker (but
 * HTTP/2's, which passes them itself), the replies' by the protocol. */
#pragma once

#include "tracker.h"

struct protocol {
    const char *name;
    bool passes_requests;
    void *(*open)(struct tracker *t); /* NULL without memory */
    void (*close)(void *state);
    void (*on_request)(void *state, const char *bytes, size_t n);
    void (*on_reply)(void *state, const char *bytes, size_t n);
    void (*on_reply_end)(void *state); /* the server has ended its sending; may be NULL */
    void (*flush)(void *state);        /* passes what it holds back of a reply; may be NULL */
};

extern const struct protocol protocol_resp, protocol_pgsql, protocol_http1, protocol_http2;

struct conn *tracker_conn(const struct tracker *t);
void tracker_pass(struct tracker *t, enum stream stream, const void *bytes, size_t n);
/* From here on nothing more reaches the client: it is counted as swallowed by this toxic (the first
 * one stays). */
void tracker_swallow(struct tracker *t, struct toxic *by);
struct toxic *tracker_swallower(const struct tracker *t); /* NULL: it passes */
/* The protocol does not understand the connection any more: from here on everything passes, unless
 * a reply was dropped already. */
void tracker_lost(struct tracker *t, const char *why);
bool tracker_is_lost(const struct tracker *t);
