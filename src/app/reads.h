/* Reads of PostgreSQL for buyers, each shared by everybody who asks for the same at the same time.
 * A read is joined only until it begins: what it sees then is never older than the question, so
 * that who has heard "SUCCEEDED" finds the order. At most two reads of one thing are under way: one
 * runs, one waits and collects.
 *
 * Bounded: `max` reads in hand, and the jobs port has its own bound; a read refused by either is
 * ERR_OVERLOAD. Waiters are embedded in flows, whose number is bounded. Of one loop. */
#pragma once

#include "base/hash.h"
#include "base/list.h"
#include "base/map.h"
#include "base/metric.h"
#include "base/sched.h"
#include "port/jobs.h"

enum reads_kind { READS_REQUEST, READS_ORDER, READS_ITEM };

struct reads_key {
    enum reads_kind kind;
    struct item item;       /* request, item */
    int64_t id;             /* request: the user; order: the order */
    struct uuid request_id; /* request */
};

struct reads_result {
    struct orders_inbox row;           /* request */
    struct orders_order order;         /* order_id 0: none */
    struct orders_inventory inventory; /* item */
};

struct read;
struct reads_waiter {
    /* Once, never inside reads_ask. rc 0 found, 1 not there, or an error; result is valid during
     * the call. */
    void (*on_read)(struct reads_waiter *w, int rc, const struct reads_result *result);
    struct read *read; /* internal; NULL: does not wait */
    struct list link;
};

struct reads {
    /* set by the owner before reads_init; borrowed */
    struct jobs *jobs;
    struct sched *sched;
    int64_t timeout_us; /* one read, waiting for a connection included */
    int max;
    /* internal */
    struct read *all;
    struct list free;
    struct map by_key;
    struct hash_key secret;
    int busy;
    struct {
        struct metric *coalesced, *refused, *queued, *running;
    } count;
};

int reads_init(struct reads *r);    /* 0, or ERR_OVERLOAD without memory */
void reads_deinit(struct reads *r); /* nothing may be under way */
/* 0: on_read comes; ERR_OVERLOAD: it does not. w->on_read is set. */
int reads_ask(struct reads *r, const struct reads_key *key, struct reads_waiter *w);
/* on_read will not come. The read that nobody waits for any more is cancelled. Harmless when not
 * waiting. */
void reads_leave(struct reads_waiter *w);
static inline int reads_busy(const struct reads *r)
{
    return r->busy;
}
