/* A session: one client id at all proxies of its topic's route, as the broker's people mean it: a
 * producer, or a simple consumer of one group and topic.
 *
 *   init ─ route asked at every configured proxy, again each 1–2 s until one answers ─► on_route
 *        ─ per channel of the route: Telemetry, Settings ─► SETTLED ─► on_settled
 *        ─ heartbeat each 10 s; route anew each 30 s (a failure keeps the old one)
 *
 * A lost stream, a code that says that our settings are gone, or two missed heartbeats lead back to
 * the right step by themselves; settings are sent again at once. */
#pragma once

#include "adapter/rocketmq/client.h"

enum { RMQ_BROKERS_MAX = 32, RMQ_ADDRESSES_MAX = 8 };

struct rmq_broker {
    char name[RMQ_NAME_MAX];
    /* Any of these reaches it. LOCAL proxies tell one, their own; CLUSTER tells the access point.
     */
    struct rmq_channel *channels[RMQ_ADDRESSES_MAX];
    int n_channels;
    int readable, writable; /* queues of its master */
    int32_t queue_id;       /* one that is readable: what a receive names */
};

struct rmq_route {
    struct rmq_broker brokers[RMQ_BROKERS_MAX];
    int n; /* 0: not known yet */
    int64_t known_us;
};

/* One session at one channel. */
enum rmq_member_state {
    RMQ_MEMBER_DOWN,    /* no stream; the timer opens it */
    RMQ_MEMBER_OPEN,    /* settings sent, no answer yet */
    RMQ_MEMBER_SETTLED, /* the proxy knows them */
};
struct rmq_member {
    struct rmq_session *session;
    struct rmq_channel *channel;
    enum rmq_member_state state;
    bool leaving;            /* the channel is no longer in the route, or the session closes */
    bool told;               /* that we leave */
    int failures, missed;    /* streams in a row that ended unsettled; heartbeats without answer */
    bool resync_wanted;      /* by the open timer, which also bounds the wait for the answer */
    int64_t resync_after_us; /* not sent again before */
    struct timer open_timer, heartbeat_timer, reconnect_timer;
    struct rmq_call telemetry, heartbeat; /* heartbeat: the termination, too */
    unsigned char telemetry_buf[2048], heartbeat_buf[512];
};

enum rmq_session_kind { RMQ_PRODUCER, RMQ_CONSUMER };

struct rmq_session {
    /* the owner's, before rmq_session_init */
    enum rmq_session_kind kind;
    const char *topic, *group; /* borrowed; group: consumers only */
    bool may_lack;             /* no topic is no complaint: a dead letter topic appears on demand */
    void (*on_route)(struct rmq_session *s); /* the first, and each one that differs. May be NULL */
    /* m->state became SETTLED, or stopped being so. May be NULL. */
    void (*on_settled)(struct rmq_session *s, struct rmq_member *m);
    void (*on_closed)(struct rmq_session *s); /* of rmq_session_close; deferred */
    /* to be read */
    struct rocketmq *mq;
    char client_id[96];
    struct rmq_route route;
    int max_attempts; /* of the group, by the proxy's settings; 0: not known */
    /* internal */
    struct list link;                             /* rocketmq.sessions */
    struct rmq_member *members[RMQ_CHANNELS_MAX]; /* by the channel's index; NULL: never was one */
    bool closing, closed;
    struct timer route_timer, close_timer;
    struct rmq_route_query {
        struct rmq_call call;
        struct rmq_session *session;
        bool answered;
        unsigned char buf[2048];
    } queries[2]; /* two proxies are asked at a time: a dead one does not hold the start up */
    int next_access, route_failures;
    int64_t route_asked_us;
    struct loop_task closed_task;
    struct rmq_said {
        bool set;
        enum rmq_method by;
        char text[384];
    } said[RMQ_COMPLAINTS];
};

void rmq_session_init(struct rmq_session *s, struct rocketmq *mq); /* begins at once */
/* NotifyClientTermination at each channel, half-close; on_closed at the end or at the deadline. The
 * owner's own calls are over by then. */
void rmq_session_close(struct rmq_session *s, int64_t deadline_us);
/* After its calls are over: after rmq_session's close, or inside rocketmq_queue_free when the
 * channels are gone. */
void rmq_session_deinit(struct rmq_session *s);

/* NULL: this channel is not in the session's route. */
struct rmq_member *rmq_session_member(struct rmq_session *s, const struct rmq_channel *ch);
bool rmq_session_settled(const struct rmq_session *s, const struct rmq_channel *ch);
/* The proxy said that it does not know our settings (40015; 50001 on a receive): they are sent
 * again, at most once a second. on_settled tells when the proxy has them; if it had lost them
 * without our knowing, it first tells that they are gone. */
void rmq_session_resync(struct rmq_session *s, struct rmq_channel *ch);
/* The route is asked for anew, soon (40300, 40402): at most once a second. */
void rmq_session_refresh(struct rmq_session *s);
/* The channel to use for this broker now: not isolated, and (settled) where the proxy knows our
 * settings; if all are isolated, any. NULL: none settled. */
struct rmq_channel *rmq_broker_channel(struct rmq_session *s, const struct rmq_broker *b,
                                       bool settled);

/* What is wrong, for people (complaint.c): logged once per change, a metric,
 * rocketmq_queue_complaint. rmq_session_heed takes any answer and does what follows from its class:
 * complaint, resync, refresh, counting of throttling; a good one takes back what the same method
 * had complained of. The caller's own consequences are its own. */
void rmq_session_heed(struct rmq_session *s, struct rmq_channel *ch, const struct rmq_answer *a);
void rmq_complain(struct rmq_session *s, enum rmq_complaint what, enum rmq_method by,
                  const char *text);
void rmq_content(struct rmq_session *s, enum rmq_complaint what, enum rmq_method by);
