/* What the stock port does about loss: the catalogue and the reports (rule 34), and the steps of a
 * rebuild (rules 35, 36). Part of port/stock.h, whose stock_state it needs: include that. */
#pragma once

#include "base/op.h"
#include "core/item.h"
#include "core/uuid.h"

/* --- relist: items join the catalogue, all of them in the same instant: where it was lost, one
 * that came before the others would make these look as if they were not for sale (rule 34). rc 0
 * --- */
struct stock_relist {
    struct op op;
    const struct item *items; /* borrowed until on_done */
    int n;                    /* > 0 */
    struct op_space space;
};

/* --- reports: items of which somebody saw that something is lost (rule 34), at most `max` of them,
 * in any order. rc 0 --- */
#define STOCK_REPORTS_MAX 128
struct stock_reports {
    struct op op;
    struct item items[STOCK_REPORTS_MAX]; /* out */
    int n;                                /* out */
    struct op_space space;
};

/* --- unreport: this item's report is taken up. rc 0 --- */
struct stock_unreport {
    struct op op;
    struct item item;
    struct op_space space;
};

/* --- a rebuild, in steps that each carry its epoch: at another they are refused, and each is done
 * once, in order, however often it arrives (rules 35, 36). rc 0 it is done; 1 refused --- */
/* The item is closed to everybody and set to these values; whether anything of it was there. */
struct stock_rebuild_begin {
    struct op op;
    struct item item;
    int64_t epoch, total, starts_ms, ends_ms, expires_ms;
    enum stock_state after; /* the state it will have at the end */
    bool was_there;         /* out */
    struct op_space space;
};
/* Those who hold a unit get record, buyers entry and, unsettled, their place in pending. The first
 * step removes all that was in the latter two, and may have no rows. */
#define STOCK_RESTORE_MAX 512
struct stock_hold {
    struct uuid reservation_id, message_id, request_id;
    int64_t user_id, order_id, created_at_ms;
    bool ordered; /* else it waits for its outcome */
};
struct stock_rebuild_restore {
    struct op op;
    struct item item;
    int64_t epoch, step;           /* 1, 2, … */
    const struct stock_hold *rows; /* borrowed until on_done */
    int n;                         /* 0…STOCK_RESTORE_MAX */
    struct op_space space;
};
/* Open again (or what it was to be), with so many free units. */
struct stock_rebuild_end {
    struct op op;
    struct item item;
    int64_t epoch, step; /* behind the last restored */
    int64_t total, free; /* as they were counted together */
    struct op_space space;
};
