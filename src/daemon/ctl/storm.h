/* The load of a storm: requests numbered 0 … buyers × clicks − 1, each sent at its time over one of
 * a fixed number of connections, tried again with the same key while the answer says "later" or is
 * lost, until each has its outcome.
 *
 *   fresh ─┐                       ┌─ an outcome: counted
 *          ├─► slot ─► POST ─► answer
 *   later ─┘   (bounded)           └─ 429, 503, 504, lost: later, nine times at most
 *
 * Who a request is of, and its key, follow from its number and the seed: nothing is remembered for
 * a buyer, and nothing is allocated while it runs. Later is two queues, of a fixed delay each, so
 * both are in order of time; when they are full, nothing fresh is begun.
 *
 * Where nobody listens, all wait together, longer each time up to a second: what was not sent is no
 * try. Without any answer for silence_us the storm gives up.
 *
 * With a query-api the states of what was accepted are asked until they are final (storm_follow.h).
 *
 * A lost answer is unknown, never a failure: the unit may be held. One thread. */
#pragma once

#include "adapter/http/client.h"
#include "core/item.h"
#include "core/verdict.h"
#include "daemon/ctl/history.h"
#include "daemon/ctl/latency.h"
#include "daemon/ctl/token.h"

#define STORM_CONNECTIONS_MAX 8192
#define STORM_BUYERS_MAX 10000000
#define STORM_REQUESTS_MAX 100000000
#define STORM_TRIES 10 /* the first, and nine more */

struct storm_config {
    struct loop *loop;
    const char *host_port; /* as http_client_new; its text is the Host header, too */
    struct item item;
    int64_t buyers, clicks;
    bool same_key;      /* all clicks of a buyer carry one key */
    int64_t first_user; /* buyer i is user first_user + i */
    uint64_t seed;
    int64_t rate; /* requests a second, whatever the answers do; 0: as fast as they come */
    int connections;
    int64_t timeout_us; /* of one try */
    int64_t limit_us;   /* of all: nothing is sent after it */
    int64_t silence_us; /* without an answer for so long nothing is sent any more */
    const char *query;  /* as host_port, of query-api; NULL: no state is asked */
    int64_t follow_us;  /* one that is accepted is asked for so long */
    const struct token_mint *mint;
    struct history *history; /* NULL: none */
};

/* What happened to tries, and in the end to requests. */
struct storm_outcomes {
    int64_t answers[ANSWERS];
    int64_t unknown;   /* sent, no answer */
    int64_t unsent;    /* no connection */
    int64_t malformed; /* an answer that breaks the contract */
};

struct follow_totals {
    int64_t followed, passed_over; /* acceptances whose state is asked; beyond the bound */
    int64_t final, waiting;        /* of the followed ones; given up before */
    int64_t missing;               /* accepted, and not found (404) in spite of the token */
    int64_t malformed, asked;      /* answers that break the contract; questions */
    int malformed_status;          /* of the last one */
    const char *malformed_why;
};

struct storm_totals {
    int64_t sent; /* tries, those that found no connection included */
    int64_t answered;
    int64_t done; /* requests with their outcome */
    int64_t retries;
    struct storm_outcomes tries, ends;
    struct latency all, accepted; /* of answered tries, from the time they should have been sent */
    /* monotonic µs; 0: did not happen */
    int64_t first_send_us, first_accept_us, last_accept_us, first_sold_out_us, last_answer_us;
    struct follow_totals states;
    bool gave_up;         /* nobody answered for silence_us */
    int malformed_status; /* of the first one */
    const char *malformed_why;
};

struct storm;
/* Heap. NULL: no memory, or host_port is not understood. The config's pointers are borrowed. */
struct storm *storm_new(const struct storm_config *c);
/* on_end: called once, when every request has its outcome or the limit is over and nothing is under
 * way. */
void storm_start(struct storm *s, void (*on_end)(struct storm *s, void *arg), void *arg);
/* Begins nothing more: on_end comes when what is under way has ended. */
void storm_stop(struct storm *s);
const struct storm_totals *storm_totals(struct storm *s);
/* Cuts what is under way (unknown, in the history too). Turns the loop. */
void storm_free(struct storm *s);

/* The key of request j, and the user. */
struct uuid storm_key(const struct storm_config *c, int64_t j);
static inline int64_t storm_user(const struct storm_config *c, int64_t j)
{
    return c->first_user + j / c->clicks;
}
