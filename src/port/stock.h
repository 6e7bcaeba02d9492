/* Units of items: who holds one. In production Redis (adapter/redis_stock), in flow tests a fake
 * (adapter/mem). All operations are asynchronous (base/op.h), of the loop that owns the port. rc <
 * 0 as in err.h: ERR_UNAVAIL, ERR_DEADLINE, ERR_CANCELED, ERR_OVERLOAD = certainly not done;
 * ERR_UNCERTAIN = sent, no answer. */
#pragma once

#include "base/op.h"
#include "base/str.h"
#include "core/event.h"
#include "core/item.h"
#include "core/uuid.h"
#include "core/verdict.h"

/* The one record of an accepted request (architecture 3). */
struct reservation {
    int64_t user_id, order_id;
    struct uuid request_id, reservation_id, message_id;
    enum reservation_status status;
    int64_t epoch, seq, created_at_ms;
    int republished;
    struct verdict verdict;
    bool cancel_refused; /* the buyer asked to cancel, and the order was paid (rule 27) */
    char queue_id[32]; /* the stream id of the last publish, zero-terminated; "" on other queues */
};

/* An order that no rebuild has found: it gives each active one its own epoch (rule 36), so
 * PostgreSQL does not have this one any more, and the record proves nothing. `v`: where its item
 * stands. */
static inline bool reservation_outlived(const struct reservation *r, struct item_version v)
{
    return r->status == RESERVATION_ORDERED && r->epoch < v.epoch;
}

/* --- reserve: outcomes (rc >= 0); codes 0–4 as in the seed --- */
enum stock_reserved {
    STOCK_CREATED = 0, /* found = the new reservation */
    STOCK_REPLAY = 1,  /* this request is known: found = it */
    STOCK_DUPLICATE =
        2, /* the user holds a unit: found.{reservation_id, order_id, request_id} = theirs */
    STOCK_SOLD_OUT = 3,
    STOCK_NO_ITEM = 4,  /* no meta: 404 if not in the catalogue either (`listed`), else 503 */
    STOCK_TOO_LATE = 5, /* the deadline had passed by the store's own clock: no unit was taken */
    STOCK_NOT_OPEN = 6, /* before starts */
    STOCK_ENDED = 7,    /* after ends, or closed */
    STOCK_PAUSED = 8,
    STOCK_BEHIND =
        9, /* the store lacks what this process knows of it (`past`): nothing was taken */
};
/* What this process heard of an item before. A store that has less has lost the end of its history
 * (rule 34a). */
struct stock_past {
    struct item_version seen; /* the newest; epoch 0: nothing */
    /* A reservation that was confirmed in that epoch: asked for unless the call goes over
     * checked_connection, a `connection` of an earlier reserve. witness_user 0: none. */
    int64_t witness_user;
    struct uuid witness_request;
    uint64_t checked_connection;
};
struct stock_reserve {
    struct op op;
    /* in */
    struct item item;
    int64_t user_id, order_id;
    struct uuid request_id, reservation_id, message_id;
    int64_t created_at_us;              /* wall clock, for the event */
    struct str traceparent, tracestate; /* borrowed until on_done */
    int64_t give_up_us;                 /* monotonic: the script takes no unit after it (rule 15) */
    struct stock_past past;
    /* out */
    struct item_version version; /* when rc is 0…3 or 5…9 */
    struct reservation found;
    bool listed;         /* STOCK_NO_ITEM: in sec:items, or that set is missing */
    int64_t sent_us;     /* monotonic: when it was written to the store */
    uint64_t connection; /* that it went over, no two alike; 0: none */
    bool asked_witness;
    struct op_space space;
};

/* --- settle: many reservations of one item, each brought to its verdict once (rules 2–7) --- */
enum stock_settled {
    STOCK_SETTLED,
    STOCK_IGNORED /* gone, or nothing to do */,
    STOCK_LATER /* a rebuild is under way */,
    STOCK_UNREADABLE /* its record is broken: left as it is, the other rows are settled */
};
struct stock_settle_row {
    int64_t user_id;
    struct uuid request_id, reservation_id;
    struct verdict verdict;
    bool give_back; /* this reservation's unit returns to stock, if it was still held */
    /* Ids of the order that exists instead of this reservation's own (ONE_USER_ONE_ORDER; the same
     * key's earlier order): what `buyers` and the record must say. order_id 0: none. */
    int64_t other_order_id;
    struct uuid other_reservation_id, other_request_id;
    enum stock_settled result; /* out */
};
struct stock_settle {
    struct op op;
    struct item item;
    struct stock_settle_row *rows; /* borrowed until on_done */
    int n;                         /* 1…256 */
    struct item_version version;   /* out */
    struct op_space space;
};

/* --- progress: PROCESSING for messages just received (rule 6); best effort, same rows --- */
/* uses struct stock_settle; only user_id, request_id and reservation_id of the rows are read,
 * nothing is returned */

/* --- mark: what became of the publish (rule 1); queues other than streams. rc 0: it has that
 * status now; 1: settled, gone, or another's: left alone --- */
struct stock_mark {
    struct op op;
    struct item item;
    int64_t user_id;
    struct uuid request_id, reservation_id;
    enum reservation_status to; /* RESERVATION_MQ_SENT or RESERVATION_MQ_PENDING */
    struct op_space space;
};

/* --- release: `strict` takes a reservation away as if it had been refused, because its publish
 * certainly was: the same key may compete again (rule 8). rc 0: released; 1: not RESERVED any more,
 * gone, or of another epoch: nothing happened --- */
struct stock_release {
    struct op op;
    struct item item;
    int64_t user_id;
    struct uuid request_id, reservation_id;
    struct item_version version; /* out */
    struct op_space space;
};

/* --- claim: recovery takes a reservation before it publishes again. rc 0: claimed (found is
 * complete); 1: settled meanwhile, gone, or another epoch: leave it --- */
struct stock_claim {
    struct op op;
    struct item item;
    int64_t user_id;
    struct uuid request_id, reservation_id;
    struct reservation found; /* out */
    struct op_space space;
};

/* --- republished: a repeated publish was accepted: it counts, and its queue id is noted, so that
 * rule 28 looks at the newest --- */
struct stock_republished {
    struct op op;
    struct item item;
    int64_t user_id;
    struct uuid request_id, reservation_id;
    char queue_id[32];
    struct op_space space;
};

/* --- refuse: the buyer's cancel was refused, the status tells it. rc 0: noted; 1: released, gone,
 * or another reservation --- */
struct stock_refuse {
    struct op op;
    struct item item;
    int64_t user_id;
    struct uuid request_id, reservation_id;
    struct op_space space;
};

/* --- lookup: one record. rc 0 found, 1 not there --- */
struct stock_lookup {
    struct op op;
    struct item item;
    int64_t user_id;
    struct uuid request_id;
    struct reservation found;    /* out */
    int64_t now_ms;              /* out: the store's clock */
    struct item_version version; /* out: the item's; 0 0: it has lost its state */
    struct op_space space;
};

/* --- pending: unsettled reservations created before a time, oldest first. Each row has a result of
 * its own: one that cannot be read takes nothing away from the others --- */
#define STOCK_PENDING_MAX 128
enum stock_row {
    STOCK_ROW_GOOD,
    STOCK_ROW_GONE,      /* it is listed, but there is no record: only user_id, request_id (and
                            created_at_ms) are known */
    STOCK_ROW_UNREADABLE /* what cannot be read is 0 */
};
struct stock_pending {
    struct op op;
    struct item item;
    int64_t before_ms;                          /* store's clock; created_at < before_ms */
    int offset, max;                            /* max <= STOCK_PENDING_MAX */
    struct reservation rows[STOCK_PENDING_MAX]; /* out */
    enum stock_row results[STOCK_PENDING_MAX];  /* out: of each */
    int n;                                      /* out: rows listed, whatever their results */
    int64_t now_ms, total; /* out: store's clock; size of the whole pending set */
    struct op_space space;
};

/* --- item: its state. rc 0 found, 1 not there --- */
enum stock_state { STOCK_STATE_OPEN, STOCK_STATE_PAUSED, STOCK_STATE_CLOSED };
struct stock_item_info {
    struct item_version version;
    enum stock_state state;
    int64_t starts_ms, ends_ms, expires_ms, total, free, buyers, pending, now_ms;
    bool rebuilding; /* between rebuild_begin and rebuild_end: PAUSED, free is 0 */
};
struct stock_item_get {
    struct op op;
    struct item item;
    struct stock_item_info info; /* out */
    bool listed;                 /* out, as in reserve */
    struct op_space space;
};

/* --- items: the catalogue, in steps; rc 0: `items` holds a page, cursor "0" = the last page. An
 * item that is listed all the while comes at least once, maybe twice --- */
#define STOCK_ITEMS_PAGE 1000
struct stock_items {
    struct op op;
    char cursor[24];    /* in/out; starts as "0" */
    struct item *items; /* out: into the caller's array of `max` (>= STOCK_ITEMS_PAGE) */
    int max, n;
    struct op_space space;
};

/* --- unlist: an item leaves the catalogue. Whether it may is the caller's: one that is listed
 * without meta is lost (rule 34), not over. rc 0 --- */
struct stock_unlist {
    struct op op;
    struct item item;
    struct op_space space;
};

#include "port/stock_commands.h"
#include "port/stock_rebuild.h"

/* --- buyers: the set for the sold-out hint, loaded in steps; rc 0: `page` holds user ids, cursor
 * "0" = the last page --- */
struct stock_buyers {
    struct op op;
    struct item item;
    char cursor[24]; /* in/out; starts as "0" */
    int64_t *users;  /* out: into the caller's array of `max` (>= 1000) */
    int max, n;
    struct op_space space;
};

/* --- warm: an item's keys, once (rule 33 is the caller's). rc 0 warmed, 1 it is there already
 * (nothing changed) --- */
struct stock_warm {
    struct op op;
    struct item item;
    int64_t epoch, total, starts_ms, ends_ms, expires_ms;
    struct op_space space;
};

/* --- control: OPEN, PAUSED, CLOSED. rc 0 done; 1 no such item; 2 not allowed (CLOSED is final) ---
 */
struct stock_control {
    struct op op;
    struct item item;
    enum stock_state to;
    struct item_version version; /* out */
    struct op_space space;
};

/* --- report: what was seen of the item does not fit what the store says, it may have lost
 * something (rule 34). Workers look into it; nothing else happens. Told twice is told once. rc 0
 * --- */
struct stock_report {
    struct op op;
    struct item item;
    struct op_space space;
};

/* --- lease of an instance number (rule 38). rc 0 held; 1 somebody else's --- */
struct stock_slot_lease {
    struct op op;
    int slot;           /* 0…1023 */
    char nonce[33];     /* the owner, zero-terminated */
    int64_t highest_ms; /* the highest id time this owner may use until the lease ends */
    int64_t ttl_ms;
    int64_t floor_ms; /* out: highest_ms of whoever held it before */
    struct op_space space;
};

/* --- ping on the real path: an EVALSHA on a probe key. rc 0 --- */
struct stock_probe {
    struct op op;
    struct op_space space;
};

/* --- Reconciliation (rule 40) --- */

/* inspect: as item, and whether its keys are what they must be. rc 0 sound; 1 it is not there, or
 * half of it, or it is being rebuilt (as for all below); 2 broken: it is not OPEN from now on,
 * alone --- */
struct stock_inspect {
    struct op op;
    struct item item;
    struct stock_item_info info; /* out: 0 */
    char broken[16];             /* out: 2: the key that is not right, zero-terminated */
    bool paused;                 /* out: 2: it was OPEN until now */
    struct op_space space;
};

/* holders: buyers with what their entries say, in steps; rc 0: a page, cursor "0" = the last one.
 * An entry that is there all the while comes at least once, maybe twice --- */
#define STOCK_HOLDERS_PAGE 1024
struct stock_holder {
    int64_t user_id, order_id;
    struct uuid request_id, reservation_id;
};
struct stock_holders {
    struct op op;
    struct item item;
    char cursor[24];           /* in/out; starts as "0" */
    struct stock_holder *rows; /* out: into the caller's array of STOCK_HOLDERS_PAGE */
    int n, unreadable;         /* out: entries that say something else are only counted */
    struct op_space space;
};

/* held: what the store has of up to STOCK_HELD_MAX requests, at one moment. rc 0 --- */
#define STOCK_HELD_MAX 128
struct stock_held_row {
    int64_t user_id;
    struct uuid request_id;
    /* out */
    enum stock_row result;
    struct reservation record; /* if GOOD */
    bool pending, has_entry;   /* among the pending; the user has a buyers entry: */
    struct stock_holder entry; /* that one; nil ids where it cannot be read */
};
struct stock_held {
    struct op op;
    struct item item;
    struct stock_held_row *rows; /* borrowed until on_done */
    int n;
    struct item_version version; /* out */
    struct op_space space;
};

/* mend: buyers and pending agree with this reservation's record afterwards; the stock is not
 * touched. rc 0 mended; 1 nothing to mend --- */
struct stock_mend {
    struct op op;
    struct item item;
    int64_t user_id;
    struct uuid request_id, reservation_id;
    struct op_space space;
};

/* lower: the total is `to`, if it is still `seen` and higher; then free units are taken away until
 * free + held <= total, as far as there are any. rc 0; 1 no such item --- */
struct stock_lower {
    struct op op;
    struct item item;
    int64_t seen, to;
    int64_t taken, total; /* out: free units; as it is now */
    struct op_space space;
};

/* set_total: mid-sale. rc 0 it is so; 1 no such item; 2 fewer are free than it shrinks by; 3 it is
 * not `seen` any more --- */
struct stock_set_total {
    struct op op;
    struct item item;
    int64_t seen, to;
    int64_t total, free; /* out: as they are now; rc 0, 2, 3 */
    struct op_space space;
};

struct stock;
struct stock_ops {
    void (*reserve)(struct stock *, struct stock_reserve *);
    void (*settle)(struct stock *, struct stock_settle *);
    void (*progress)(struct stock *, struct stock_settle *);
    void (*mark)(struct stock *, struct stock_mark *);
    void (*release)(struct stock *, struct stock_release *);
    void (*claim)(struct stock *, struct stock_claim *);
    void (*republished)(struct stock *, struct stock_republished *);
    void (*refuse)(struct stock *, struct stock_refuse *);
    void (*remember)(struct stock *, struct stock_remember *);
    void (*remembered)(struct stock *, struct stock_remembered *);
    void (*forget)(struct stock *, struct stock_forget *);
    void (*lookup)(struct stock *, struct stock_lookup *);
    void (*pending)(struct stock *, struct stock_pending *);
    void (*item)(struct stock *, struct stock_item_get *);
    void (*items)(struct stock *, struct stock_items *);
    void (*unlist)(struct stock *, struct stock_unlist *);
    void (*relist)(struct stock *, struct stock_relist *);
    void (*reports)(struct stock *, struct stock_reports *);
    void (*unreport)(struct stock *, struct stock_unreport *);
    void (*rebuild_begin)(struct stock *, struct stock_rebuild_begin *);
    void (*rebuild_restore)(struct stock *, struct stock_rebuild_restore *);
    void (*rebuild_end)(struct stock *, struct stock_rebuild_end *);
    void (*buyers)(struct stock *, struct stock_buyers *);
    void (*warm)(struct stock *, struct stock_warm *);
    void (*control)(struct stock *, struct stock_control *);
    void (*report)(struct stock *, struct stock_report *);
    void (*slot_lease)(struct stock *, struct stock_slot_lease *);
    void (*probe)(struct stock *, struct stock_probe *);
    void (*inspect)(struct stock *, struct stock_inspect *);
    void (*holders)(struct stock *, struct stock_holders *);
    void (*held)(struct stock *, struct stock_held *);
    void (*mend)(struct stock *, struct stock_mend *);
    void (*lower)(struct stock *, struct stock_lower *);
    void (*set_total)(struct stock *, struct stock_set_total *);
    /* Asks that an operation end: not yet written → ERR_CANCELED; written → its answer, or
     * ERR_UNCERTAIN at once. */
    void (*cancel)(struct stock *, struct op *);
};
struct stock {
    const struct stock_ops *ops;
};

/* News of items, for the sold-out hint: a subscription, delivered on the loop. */
struct stock_news {
    /* A newer version of an item was published. */
    void (*on_version)(struct stock_news *, struct item item, struct item_version v);
    /* The subscription came up or went down (while it is down, hints are off: rule 11). */
    void (*on_link)(struct stock_news *, bool up);
    void *impl; /* the adapter's */
};
