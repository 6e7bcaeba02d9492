/* Protocols whose replies come in the order of the requests, without a number: one that is missing
 * would shift all the others. So from a dropped reply on nothing more of the connection reaches the
 * client: it is swallowed, or the connection is closed once the dropped reply was read to its end.
 */
#pragma once

#include "protocol.h"

enum { ORDERED_MAX = 65536 }; /* requests under way on a connection; beyond, the protocol is lost */

struct ordered {
    struct tracker *tracker;
    struct toxic *
        *asked; /* a ring: of each request under way the toxic that drops its reply, or NULL */
    size_t head, n, cap;
    struct toxic *current; /* drops the reply that is coming */
    bool in_reply;
};

enum ordered_event { ORDERED_NOTHING, ORDERED_BEGIN, ORDERED_END, ORDERED_LOST };

/* Consumes bytes up to the next event: BEGIN before the first byte of a reply (once), END behind
 * its last one. */
typedef size_t ordered_feed(void *parser, const char *bytes, size_t n, enum ordered_event *event);

void ordered_init(struct ordered *o, struct tracker *t);
void ordered_deinit(struct ordered *o);
void ordered_ask(struct ordered *o, struct toxic *dropper /* taken; NULL: none */);
void ordered_reply(struct ordered *o, ordered_feed *feed, void *parser, const char *bytes,
                   size_t n);
/* A reply whose end is that of the connection. */
void ordered_reply_end(struct ordered *o);
