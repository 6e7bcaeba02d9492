/* What a worker's PostgreSQL would know, for the conformance suite: an inbox by message_id, own
 * failures, dead letters. It decides on each delivery as the worker does, and says in the end
 * whether the queue kept its word. */
#pragma once

#include "base/rng.h"
#include "port/queue.h"

#define MODEL_MAX_ATTEMPTS 8

struct model_event {
    int64_t published_us; /* its first publish began */
    bool accepted;        /* some publish was */
    bool fails;           /* by itself, always */
    bool slow;            /* held for longer than a lease */
    int deliveries, effects, attempts;
    bool quarantined; /* among the dead letters */
};
struct model {
    struct item *items;
    int n_items;
    int n;                      /* events 1…n */
    struct model_event *events; /* [n + 1] */
    int n_raw;                  /* bodies that are no events: "no event 0"… */
    bool *raw;                  /* [n_raw]: among the dead letters */
    int undelivered, unended;   /* events; unended: raw ones too */
    int delivered_to;           /* all up to it were delivered */
    int duplicates, dead, raw_again;
    bool healed; /* storing always succeeds, nothing is slow */
    struct rng rng;
};

enum model_does {
    MODEL_ACK,   /* it has an outcome now */
    MODEL_LATER, /* back to the queue */
    MODEL_HOLD,  /* model_end and an ack when its work is done */
};

void model_init(struct model *m, struct item *items, int n_items, int n, uint64_t seed);
void model_deinit(struct model *m);
struct item model_item(const struct model *m, int number);
/* A message came, whatever becomes of it. */
void model_saw(struct model *m, const struct queue_message *q);
/* It is worked on. */
enum model_does model_take(struct model *m, const struct queue_message *q);
/* The work that was held is committed: whoever comes second changes nothing. */
void model_end(struct model *m, const struct queue_message *q);
/* Never delivered, and published longest ago: when that was; INT64_MAX: all were delivered. */
int64_t model_oldest_undelivered_us(struct model *m, struct item item, bool any_item);
/* What must hold in the end. */
void model_assert(const struct model *m);
