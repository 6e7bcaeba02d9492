/* Inside the adapter: what its two halves share. All of it belongs to one loop.
 *
 *   queue.c      the port: new, close, free, ready
 *   channel.c    one connection per proxy address, its isolation        (adapter/h2grpc below)
 *   call.c       one call: headers, signature, packing, decoding, classes of answers
 *   code.c       the answers' codes       method.c  the calls       arena.c  memory of an answer
 *   sign.c       date and signature       complaint.c  what is wrong, for people
 *   session.c    a client id with its route and settings: producer, each consumer group (session.h)
 *   telemetry.c  the stream of settings and commands, heartbeats, per session and channel
 *   route.c      which broker is reached by which channel
 *   producer.c   publishing (producer.h)     results.c  the results port
 *   consumer.h   the other half: receive, ack, extend, retry later, dead letters, backlog
 */
#pragma once

#include "adapter/h2grpc/h2grpc.h"
#include "adapter/rocketmq/arena.h"
#include "adapter/rocketmq/code.h"
#include "adapter/rocketmq/method.h"
#include "adapter/rocketmq/rocketmq.h"
#include "adapter/rocketmq/sign.h"
#include "base/metric.h"
#include "base/rng.h"
#include "rocketmq.pb-c.h"

enum {
    RMQ_CHANNELS_MAX = 16, /* proxy addresses */
    RMQ_TARGET_MAX = 128,  /* "host:port" and its zero */
    RMQ_NAME_MAX = 128,    /* topic (127), group (120), broker */
    RMQ_HEADERS = 8,
};

struct rocketmq;
struct rmq_session;
struct rmq_consumer; /* consumer.h */
struct rmq_producer; /* producer.h */

/* --- a proxy address --- */
struct rmq_channel {
    struct rocketmq *mq;
    struct h2grpc *h2;
    char target[RMQ_TARGET_MAX]; /* as reached: after endpoint_map */
    bool isolated;               /* it failed; skipped while there are others, until a heartbeat */
    int calls;                   /* under way, streams included */
    int sends;                   /* SendMessage of these: at most config.max_sends */
    int64_t reconnect_after_us;  /* given up on heartbeats' word not before */
    unsigned named;              /* the last reading of a route that told it */
    unsigned turned;             /* how often it was turned to another address */
};

/* The channel of an address that a route or the configuration tells; made on first sight. NULL: all
 * RMQ_CHANNELS_MAX are in use, or it is no address (logged). A channel that is in no route, has no
 * call under way and was not told in this reading of a route (rocketmq.readings) may be turned to
 * another address then, which `turned` tells; the memory stays to the end. */
struct rmq_channel *rmq_channel_get(struct rocketmq *mq, const char *host, int port);
/* A call's end says whether the proxy is alive. Each that is lost isolates it; only heartbeats and
 * routes take it back, so that a proxy which answers some calls and not others is not sent to and
 * fro. */
void rmq_channel_failed(struct rmq_channel *ch, const char *why);
void rmq_channel_alive(struct rmq_channel *ch);
/* A route changed: those in none are not isolated any more, as nobody would ever take them back. */
void rmq_channels_rest(struct rocketmq *mq);

/* --- a call --- */
struct rmq_answer {
    enum rmq_method method;
    /* 0: the proxy answered, and the code of its last status is of a class with rc 0. Else an error
     * of err.h, made of class or transport: it says what is known of the world. */
    int rc;
    enum rmq_class class; /* RMQ_UNKNOWN, or RMQ_THROTTLED/DENIED/REFUSED, without a code */
    int code;             /* 0: no status came */
    bool transport;       /* no word of the service: connection, deadline, gRPC status */
    const char *text;     /* of the status, or gRPC's; never NULL; valid during on_answer */
};

/* One call of a session. Embedded in whoever makes it; zero it first. Under way from a successful
 * start until on_answer. */
struct rmq_call {
    /* the caller's; kept over calls */
    void *buf; /* where the request is packed: stays untouched until on_answer */
    size_t buf_cap;
    /* Each message decoded, valid during the call. NULL: nobody wants them. */
    void (*on_message)(struct rmq_call *c, const ProtobufCMessage *message);
    /* Exactly once, never inside rmq_call_start or _cancel. It may be started again from inside. */
    void (*on_answer)(struct rmq_call *c, const struct rmq_answer *a);
    /* internal */
    struct h2grpc_call h2;
    struct rmq_session *session;
    struct rmq_channel *channel;
    enum rmq_method method;
    bool busy, canceled, bad; /* bad: an answer that cannot be decoded */
    int code;
    char text[160];
    char request_id[40], date[20], authorization[RMQ_AUTHORIZATION_MAX];
    struct h2grpc_header headers[RMQ_HEADERS];
};

/* Packs and starts. ERR_INVALID: the request does not fit into buf; then nothing happens. fail_fast
 * as in h2grpc. Telemetry's stream stays open for rmq_call_write. */
int rmq_call_start(struct rmq_call *c, struct rmq_session *s, struct rmq_channel *ch,
                   enum rmq_method m, const ProtobufCMessage *request, int64_t deadline_us,
                   bool fail_fast);
/* The same with a request that is packed already (rmq_call_pack), for a second attempt. */
void rmq_call_start_packed(struct rmq_call *c, struct rmq_session *s, struct rmq_channel *ch,
                           enum rmq_method m, size_t n, int64_t deadline_us, bool fail_fast);
int rmq_call_pack(struct rmq_call *c, const ProtobufCMessage *request);  /* bytes, or ERR_INVALID */
int rmq_call_write(struct rmq_call *c, const ProtobufCMessage *message); /* as h2grpc_write */
/* on_answer still comes, deferred. Harmless when not under way. */
void rmq_call_cancel(struct rmq_call *c);

/* Requests' parts. */
static inline char *rmq_text(const char *z)
{
    return (char *)(uintptr_t)z; /* protobuf-c packs through char * what it does not change */
}
static inline Rmq__Resource rmq_resource(const char *name)
{
    Rmq__Resource r = RMQ__RESOURCE__INIT;
    r.name = rmq_text(name);
    return r;
}
static inline Rmq__Duration rmq_duration(int64_t us)
{
    Rmq__Duration d = RMQ__DURATION__INIT;
    d.has_seconds = d.has_nanos = true;
    d.seconds = us / 1000000;
    d.nanos = (int32_t)(us % 1000000) * 1000;
    return d;
}
static inline int64_t rmq_timestamp_ms(const Rmq__Timestamp *t) /* 0: none */
{
    return t && t->seconds >= 0 && t->seconds < INT64_C(1) << 40
               ? t->seconds * 1000 + t->nanos / 1000000
               : 0;
}

/* --- the whole adapter of one loop --- */
enum rmq_complaint { /* the weightiest first: that is what is told */
                     RMQ_SAYS_DENIED,
                     RMQ_SAYS_NO_TOPIC,
                     RMQ_SAYS_NO_GROUP,
                     RMQ_SAYS_REFUSED,     /* whatever we ask: some setting of ours is no good */
                     RMQ_SAYS_UNREACHABLE, /* no configured proxy answers: may pass by itself */
                     RMQ_COMPLAINTS
};

struct rmq_metrics {
    struct metric *accepted, *refused, *unknown; /* publishes */
    struct metric *publish_duration, *retries, *odd_receipts, *overload, *waiting;
    struct metric *throttled, *isolated, *isolations, *resyncs, *reopened, *missed_heartbeats;
    struct metric *route_failures, *undecodable;
    struct metric *complaints[RMQ_COMPLAINTS];
};

struct rocketmq {
    struct queue port; /* first */
    struct loop *loop;
    struct rocketmq_config c; /* defaults filled in; its strings are owned */
    struct rng rng;
    bool ending; /* inside rocketmq_queue_free: nothing new is begun */

    struct rmq_channel channels[RMQ_CHANNELS_MAX];
    int n_channels;
    unsigned readings;                            /* of routes */
    struct rmq_channel *access[RMQ_CHANNELS_MAX]; /* the configured proxies: routes are asked there
                                                   */
    int n_access;
    Rmq__Address access_address[RMQ_CHANNELS_MAX]; /* the same, as requests tell it */
    Rmq__Address *access_addresses[RMQ_CHANNELS_MAX];
    Rmq__Endpoints access_point;

    struct list sessions; /* struct rmq_session.link */
    unsigned next_index;  /* of client ids */
    struct rmq_producer *producer;
    struct rmq_consumer *consumer; /* NULL without config.consume */
    struct rmq_arena arena;        /* of the answer that is being handed out */
    bool arena_busy;
    struct rmq_signer signer;
    char hostname[64];
    struct list later; /* struct rmq_later */
    struct op *closing;
    struct rmq_metrics m;
};

static inline struct rocketmq *rmq_of(struct queue *q)
{
    return container_of(q, struct rocketmq, port);
}
static inline int64_t rmq_now_us(const struct rocketmq *mq)
{
    return loop_now_us(mq->loop);
}
static inline const struct rocketmq *rmq_of_const(const struct queue *q)
{
    return (const struct rocketmq *)(const void *)q; /* port is its first member */
}
/* Uniform in [us × 0.8, us × 1.2]: so that a fleet does not move in step. */
int64_t rmq_jitter_us(struct rocketmq *mq, int64_t us);

/* Completes an operation that has nothing to wait for: never inside its submit. In its op_space. */
struct rmq_later {
    struct timer timer;
    struct list link;
    struct rocketmq *mq;
    struct op *op;
    int rc;
};
void rmq_later_start(struct rocketmq *mq, struct op_space *space, struct op *op, int rc);
void rmq_metrics_init(struct rmq_metrics *m, const char *queue /* label */);
