/* Inside the consumer half: where messages come from, the messages in hand, and what is asked about
 * them.
 *
 *   consumer.c  its life: the two sessions (the group, its dead letters), outlets, the clean end
 *   slot.c      one message in hand, made of what a proxy sent
 *   poll.c      one ReceiveMessage: a long poll at one broker
 *   receive.c   the receive operations, the messages that wait for one, who polls for how many
 *   work.c      ack, extend, retry later: an operation on many messages, as steps on each of them
 *   ack.c       AckMessage: the steps of a turn, many entries a request
 *   change.c    ChangeInvisibleDuration: a longer lease, or a short one ("later")
 *   again.c     rule 22: publish again, then ack
 *   lag.c       the backlog, over remoting.h
 *
 * Always true: messages in hand or ready + those that polls were promised <= max_in_hand. And of
 * each message at most one request is under way, since a stale handle would be taken (the design's
 * rocketmq.md, fact 12). */
#pragma once

#include "adapter/rocketmq/consumer.h"
#include "adapter/rocketmq/producer.h"
#include "adapter/rocketmq/session.h"

enum {
    RMQ_BODY_KEPT = 8192, /* a longer body is kept cut: undecodable, so it becomes a dead letter */
    RMQ_HANDLE_MAX = 1024,
    RMQ_TEXT_MAX = 1024,  /* what publishing again needs: tag, keys, our properties */
    RMQ_POLL_BATCH = 32,  /* a proxy cuts more to it */
    RMQ_POLLS = 4,        /* at one broker, while they come back full */
    RMQ_ACK_ENTRIES = 64, /* in a request */
    RMQ_CHANGES = 64,     /* ChangeInvisibleDuration under way */
};

struct rmq_source;
struct rmq_outlet;
struct rmq_work;

/* --- a message in hand: preallocated, so that what is received is bounded by configuration --- */
enum rmq_hold {
    RMQ_HELD,
    RMQ_ACKED,
    RMQ_GIVEN_BACK,
    RMQ_LOST, /* its lease is over, or nobody knows */
};
struct rmq_slot {
    struct queue_message m;
    struct list free_link;
    struct list steps; /* struct rmq_step.link; of the first one a request may be under way */
    struct rmq_outlet *from;
    enum rmq_hold hold;
    bool altered;  /* the body is not what was sent (cut, damaged): it is never published again */
    bool released; /* free as soon as its steps are over */
    struct rmq_message again; /* what to publish again; its strings are in text */
    size_t text_used;
    int64_t received_us;
    char handle[RMQ_HANDLE_MAX]; /* the one; zero-terminated */
    char text[RMQ_TEXT_MAX];
    char body[RMQ_BODY_KEPT];
};

/* --- where messages come from --- */
struct rmq_poll {
    struct rmq_call call;
    struct rmq_outlet *from;
    bool busy, heard; /* heard: a first word of the answer came */
    int promised;     /* slots it may still fill */
    int asked, got, surplus;
    int64_t sent_us, lease_until_us;
    unsigned char buf[1024];
};
/* A broker of a source's route, by its name. Its polls and acks go to its proxies. */
struct rmq_outlet {
    struct rmq_source *source;
    char name[RMQ_NAME_MAX];
    bool present;                /* in the route now, and readable */
    bool full;                   /* the last poll came back full */
    int32_t queue_id;            /* one that is readable */
    int slots;                   /* messages in hand from here */
    int polling;                 /* polls under way */
    int failures;                /* in a row */
    int64_t not_before_us;       /* not polled before */
    struct rmq_channel *channel; /* the last one that was used, if it is `turned` still */
    unsigned turned;
    struct list acks; /* struct rmq_step.queued */
    struct rmq_poll polls[RMQ_POLLS];
};
struct rmq_source {
    struct rmq_consumer *c;
    struct rmq_session session; /* topic and group */
    bool dead;                  /* the group's dead letter topic */
    char topic[RMQ_NAME_MAX], group[RMQ_NAME_MAX];
    struct rmq_outlet *outlets[RMQ_BROKERS_MAX]; /* made on first sight, kept */
    int n_outlets;
    int turn;     /* whose poll is next, so that few slots go round */
    int promised; /* slots, to its polls under way */
    bool closed;
};

/* --- operations on messages --- */
enum rmq_work_kind { RMQ_WORK_ACK, RMQ_WORK_EXTEND, RMQ_WORK_LATER };
/* One message of an operation. Steps on one message run one after the other. */
struct rmq_step {
    struct list link;   /* rmq_slot.steps */
    struct list queued; /* rmq_outlet.acks or rmq_consumer.changes, until it is sent */
    struct rmq_work *work;
    struct rmq_slot *slot;
    struct rmq_again *again;
    bool sent;
};
struct rmq_work {
    struct list link; /* rmq_consumer.works */
    struct rmq_consumer *c;
    struct queue_batch *b; /* NULL: our own, nobody waits for it */
    enum rmq_work_kind kind;
    int64_t delay_us, deadline_us;
    int n, left, done, failed_rc;
    bool unknown;
    struct timer timer;
    struct loop_task over;
    struct rmq_step steps[];
};

struct rmq_consumer_metrics {
    struct metric *batch_size, *receive_failures, *receive_duration, *redelivered, *lease_lost,
        *surplus, *damaged, *cut, *polls, *expired, *in_hand, *again, *lag, *age;
};

struct rmq_consumer {
    struct rocketmq *mq;
    struct rmq_source group, dead;
    struct rmq_consumer_metrics m;

    struct rmq_slot *slots;
    struct list free_slots;
    int n_slots, n_free;

    struct list receives; /* by their op_space */
    struct list ready;    /* received, and nobody to give it to yet: queue_message.link */
    int n_ready;
    int64_t dead_polled_us; /* when dead letters had their last poll */
    struct timer tick;      /* an outlet may be polled again */
    struct timer linger;    /* what is ready is handed over though its poll goes on */
    struct loop_task pump;

    struct list works;
    struct loop_flush flush; /* sends the acks and changes of this turn */
    struct list idle_acks;   /* struct rmq_ack */
    struct list changes;     /* struct rmq_step.queued */
    struct timer change_timer;
    struct rmq_change *change_pool;
    struct list idle_changes;

    struct rmq_lag *lag;

    bool closing, leaving; /* leaving: the sessions say goodbye */
    int64_t close_deadline_us;
    struct timer close_timer;
    void (*on_closed)(struct rocketmq *mq);
};

static inline struct rmq_consumer *rmq_consumer_of(struct queue *q)
{
    return rmq_of(q)->consumer;
}
static inline int64_t rmq_consumer_now(const struct rmq_consumer *c)
{
    return rmq_now_us(c->mq);
}
static inline int rmq_slots_left(const struct rmq_consumer *c)
{
    return c->n_free - c->group.promised - c->dead.promised;
}
static inline struct rmq_slot *rmq_slot_of(struct queue_message *m)
{
    return container_of(m, struct rmq_slot, m);
}

/* consumer.c */
/* Where to send what concerns this outlet now; settled: only where our settings are known. NULL:
 * nowhere. */
struct rmq_channel *rmq_outlet_channel(struct rmq_outlet *o, bool settled);
int rmq_source_polling(const struct rmq_source *s); /* polls under way */
bool rmq_polls_run(const struct rmq_consumer *c);   /* any, of either source */
void rmq_consumer_moved(struct rmq_consumer *c);    /* something ended: the clean end may go on */

/* slot.c */
int rmq_slots_init(struct rmq_consumer *c, int n); /* 0 or ERR_OVERLOAD: no memory */
void rmq_slots_deinit(struct rmq_consumer *c);
/* NULL: no slot is free, or it cannot be held (no handle, or one that is too long). */
struct rmq_slot *rmq_slot_take(struct rmq_outlet *o, const Rmq__Message *message,
                               int64_t lease_until_us);
void rmq_slot_lose(struct rmq_slot *slot); /* not ours any more, as far as anybody knows */
void rmq_slot_free(struct rmq_slot *slot); /* at once, or when its steps are over */
/* True: the body is what its digest says, or there is none that we know. */
bool rmq_digest_fits(const Rmq__Digest *d, const void *body, size_t n);

/* poll.c */
void rmq_poll_start(struct rmq_poll *p, struct rmq_channel *ch, int n);

/* receive.c */
void rmq_receive_init(struct rmq_consumer *c);
void rmq_receive_end(struct rmq_consumer *c);  /* completes what waits */
void rmq_receive_pump(struct rmq_consumer *c); /* hands over, and begins the polls */
void rmq_receive_pump_later(struct rmq_consumer *c);
void rmq_receive_got(struct rmq_consumer *c, struct rmq_slot *slot); /* into ready */
/* A poll of the group ended well: the queue can be used. */
void rmq_receive_succeeded(struct rmq_consumer *c);
/* It failed: if no other one is under way, the first receive ends with it. */
void rmq_receive_failed(struct rmq_consumer *c, int rc);
bool rmq_receive_cancel(struct rmq_consumer *c, struct op *op);
void rmq_receive_give_back(struct rmq_consumer *c); /* what is ready, to the broker */

/* work.c */
void rmq_work_init(struct rmq_consumer *c);
void rmq_work_end(struct rmq_consumer *c); /* all of them, unknown where something was sent */
/* Ours: these messages go back, and their slots are freed at the end. */
void rmq_work_give_back(struct rmq_consumer *c, struct rmq_slot **slots, int n);
/* The end of a step: rc 0 and done: it took effect; rc 0: it is not ours any more; else an error.
 * The message's next step runs. */
void rmq_step_end(struct rmq_step *s, int rc, bool done);
bool rmq_work_cancel(struct rmq_consumer *c, struct op *op);

/* ack.c */
void rmq_ack_add(struct rmq_step *s);
void rmq_ack_flush(struct rmq_consumer *c);
void rmq_ack_deinit(struct rmq_consumer *c);

/* change.c */
int rmq_change_init(struct rmq_consumer *c);
void rmq_change_deinit(struct rmq_consumer *c);
void rmq_change_add(struct rmq_step *s);
void rmq_change_flush(struct rmq_consumer *c);

/* again.c */
bool rmq_again_due(const struct rmq_step *s);
void rmq_again_start(struct rmq_step *s);
void rmq_again_free(struct rmq_step *s);

/* lag.c */
struct rmq_lag *rmq_lag_new(struct rmq_consumer *c); /* NULL: no memory */
void rmq_lag_free(struct rmq_lag *l);
void rmq_lag_ask(struct rmq_lag *l, struct queue_lag *op);
bool rmq_lag_cancel(struct rmq_lag *l, struct op *op);
