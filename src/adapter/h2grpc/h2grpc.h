/* A gRPC client on nghttp2, with OpenSSL where the target wants TLS: unary calls, server streams,
 * bidirectional streams. A channel is one HTTP/2 connection (prior knowledge, or ALPN h2) to one
 * target, of one loop; no threads. Everything is called on the loop's thread.
 *
 *   h2grpc_start ─ waits for the connection ─► on the wire ─ on_message … ─► on_end, exactly once
 *
 * It fails by: no connection before the deadline, the deadline, cancel, RST_STREAM, GOAWAY, a lost
 * connection, an answer that is no gRPC, a message over the bound, a status that is not OK. Each is
 * an on_end whose rc says whether the server may have acted (err.h):
 *
 *   never handed to a connection   ERR_CANCELED ERR_DEADLINE ERR_UNAVAIL ERR_OVERLOAD, and
 *                                  ERR_INVALID: metadata that cannot be sent, or above the server's
 *                                  bound
 *   certainly not looked at        sent again by itself within the deadline, at most three times
 *                                  (not when h2grpc_write's bytes are gone); then ERR_UNAVAIL. That
 *                                  is REFUSED_STREAM, above GOAWAY's last stream, not taken by the
 *                                  kernel
 *   the server's own status        OK 0; INVALID_ARGUMENT OUT_OF_RANGE UNIMPLEMENTED ERR_INVALID;
 *                                  NOT_FOUND ERR_NOTFOUND; PERMISSION_DENIED UNAUTHENTICATED
 *                                  ERR_DENIED; ABORTED FAILED_PRECONDITION ALREADY_EXISTS
 *                                  ERR_CONFLICT; RESOURCE_EXHAUSTED ERR_UNAVAIL; any other,
 *                                  UNAVAILABLE too, ERR_UNCERTAIN
 *   anything else                  ERR_UNCERTAIN */
#pragma once

#include "base/err.h"
#include "base/list.h"
#include "base/sched.h"
#include "base/str.h"
#include "loop/loop.h"

struct h2grpc;

/* What is 0, NULL or "" takes the default. Borrowed for the call only. */
struct h2grpc_config {
    const char *target;    /* "host:port", "[::1]:port" */
    const char *authority; /* :authority and TLS server name; default: target's */
    bool tls; /* verified against ca_file (default: the system's), server name included */
    const char *ca_file;
    bool prefer_ipv4;                       /* of the addresses that a name has */
    int64_t dial_us;                        /* connecting, TLS included: 2 s */
    int64_t backoff_min_us, backoff_max_us; /* 200 ms × 1.6 … 10 s, 20 % jitter */
    int64_t user_timeout_us;                /* TCP_USER_TIMEOUT: 15 s */
    int max_streams;                        /* calls on the wire at once: 256 */
    int max_pending;                        /* calls that wait for the wire: 4096 */
    size_t max_message;                     /* received: 4 MiB + 64 KiB */
    const char *metric_link;                /* label of this channel's metrics, e.g. "rocketmq" */
};

enum { /* grpc-status; names as in the specification */
       GRPC_OK = 0,
       GRPC_CANCELLED = 1,
       GRPC_UNKNOWN = 2,
       GRPC_INVALID_ARGUMENT = 3,
       GRPC_DEADLINE_EXCEEDED = 4,
       GRPC_NOT_FOUND = 5,
       GRPC_ALREADY_EXISTS = 6,
       GRPC_PERMISSION_DENIED = 7,
       GRPC_RESOURCE_EXHAUSTED = 8,
       GRPC_FAILED_PRECONDITION = 9,
       GRPC_ABORTED = 10,
       GRPC_OUT_OF_RANGE = 11,
       GRPC_UNIMPLEMENTED = 12,
       GRPC_INTERNAL = 13,
       GRPC_UNAVAILABLE = 14,
       GRPC_DATA_LOSS = 15,
       GRPC_UNAUTHENTICATED = 16,
};

struct h2grpc_end {
    int rc;             /* 0, or what is known of the world (err.h) */
    int status;         /* grpc-status, the server's or the one that stands for rc */
    struct str message; /* grpc-message, percent-decoded; or why. Valid during on_end */
    bool from_server;   /* the status is the server's own word */
};

struct h2grpc_header {
    const char *name; /* lower case */
    struct str value;
};

/* One call, embedded in whoever makes it; zero it first. The fields above "internal" are the
 * caller's and borrowed until on_end. */
struct h2grpc_call {
    const char *path;                     /* "/package.Service/Method" */
    const struct h2grpc_header *metadata; /* printable ASCII values; at most 24 */
    int n_metadata;
    struct str request;  /* the (first) message; ptr NULL: none yet */
    bool streaming;      /* more may follow by h2grpc_write; else our side ends with `request` */
    bool fail_fast;      /* do not wait for a connection that is known to be down: ERR_UNAVAIL */
    int64_t deadline_us; /* monotonic; sent as grpc-timeout and kept here; INT64_MAX: none */
    /* Each message, valid during the call. h2grpc_cancel, _write, _start are allowed inside. */
    void (*on_message)(struct h2grpc_call *c, struct str message);
    /* Exactly once, never inside h2grpc_start, _write or _cancel; the call may be started again
     * from inside. */
    void (*on_end)(struct h2grpc_call *c, const struct h2grpc_end *end);
    int64_t sent_us; /* out: when its headers were handed to the connection; 0: never */
    /* internal */
    struct list link;
    struct h2grpc *channel;
    struct h2grpc_stream *stream;
    struct timer timer;
    const char *why;
    int64_t queued_us;
    int state, rc, status, tries;
};

/* Connects in the background as soon as there is a call. NULL: target or files are no good (err).
 */
struct h2grpc *h2grpc_new(struct loop *l, const struct h2grpc_config *c, char *err, size_t err_cap);
/* Ends what is under way first, inside this call (ERR_CANCELED, ERR_UNCERTAIN). Not from inside a
 * callback of its calls. */
void h2grpc_free(struct h2grpc *ch);
bool h2grpc_up(const struct h2grpc *ch); /* connected, and not told to go away */
void h2grpc_start(struct h2grpc *ch, struct h2grpc_call *c);
/* Another message of a streaming call; copied. ERR_OVERLOAD above 1 MiB unsent, or without memory;
 * ERR_INVALID when our side was closed or the call is over. */
int h2grpc_write(struct h2grpc_call *c, struct str message);
/* Half-close, after what was written. Without memory the call ends instead: ERR_OVERLOAD. */
void h2grpc_close_send(struct h2grpc_call *c);
/* Its on_end comes, deferred: ERR_CANCELED if it was not on the wire, else ERR_UNCERTAIN. Harmless
 * on a call that is not under way. */
void h2grpc_cancel(struct h2grpc_call *c);
/* Gives this connection up, at the end of the turn, and dials anew when calls wait: for callers who
 * know that it is dead (heartbeats). why is copied. */
void h2grpc_reconnect(struct h2grpc *ch, const char *why);
