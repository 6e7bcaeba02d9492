/* What a connection says: told apart by the client's first bytes (HTTP/2, HTTP/1, PostgreSQL, RESP,
 * or plain bytes), followed from then on, so that a drop_reply toxic can find the reply of exactly
 * the request it matched, whenever the toxic is added. It only watches, until a reply is dropped; a
 * protocol it loses is passed on as it is (logged as protocol_lost). */
#pragma once

#include "conn.h"

struct tracker *tracker_new(struct conn *c); /* NULL without memory */
void tracker_free(struct tracker *t);
/* Takes what was read of a direction and emits what may go on into its link. */
void tracker_bytes(struct tracker *t, enum stream stream, const char *bytes, size_t n);
/* The source of a direction has ended; its end has not been emitted yet. */
void tracker_end(struct tracker *t, enum stream stream);
const char *tracker_protocol(const struct tracker *t);
