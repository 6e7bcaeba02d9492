/* Members of `pending` whose record is gone (a torn restore, somebody's hand). There is nothing to
 * publish again, but PostgreSQL may know how the request ended. A look into the inbox, then: with
 * an outcome, or without one after max_hold of usable time (told as lost), settle takes the member
 * away (rule 2); until then it stays, since its event may still wait. Embedded in recover; loop
 * thread. */
#pragma once

#include "app/settling.h"
#include "app/share.h"
#include "base/ctx.h"
#include "port/orders.h"

#define ORPHANS_MAX 16 /* of a page; the others' turn comes when these are gone */

struct worker;

struct orphan {
    int64_t user_id, created_at_ms; /* the latter by the store's clock */
    struct uuid request_id;
    bool found; /* out */
    struct orders_inbox inbox;
    struct orders_order order;
};
struct orphans {
    struct worker *w;
    struct item item;
    struct orphan rows[ORPHANS_MAX];
    int n;
    int taken; /* out: members that are gone now */
    void (*on_end)(struct orphans *o);
    struct share_job job;
    struct ctx ctx;
    struct settling settling;
};

/* n > 0, rows filled in. on_end once, never inside. */
void orphans_start(struct orphans *o, struct worker *w, struct item item,
                   void (*on_end)(struct orphans *o));
