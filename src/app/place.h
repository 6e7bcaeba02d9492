/* One item's messages of one kind, orders or commands (command.h): one transaction, and what
 * becomes of each message.
 *
 *   PICK → RUN → JUDGE → PICK … → BLAME → END     happy path: one part, committed, handed to finish
 *   JUDGE → PAUSE → RUN     a conflict or a lost connection: the same ids again, at most
 *                           tx_attempts within tx_budget and the retry budget (rule 32); an answer
 *                           that was lost is never taken for a failure, the inbox decides
 *   JUDGE → PICK            a message's own fault: the part is halved (rule 20), one message alone
 *                           is blamed; of an item that PostgreSQL does not know all are
 *   BLAME → COUNT → END     the blamed are counted (unless all of a halved batch failed alike), and
 *                           given back, or buried at max_attempts
 *   JUDGE → BLAME           many messages ran out of time: back to their lane, for smaller batches
 *   infrastructure          everything not yet committed goes back to the queue, uncounted
 *
 * Invariant: each work is in exactly one of: a part still to run, handed on (finish, disposal,
 * burial, lanes), or blamed. Loop thread; the call itself runs on the crew. */
#pragma once

#include "app/share.h"
#include "base/ctx.h"
#include "base/flow.h"
#include "base/sched.h"
#include "core/item.h"
#include "port/orders.h"

#define PLACE_BATCH_MAX 256
#define PLACE_PARTS_MAX 16 /* halving 256 leaves at most 9 to do */

struct worker;
struct work;

struct place_part {
    int from, n;
};

struct batch {
    struct flow flow;
    struct worker *w;
    struct item item;
    enum event_command command;      /* what all of it is: EVENT_CREATE makes orders */
    void (*on_end)(struct batch *b); /* then it is gone */
    int n;
    struct place_part parts[PLACE_PARTS_MAX], at; /* a stack of what is still to run; at: now */
    int n_parts;
    bool halved, any_ok;
    int n_blamed;

    struct share_job job;
    struct ctx ctx;
    int tries;
    int64_t first_try_us;
    struct orders_timing timing;
    struct timer pause;

    struct work **works;  /* [n] */
    struct work **blamed; /* [n] */
    struct uuid *ids;     /* [n] of the blamed */
    int *counts;          /* [n] of the blamed */
    /* [n], parallel to works; the one or the other */
    struct orders_row *rows;
    struct orders_command *commands;
};

/* Takes n works (1…256) of one item and kind over. */
void place_start(struct worker *w, struct item item, struct work **works, int n,
                 void (*on_end)(struct batch *b));
