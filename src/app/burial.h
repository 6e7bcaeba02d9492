/* Messages that will never become an order by themselves: stored as dead letters, then acked; while
 * they cannot be stored they are not acked (rule 24). What comes together is stored together: the
 * backlog of a bad deployment is thousands, with healthy messages behind it. One transaction of one
 * item at a time, of as many as are done in time (core/batch_limit.h). Loop thread.
 *
 *   waiting → STORE → acked                     happy path
 *           STORE → waiting, fewer together     out of time, or one of many is refused
 *           STORE → back to the queue           anything else; also one that fails alone. One that
 *                                               the broker gave up is left to its lease: going
 *                                               back would acknowledge it
 *   waiting → dropped                           its lease was over */
#pragma once

#include "app/share.h"
#include "base/ctx.h"
#include "core/batch_limit.h"
#include "core/item.h"
#include "port/orders.h"

struct worker;
struct work;
struct grave;

struct burials {
    struct list waiting; /* struct grave.link; bounded by what is in hand */
    struct batch_limit limit;
    struct timer timer; /* what is received in one turn of the loop is stored together */
    /* the transaction under way */
    bool busy;
    struct share_job job;
    struct ctx ctx;
    struct item item;
    int n;
    struct grave *graves[ORDERS_LETTERS_MAX];
    struct orders_dead_letter letters[ORDERS_LETTERS_MAX];
    bool settled[ORDERS_LETTERS_MAX];
};

void burial_init(struct worker *w);
void burial_deinit(struct worker *w); /* nothing may be under way */
/* One that this version cannot read. Not decoded: bytes that are no event, raw, without ids. why: a
 * static string. */
void burial_unreadable(struct work *k, bool decoded, const char *why);
/* An event with its ids: also quarantined in the inbox (rule 25). on_end, if not NULL, is called
 * when the storing has ended, before the ack; k is no longer the caller's from the start. */
void burial_start(struct work *k, const char *why, void (*on_end)(struct worker *w));
