/* The truth: orders in PostgreSQL. Blocking calls, made on crew threads only, each bounded by its
 * ctx; one port per thread (it is one connection). rc < 0 as in err.h: ERR_UNAVAIL = not done;
 * ERR_UNCERTAIN = the COMMIT's answer was lost: run the same ids again, the inbox decides;
 * ERR_CONFLICT = 40001/40P01: redo the whole call; ERR_INVALID = own failure of the message(s)
 * (rule 20); ERR_NOTFOUND = that of each of them: place does not know the item. */
#pragma once

#include "base/ctx.h"
#include "base/str.h"
#include "core/event.h"
#include "core/item.h"
#include "core/result.h"
#include "core/uuid.h"
#include "core/verdict.h"
#include "port/orders_rebuild.h"

/* One message of the order function (section 5, rules 16–20). */
enum orders_outcome {
    ORDERS_CREATED,     /* a new order */
    ORDERS_KNOWN,       /* settled before, in this or another life: verdict says how */
    ORDERS_REJECTED,    /* now: verdict says why */
    ORDERS_AGAIN,       /* the conflicting row vanished meanwhile: this message once more */
    ORDERS_QUARANTINED, /* its inbox row says so: leave it (rule 25) */
};
struct orders_row {
    /* in */
    struct uuid message_id, request_id, reservation_id;
    int64_t user_id, order_id, created_at_ms;
    struct item_version version;
    /* out */
    enum orders_outcome outcome;
    struct verdict verdict;
    bool give_back;         /* for settle: this reservation's unit returns to Redis */
    int64_t other_order_id; /* as in stock_settle_row */
    struct uuid other_reservation_id, other_request_id;
    int64_t outbox_id;     /* to mark as settled; 0: none of this call's */
    int64_t decided_at_ms; /* by PostgreSQL's clock; of the outbox row within a few ms */
};
/* µs the function spent per step, for the metrics. */
struct orders_timing {
    int64_t inbox_us, orders_us, inventory_us, finish_us;
};

/* A status of ours, not of PostgreSQL: it has an outcome that this version does not know. */
#define ORDERS_UNREADABLE "UNREADABLE"
struct orders_inbox {
    bool found;
    struct uuid message_id;
    char status[16]; /* COMPLETED, REJECTED, QUARANTINED, ORDERS_UNREADABLE */
    struct verdict verdict;
    int64_t order_id;
    /* How to settle it in Redis once more (recovery), exactly as the first time: as in orders_row.
     */
    bool give_back;
    int64_t other_order_id;
    struct uuid other_reservation_id, other_request_id;
    char cancel[16]; /* find_request only: what came of the buyer's cancel, as
                        orders_command_name; "": none was run */
};

struct orders_order {
    struct item item;
    int64_t order_id, user_id, created_at_ms, updated_at_ms;
    struct uuid request_id, reservation_id;
    char status[16]; /* CREATED, PAYING, PAID, CANCELLED, CLOSED */
};

/* An outbox row that was not settled in Redis yet. */
struct orders_unsettled {
    int64_t outbox_id;
    struct item item;
    int64_t user_id;
    struct uuid request_id, reservation_id;
    struct verdict verdict;
    bool give_back;
    int64_t other_order_id;
    struct uuid other_reservation_id, other_request_id;
};

/* A cancel or a payment: what sql/0007_commands.sql tells of it (rule 27). */
enum orders_command_outcome {
    ORDERS_CANCELLED,
    ORDERS_ALREADY, /* to be cancelled, and over before: reason says how */
    ORDERS_PAID,
    ORDERS_REFUNDED, /* the payment's order is over, paid before, or never was: a row of refunds */
    ORDERS_REFUSED,  /* a cancel: PAID, FOREIGN; a payment: PAYMENT_ID_REUSED */
    ORDERS_NOTHING,  /* to be cancelled, and ended without an order: reason says how */
    ORDERS_PARKED,   /* no outcome yet: kept, and told by `parked` when there is one */
    ORDERS_COMMAND_AGAIN,       /* a row vanished meanwhile: this one once more */
    ORDERS_COMMAND_QUARANTINED, /* its inbox row says so: leave it (rule 25) */
    ORDERS_COMMAND_OUTCOMES
};
/* "CANCELLED" … as in PostgreSQL. */
static inline const char *orders_command_name(enum orders_command_outcome o)
{
    static const char *const names[ORDERS_COMMAND_OUTCOMES] = {
        "CANCELLED", "ALREADY", "PAID",  "REFUNDED",   "REFUSED",
        "NOTHING",   "PARKED",  "AGAIN", "QUARANTINED"};
    return names[o];
}
struct orders_command {
    /* in */
    struct uuid message_id, request_id, reservation_id; /* nil: not known */
    int64_t user_id, order_id;
    struct str body;       /* borrowed: kept while it is parked */
    struct str payment_id; /* of a payment, borrowed; and the time by the store's clock */
    int64_t accepted_at_ms;
    /* out */
    enum orders_command_outcome outcome;
    char reason[24]; /* "" or as in PostgreSQL */
    bool fresh;      /* decided by this call */
    /* CANCELLED now: to be settled and marked, with the order's own reservation; 0: nothing. */
    int64_t outbox_id;
    struct uuid settle_reservation_id;
};
/* A command that waited for its order and may run now. */
struct orders_parked {
    struct uuid message_id;
    bool given_up; /* it has waited too long, without an outcome: run it with give_up */
    size_t body_len;
    char body[EVENT_MAX_BYTES];
};
#define ORDERS_PARKED_MAX 64 /* in one call */

/* Outbox rows that the result topic has not heard of, counted up to some bound. */
struct orders_unpublished {
    int64_t waiting, oldest_age_ms; /* 0: none */
};

/* What retention may take in one call. */
struct orders_retention {
    int64_t after_ms;  /* of an item whose keys in Redis have been over for so long */
    int64_t strays_ms; /* of what belongs to no item: when so old */
    int max;           /* rows, about */
    bool results;      /* rows of the outbox must have been published, too */
};
enum orders_table {
    ORDERS_T_OUTBOX,
    ORDERS_T_INBOX,
    ORDERS_T_LEDGER,
    ORDERS_T_ATTEMPTS,
    ORDERS_T_SUSPECTS,
    ORDERS_T_LETTERS,
    ORDERS_T_PARKED,
    ORDERS_T_RUNS,
    ORDERS_T_ACTIONS,
    ORDERS_T_REBUILDS,
    ORDERS_T_TURNS,
    ORDERS_T_LIVES,
    ORDERS_T_ITEMS, /* no rows go: so many items are done */
    ORDERS_TABLES
};
/* "outbox" … as in PostgreSQL. */
static inline const char *orders_table_name(enum orders_table t)
{
    static const char *const names[ORDERS_TABLES] = {
        "outbox",           "consumer_inbox", "stock_ledger",    "consumer_attempt_log",
        "suspect_runs",     "dead_letters",   "parked_commands", "reconciliation_runs",
        "operator_actions", "rebuilds",       "reconcile_items", "worker_lives",
        "activities"};
    return names[t];
}
struct orders_retained {
    int64_t rows[ORDERS_TABLES];
    bool more; /* there may be: its next turn is soon */
};

#define ORDERS_LETTERS_MAX 256 /* in one call */
struct orders_dead_letter {
    bool decoded;               /* false: no message_id; key is the broker's id (rule 24) */
    enum event_command command; /* decoded */
    struct uuid message_id, request_id, reservation_id;
    int64_t user_id, order_id;
    struct item item;
    struct str broker_id, body, reason;
    int deliveries;
};

struct orders_inventory {
    int64_t total, sold, epoch;
    bool warmed;
    int64_t expires_ms; /* when all of the item's keys in Redis are over */
    int64_t now_ms;     /* PostgreSQL's clock */
    int64_t lost_epoch; /* what was accepted below it, and is not known, is lost (rule 37) */
};

/* --- Reconciliation (rule 40) --- */
struct orders_books {
    int64_t total, sold, epoch;
    int64_t timeline, walked; /* what is written to; up to which all orders of Redis were found */
    bool asked;               /* an operator waits for this look */
};
/* What is known of a reservation that Redis holds. */
#define ORDERS_LOOK_MAX 128
struct orders_look {
    struct uuid message_id, reservation_id; /* in */
    /* out */
    struct orders_inbox inbox;
    char order_status[16]; /* of the order with this reservation; "": none */
    bool unsettled;        /* Redis has yet to hear of something (rule 9) */
    int64_t ledger;        /* of its unit: -1 taken, 0 not, or given back */
};
struct orders_active {
    int64_t user_id, order_id;
    struct uuid request_id, reservation_id, message_id;
};
/* "CLEAN", "DISCREPANCY", "FAILED"; findings: JSON, of which a stretch of rounds is told by. */
struct orders_reconciled {
    struct item item;
    int64_t started_ms;
    const char *outcome;
    struct str detail; /* a JSON object, borrowed */
    int64_t walked;    /* the timeline that was walked; 0: none */
    bool answered;     /* who asked may know it */
};

struct orders;
struct orders_ops {
    /* The order function over rows of one item, autocommitted. n = 0 is the breaker's probe (rule
     * 21). */
    int (*place)(struct orders *, const struct ctx *, struct item item, struct orders_row *rows,
                 int n, struct orders_timing *timing);
    /* Commands of one item and kind. give_up: what has no outcome is not parked (any more). One
     * outbox row for each order that ends. */
    int (*cancel)(struct orders *, const struct ctx *, struct item item,
                  struct orders_command *rows, int n, bool give_up);
    int (*pay)(struct orders *, const struct ctx *, struct item item, struct orders_command *rows,
               int n, bool give_up);
    /* Parked commands whose time has come, claimed for a second: *n in: capacity, at most
     * ORDERS_PARKED_MAX; out: how many. */
    int (*parked)(struct orders *, const struct ctx *, int64_t give_up_ms,
                  struct orders_parked *rows, int *n);
    /* Commands of one item and kind that the queue may have lost: those that are not known yet are
     * parked from now on, *n of them. A payment counts as accepted at its time from now on, too. */
    int (*park)(struct orders *, const struct ctx *, struct item item, enum event_command kind,
                const struct orders_command *rows, int *n);
    /* Own failures of parked commands (rule 20): one attempt more for each; those that have
     * max_attempts are quarantined as dead letters and parked no longer: *quarantined of them. */
    int (*parked_failed)(struct orders *, const struct ctx *, const struct uuid *message_ids, int n,
                         const char *error_kind, int max_attempts, int *quarantined);
    /* Ends unpaid orders created before that time (PostgreSQL's clock), the oldest first, but none
     * of whom a payment is known that was accepted within pay_within_ms (rule 31). Their outbox
     * rows, to be settled: *n in: capacity; out: how many. */
    int (*expire)(struct orders *, const struct ctx *, struct item item, int64_t created_before_ms,
                  int64_t pay_within_ms, struct orders_unsettled *rows, int *n);
    /* Marks outbox rows as settled in Redis (one update). */
    int (*mark_settled)(
        struct orders *, const struct ctx *, const int64_t *outbox_ids, int n,
        bool tell /* the result topic has to hear of them; false: it has, or nobody reads it */);
    /* Unsettled rows older than min_age_ms, oldest first, skipping locked ones: *n in: capacity,
     * out: how many. */
    int (*unsettled)(struct orders *, const struct ctx *, int64_t min_age_ms,
                     struct orders_unsettled *rows, int *n);
    /* Settled rows that were not published yet, oldest first, claimed for claim_ms, skipping locked
     * ones (rule 9): *n in: capacity, out: how many. */
    int (*unpublished)(struct orders *, const struct ctx *, int64_t claim_ms, struct result *rows,
                       int *n);
    /* Marks outbox rows as published (one update). */
    int (*mark_published)(struct orders *, const struct ctx *, const int64_t *outbox_ids, int n);
    /* Counted up to max. */
    int (*unpublished_backlog)(struct orders *, const struct ctx *, int max,
                               struct orders_unpublished *backlog);
    /* Retention: one small batch of what is over, adding to *taken. */
    int (*retain)(struct orders *, const struct ctx *, const struct orders_retention *what,
                  struct orders_retained *taken);
    /* The inbox rows of these messages, in the same order. */
    int (*inbox)(struct orders *, const struct ctx *, const struct uuid *message_ids,
                 struct orders_inbox *rows, int n);
    /* The tombstone (rule 25): rc 0 voided now; 1 somebody settled it before: *row says how. One
     * outbox row on void. */
    int (*void_message)(struct orders *, const struct ctx *, struct item item,
                        const struct orders_row *message, enum verdict_reason reason,
                        struct orders_inbox *row);
    /* Inbox QUARANTINED + dead_letters (decoded) or dead_letters only; all n of them or none.
     * settled[i]: that one was settled before, just ack; else it is stored (or was already). */
    int (*quarantine)(struct orders *, const struct ctx *, const struct orders_dead_letter *letters,
                      int n, bool *settled);
    /* Own failures of messages: adds one attempt each, returns the counts (consumer_attempt_log).
     */
    int (*count_attempts)(struct orders *, const struct ctx *, const struct uuid *message_ids,
                          const char *error_kind, int *counts, int n);
    /* Own failures on record so far, without adding. */
    int (*attempts)(struct orders *, const struct ctx *, const struct uuid *message_ids,
                    int *counts, int n);
    /* Rule 23: "this life starts to run this suspect alone"; *dead_alone = lives that ended without
     * clearing it. */
    int (*suspect_begin)(struct orders *, const struct ctx *, const struct uuid *message_id,
                         struct str life, int *dead_alone);
    int (*suspect_clear)(struct orders *, const struct ctx *, const struct uuid *message_ids, int n,
                         struct str life);
    /* This life is alive (each 2 s; a life without a beat for 10 s has ended), and how old the
     * oldest message in its hands is (0: there is none). *fleet_age_ms: the highest of all that are
     * alive, this one too (rule 26). */
    int (*beat)(struct orders *, const struct ctx *, struct str life, int64_t age_ms,
                int64_t *fleet_age_ms);
    /* Reads for query-api. rc 0 found, 1 not there. */
    int (*find_request)(struct orders *, const struct ctx *, struct item item, int64_t user_id,
                        const struct uuid *request_id, struct orders_inbox *row,
                        struct orders_order *order /* order_id 0: none */);
    int (*find_order)(struct orders *, const struct ctx *, int64_t order_id,
                      struct orders_order *order);
    int (*inventory)(struct orders *, const struct ctx *, struct item item,
                     struct orders_inventory *inv);
    /* The items that were warmed and whose keys are not over yet, by id: *n in: capacity, out: how
     * many (rule 34b: what must be there, whatever Redis lists). */
    int (*warmed)(struct orders *, const struct ctx *, struct item *items, int *n);
    /* This life's look at an item begins: rc 0; 1 it is another's turn (whose lease lasts), or
     * there is no such item. */
    int (*reconcile_begin)(struct orders *, const struct ctx *, struct item item, struct str life,
                           int64_t lease_ms, struct orders_books *books);
    /* An item that an operator waits for: rc 0; 1 none. */
    int (*reconcile_asked)(struct orders *, const struct ctx *, struct str life, int64_t lease_ms,
                           struct item *item);
    int (*reconcile_look)(struct orders *, const struct ctx *, struct orders_look *rows, int n);
    /* The item's active orders by user, after that one: *n in: capacity, out: how many. */
    int (*reconcile_orders)(struct orders *, const struct ctx *, struct item item,
                            int64_t after_user, struct orders_active *rows, int *n);
    int (*reconcile_end)(struct orders *, const struct ctx *, struct str life,
                         const struct orders_reconciled *end);
    /* The same with where each stands, but for those whose keys are over within a minute. */
    int (*watch)(struct orders *, const struct ctx *, struct orders_watched *rows, int *n);
    /* --- a rebuild (rules 35–37). An attempt is an epoch; at another its calls are refused --- */
    /* Takes the item from that epoch to the next; what was kept comes along. What it does not find
     * is lost max_hold_ms after its end. rc 0 taken; 1 the epoch is another by now; 2 somebody is
     * at it. */
    int (*rebuild_take)(struct orders *, const struct ctx *, struct item item, int64_t from_epoch,
                        struct str life, struct str reason, int64_t max_hold_ms,
                        struct orders_rebuild *out);
    /* Keeps reservations that wait in Redis, before anything there is emptied; those that are lost
     * already are void instead. rc 0; 1 refused. */
    int (*rebuild_keep)(struct orders *, const struct ctx *, struct item item, int64_t epoch,
                        const struct orders_hold *rows, int n);
    /* Who holds a unit, at one instant: of those kept, the ones without an outcome, and the active
     * orders. Again: anew. rc 0; 1 refused. */
    int (*rebuild_count)(struct orders *, const struct ctx *, struct item item, int64_t epoch,
                         struct orders_held *held);
    /* A page of them, by reservation id, behind `after` (nil: the first). rc 0; n 0: that was all,
     * or refused. *n in: capacity, at most ORDERS_HOLDS_MAX. */
    int (*rebuild_page)(struct orders *, const struct ctx *, struct item item, int64_t epoch,
                        const struct uuid *after, struct orders_hold *rows, int *n);
    /* A step of making all of the item's outbox rows unsettled. *from in: 0 at first; out: where
     * the next step begins, 0: that was all. rc 0; 1 refused. */
    int (*rebuild_resettle)(struct orders *, const struct ctx *, struct item item, int64_t epoch,
                            int64_t *from);
    /* Redis is open again. rc 0, also when that was noted before; 1 refused. */
    int (*rebuild_finish)(struct orders *, const struct ctx *, struct item item, int64_t epoch);
    /* A round trip on the real path, for readiness: the order function with no rows. */
    int (*probe)(struct orders *, const struct ctx *);
};
struct orders {
    const struct orders_ops *ops;
};
