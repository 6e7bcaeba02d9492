/* drop_reply: which request's reply is dropped, and the account of it. A matched request is told by
 * its number among the toxic's matches, so the choice follows from the seed. */
#pragma once

#include "base/str.h"
#include "conn.h"

/* Whether a request is what `match` means; each protocol has its own. */
typedef bool drop_matcher(const char *match, const void *request);

/* Asks the drop_reply toxics of the protocol that apply to this connection. The chosen one, a
 * reference of the caller's; NULL: the reply is to pass. `text`: the request, for the log. */
struct toxic *drop_choose(struct conn *c, const char *protocol, drop_matcher *matches,
                          const void *request, struct str text);
/* `match` is a part of the request (a struct str). */
bool drop_contains(const char *match, const void *request);
/* The complete reply has come and was dropped; `by` may be gone from its proxy. Takes the
 * reference. Then the connection is cut or reset, if the toxic says so: nothing more may pass. */
void drop_done(struct conn *c, struct toxic *by);
void drop_count(struct conn *c, struct toxic *by); /* the same, but the connection goes on */
/* The server did not act on it after all: its reply was not dropped. Takes the reference. */
void drop_void(struct conn *c, struct toxic *by);
