/* A connection to one port that speaks RocketMQ's remoting protocol (name server, broker). For
 * questions only: nothing that it sends changes the world, so that a failure is simply no answer.
 * One question on the wire at a time, the others wait; dialed when there is one, again after it was
 * lost. An answer too late costs the connection. Of the loop's thread. */
#pragma once

#include "adapter/rocketmq/remoting_frame.h"
#include "loop/loop.h"

#define REMOTING_FRAME_MAX (4 << 20)

struct remoting;

struct remoting_call {
    int code;
    const struct remoting_field *fields; /* borrowed until on_done */
    int n;
    int64_t deadline_us;
    /* Exactly once, never inside remoting_ask. rc 0: answered, whatever the answer's code; else
     * ERR_DEADLINE, ERR_UNAVAIL, ERR_CANCELED, ERR_INTERNAL (no sense in it), and `a` is NULL. */
    void (*on_done)(struct remoting_call *c, int rc, const struct remoting_answer *a);
    struct list link; /* internal */
};

/* address: "host:port"; keys NULL or "": not signed; all copied. NULL: the address is none. */
struct remoting *remoting_new(struct loop *l, const char *address, const char *access_key,
                              const char *secret_key);
void remoting_free(struct remoting *r); /* ends its calls first; not inside an on_done of theirs */
void remoting_ask(struct remoting *r, struct remoting_call *c);
const char *remoting_address(const struct remoting *r);
