/* Reservations that stay unsettled although the queue has passed them (rules 28–31): settled again
 * from the inbox, published again with the same message_id, in the end voided.
 *
 *   IDLE → ITEM → COMMANDS → LIST → ORPHANS → LOCATE → INBOX → SETTLE → ACT → NEXT → LIST or ITEM …
 * → IDLE
 *
 *   ITEM     its state; one without keys is retired if its time was over (retire.h)
 *   COMMANDS those that the queue has passed (remembered.h)
 *   LIST     a page of one item's pending reservations, older than recover_after. What of it
 *            cannot be read is counted, told and passed over: it must not stop the others
 *   ORPHANS  members whose record is gone (orphans.h)
 *   LOCATE   where the queue is with each: waiting or in hand → left alone (rule 28). Unknown: the
 *            item's backlog by age decides, or the reservation's own age (rule 31)
 *   INBOX    what PostgreSQL says of the others
 *   SETTLE   those with an outcome, once more as the first time
 *   ACT      those without: claimed and published again, at a bounded rate and not before a full
 *            receive round after the breaker closed (rule 29); or voided (rule 30), and settled so
 *            (recover_row.h)
 *
 * All of it is safe at any time for the truth: the inbox decides. Bounded: one page at a time, a
 * few pages (and at most RECOVER_LOOKS items, most of which have none) per interval, rotating over
 * the items. Loop thread. */
#pragma once

#include "app/orphans.h"
#include "app/recover_row.h"
#include "app/remembered.h"
#include "app/retire.h"
#include "app/settling.h"
#include "app/share.h"
#include "base/ctx.h"
#include "base/flow.h"
#include "base/map.h"
#include "base/sched.h"

#define RECOVER_PAGES 8   /* with something in them, per interval */
#define RECOVER_LOOKS 512 /* at an item, per interval */
#define RECOVER_ROWS STOCK_PENDING_MAX
#define RECOVER_REMEMBERED 16384

struct worker;

struct recover {
    struct flow flow;
    struct timer timer;
    bool stopped;
    int pages, looks; /* in this interval */
    int item_at, offset;
    struct item item;
    int64_t skew_ms; /* the store's clock − ours */
    int64_t ends_ms; /* the item's end; 0: unknown */

    struct stock_item_get item_op;
    struct stock_pending list;
    struct remembered remembered;
    struct orphans orphans;
    struct retire retire;
    struct recover_row rows[RECOVER_ROWS]; /* candidates of this page */
    int n_rows, good, waiting, settled_rows, unknown;
    int unreadable; /* in this interval */
    int under_way;  /* operations of this step */

    struct share_job job;
    struct ctx ctx;
    struct uuid ids[RECOVER_ROWS];
    struct orders_inbox inbox[RECOVER_ROWS];
    struct settling settling;
    int act_at, acting; /* rows begun; rows under way */

    double tokens; /* recover_rate */
    int64_t tokens_at_us;
    /* When a reservation was last published again from here: monotonic, by the hash of its id. */
    struct map published;
    int unknown_seen; /* in this interval */
};

void recover_start(struct worker *w);
void recover_stop(struct worker *w);
void recover_deinit(struct worker *w);
bool recover_idle(const struct worker *w);
/* A row's flow ended. */
void recover_row_ended(struct worker *w);
