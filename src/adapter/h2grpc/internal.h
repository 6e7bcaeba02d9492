/* What the files of the client share; nobody else includes it.
 *
 *   call     IDLE → WAITING (channel.waiting) → WIRE (a stream on a link) → IDLE
 *                      ▲───────── refused ────────┘         and from both → DONE → IDLE
 *   link     RESOLVING → DIALING → [TLS] → SETTINGS → UP → DRAINING → gone; from each to gone
 *
 * Invariants: a call in WIRE has a stream with `on` set, one that waits has at most a stream that
 * keeps its writes. A stream whose call is NULL is in `gone`, and nghttp2 does not know it any
 * more. Links are closed only by the loop's own calls (readiness, timer, flush), never inside an
 * nghttp2 callback: there they are only marked. */
#pragma once

#include "adapter/h2grpc/h2grpc.h"
#include "adapter/h2grpc/message.h"
#include "adapter/h2grpc/metrics.h"
#include "adapter/h2grpc/status.h"
#include "adapter/h2grpc/target.h"
#include "base/rng.h"
#include <nghttp2/nghttp2.h>
#include <openssl/ssl.h>

enum call_state { CALL_IDLE, CALL_WAITING, CALL_WIRE, CALL_DONE /* on_end is due, with rc */ };
enum link_phase {
    LINK_RESOLVING,
    LINK_DIALING,
    LINK_TLS,
    LINK_SETTINGS, /* ours are sent, the server's are awaited */
    LINK_UP,
    LINK_DRAINING, /* told to go away, or out of stream ids: no new streams */
};

enum {
    STREAM_WINDOW = 1 << 20,
    LINK_WINDOW = 4 << 20,
    /* Received for one stream: header names and values, the answer's and the trailer's. */
    HEADERS_MAX = 16 << 10,
    METADATA_MAX = 24,
    TEXT_MAX = 1024,      /* of a grpc-message that is kept, still encoded */
    WRITES_MAX = 1 << 20, /* of h2grpc_write, unsent */
    RETRIES_MAX = 3,      /* of a call, after it was certainly not looked at */
    DRAINING_MAX = 4,     /* links; the oldest is given up for another */
    FAIR_CALLS = 8,       /* answered by a connection before its GOAWAY: dialled again at once */
    STEADY_US = 1000000,  /* up for so long: the next loss starts a new series of waits */
    OUT_SOFT_MAX = 256 << 10, /* not yet taken by the kernel: no further frames are made */
    OUT_MAX = 2 << 20,
};

struct h2grpc_stream {
    struct list link; /* of h2_link.streams, h2grpc.gone or h2grpc.spare */
    struct h2grpc_call *call;
    struct h2_link *on; /* NULL: waits */
    int32_t id;
    uint64_t begin; /* where its HEADERS end at the earliest, as h2_link.queued counts */
    /* our side: prefix, request, then writes (each with its prefix already) */
    size_t request_at;
    struct strbuf writes;
    size_t writes_at;
    bool closing, wrote; /* no more follows; bytes of `writes` are gone, so it cannot be repeated */
    bool sent_all;       /* our END_STREAM is on its way */
    /* the server's side */
    struct grpc_message message;
    bool answered; /* anything came: it was looked at */
    bool grpc;     /* content-type says so */
    int http, status;
    size_t header_bytes, text_len;
    char text[TEXT_MAX];
};

struct h2_link {
    struct list node; /* of h2grpc.links, oldest first */
    struct h2grpc *channel;
    enum link_phase phase;
    int fd;
    struct loop_io io;
    struct loop_resolve resolve;
    struct timer dial_timer;
    SSL *ssl;
    bool want_write; /* the kernel's buffer is full */
    nghttp2_session *session;
    struct strbuf out;
    size_t out_at;
    uint64_t queued, taken; /* bytes that came into `out`, and that the kernel took, ever */
    struct list streams;
    int answered;                    /* streams that the server ended */
    int open;                        /* streams that count against the server's limit */
    struct h2grpc_stream *submitted; /* its HEADERS are not in `out` yet */
    int64_t up_us;
    const char *doomed; /* why it is to be closed as soon as that can be done */
};

struct h2grpc {
    struct loop *loop;
    struct h2grpc_config config; /* numbers only */
    struct h2_target target;
    struct h2_tls *tls; /* NULL: plaintext */
    struct grpc_metrics metrics;
    struct rng rng;
    bool closing;
    int busy; /* inside a callback */

    struct h2_link *current; /* the one for new calls, up or on its way; NULL: none */
    struct list links;       /* current and draining */
    int draining;
    struct timer dial_timer;
    int64_t dial_at_us; /* not before */
    int attempt;
    bool failing; /* the last connection was lost or could not be made */
    bool asked;   /* somebody who does not wait would have liked one */
    char error[200];

    struct list waiting, done; /* of h2grpc_call.link */
    int waiting_n;
    struct loop_task done_task;
    struct loop_flush flush;
    struct list gone, spare; /* streams: not to be touched before the callbacks return; free */
    int spare_n;
};

/* --- channel.c --- */
void h2_channel_want(struct h2grpc *ch); /* a link, when calls wait and there is none */
/* The current link is gone, ch->error says why. up_us: since when it was up (0: never); idle: it
 * was up and nobody misses it. */
void h2_channel_lost(struct h2grpc *ch, int64_t up_us, bool idle);
void h2_channel_drain(struct h2grpc *ch, struct h2_link *k);
void h2_channel_up(struct h2grpc *ch);
void h2_channel_submit(struct h2grpc *ch, struct h2_link *k); /* what waits, as far as it fits */

/* --- request.c --- */
/* The call is over; on_end comes in a moment. status -1: the one that stands for rc. */
void h2_call_done_later(struct h2grpc_call *c, int rc, int status, const char *why);
/* The call of this stream is over, now. */
void h2_call_end(struct h2grpc_stream *s, int rc, int status, struct str message, bool from_server);
/* Certainly not looked at: waits again, or is over with ERR_UNAVAIL. */
void h2_call_refused(struct h2grpc_stream *s, const char *why);
/* Gone with its connection. */
void h2_call_lost(struct h2grpc_stream *s, const char *why);
void h2_call_run_done(struct h2grpc *ch);
void h2_call_cancel_all(struct h2grpc *ch);

/* --- stream.c --- */
struct h2grpc_stream *h2_stream_get(struct h2grpc *ch, struct h2grpc_call *c); /* NULL: no memory */
/* Back to what it was before it met a connection, but for the writes that are still unsent. */
void h2_stream_rewind(struct h2grpc_stream *s);
/* Takes it from its call and its link. */
void h2_stream_drop(struct h2grpc_stream *s);
void h2_stream_reap(struct h2grpc *ch);
void h2_stream_free_all(struct h2grpc *ch);
bool h2_stream_has_body(const struct h2grpc_stream *s);
int h2_stream_write(struct h2grpc_stream *s, struct str message);
/* The next bytes of our side; *eof: these were the last. */
size_t h2_stream_read(struct h2grpc_stream *s, unsigned char *dst, size_t cap, bool *eof);

/* --- session.c --- */
int h2_session_open(struct h2_link *k); /* 0 or ERR_OVERLOAD; queues the preface */
void h2_session_close(struct h2_link *k);
bool h2_session_room(const struct h2_link *k); /* may there be one stream more? */
/* 0; > 0: not on this connection any more; < 0: the call itself is no good. */
int h2_session_submit(struct h2_link *k, struct h2grpc_stream *s);
void h2_session_pump(struct h2_link *k); /* frames into `out` */
void h2_session_feed(struct h2_link *k, const unsigned char *bytes, size_t n); /* may doom it */
void h2_session_reset(struct h2grpc_stream *s); /* RST_STREAM CANCEL, and forget it */
void h2_session_resume(struct h2grpc_stream *s);
void h2_session_goodbye(struct h2_link *k);

/* --- link.c --- */
struct h2_link *h2_link_new(struct h2grpc *ch);         /* NULL: no memory. Dials by itself */
void h2_link_close(struct h2_link *k, const char *why); /* and frees; its calls are over */
void h2_link_fail(struct h2_link *k, const char *why);  /* the same, and the channel is told */
void h2_link_doom(struct h2_link *k, const char *why);  /* later, from anywhere */
void h2_link_flush(struct h2_link *k);                  /* end of the turn; may close it */

/* --- tls.c --- */
struct h2_tls *h2_tls_create(const char *ca_file, char *err, size_t cap); /* NULL and err */
void h2_tls_free(struct h2_tls *t);
SSL *h2_tls_open(const struct h2_tls *t, struct h2_target *target, int fd);
/* 1: done, 0: not yet, -1: *why. */
int h2_tls_handshake(SSL *ssl, const char **why);
/* As recv and send are; errno is EAGAIN, or EPROTO for anything else. */
ssize_t h2_tls_recv(SSL *ssl, void *dst, size_t cap);
ssize_t h2_tls_send(SSL *ssl, const void *bytes, size_t n);
