/* The stock port in memory, on a virtual clock: the rules A of rules.md in plain C, for flow tests.
 * Not for production.
 *
 * An operation arrives half its latency after it was submitted, is applied then, and answers the
 * other half later; never inside the submitting call. When op.deadline_us comes first it is
 * ERR_UNCERTAIN, and what was sent is still applied. A deadline in the past is ERR_DEADLINE, not
 * done. Cancelled in the turn of the submission: ERR_CANCELED, not done; later: ERR_UNCERTAIN. Two
 * processes are two ports on one store. One thread. */
#pragma once

#include "adapter/mem/mem_clock.h"
#include "adapter/mem/mem_fault.h"
#include "port/stock.h"

enum mem_stock_op {
    MEM_STOCK_RESERVE,
    MEM_STOCK_SETTLE,
    MEM_STOCK_PROGRESS,
    MEM_STOCK_MARK,
    MEM_STOCK_RELEASE,
    MEM_STOCK_CLAIM,
    MEM_STOCK_REPUBLISHED,
    MEM_STOCK_REFUSE,
    MEM_STOCK_REMEMBER,
    MEM_STOCK_REMEMBERED,
    MEM_STOCK_FORGET,
    MEM_STOCK_LOOKUP,
    MEM_STOCK_PENDING,
    MEM_STOCK_ITEM,
    MEM_STOCK_ITEMS,
    MEM_STOCK_UNLIST,
    MEM_STOCK_BUYERS,
    MEM_STOCK_WARM,
    MEM_STOCK_CONTROL,
    MEM_STOCK_SLOT_LEASE,
    MEM_STOCK_PROBE,
    MEM_STOCK_REPORT,
    MEM_STOCK_INSPECT,
    MEM_STOCK_HOLDERS,
    MEM_STOCK_HELD,
    MEM_STOCK_MEND,
    MEM_STOCK_LOWER,
    MEM_STOCK_SET_TOTAL,
    MEM_STOCK_RELIST,
    MEM_STOCK_REPORTS,
    MEM_STOCK_UNREPORT,
    MEM_STOCK_REBUILD_BEGIN,
    MEM_STOCK_REBUILD_RESTORE,
    MEM_STOCK_REBUILD_END,
    MEM_STOCK_OPS
};

struct mem_broker;

struct mem_stock_config {
    struct sched *sched;       /* borrowed */
    int64_t latency_us;        /* round trip of a call; 0: 1 ms */
    struct mem_broker *stream; /* not NULL: reserve appends the event there in the same call, as
                                  MQ_SENT (rule 2) */
};

/* The store and a first port on it. */
struct stock *mem_stock_new(const struct mem_stock_config *c);
/* One more port on the same store, with its own faults. */
struct stock *mem_stock_another(struct stock *s);
/* What is under way completes first, inside this call (ERR_CANCELED or ERR_UNCERTAIN). The store
 * goes with its last port. */
void mem_stock_free(struct stock *s);
struct mem_faults *mem_stock_faults(struct stock *s);

/* Straight access for tests; everything takes effect at once. */
/* An OPEN item on sale for the next 24 h (virtual), epoch 1, seq 0, listed in the catalogue. */
void mem_stock_put_item(struct stock *s, struct item item, int64_t total);
void mem_stock_set_window(struct stock *s, struct item item, int64_t starts_ms, int64_t ends_ms);
void mem_stock_set_state(struct stock *s, struct item item, enum stock_state state);
void mem_stock_set_epoch(struct stock *s, struct item item,
                         int64_t epoch); /* reservations keep theirs */
/* Removes meta (the catalogue stays): a Redis that lost its data. */
void mem_stock_lose_item(struct stock *s, struct item item);
/* The port's next calls go over another connection. */
void mem_stock_reconnect(struct stock *s);
/* A Redis that lost its last writes: where the item stood is set, and a record with its unit is
 * gone. */
void mem_stock_set_version(struct stock *s, struct item item, struct item_version v);
void mem_stock_lose_record(struct stock *s, struct item item, int64_t user_id,
                           const struct uuid *request_id);
/* Another item of the catalogue, without keys: lost, or expired. */
void mem_stock_list_item(struct stock *s, struct item item);
/* Whether it was reported (rule 34). */
bool mem_stock_reported(struct stock *s, struct item item);
void mem_stock_unlist_all(struct stock *s);
/* From now on the user's records read as this; they stay among the pending. */
void mem_stock_spoil(struct stock *s, struct item item, int64_t user_id, enum stock_row result);
/* Members of pending that are no reservations, created at that time. */
void mem_stock_put_junk(struct stock *s, struct item item, int64_t created_at_ms, int n);
int64_t mem_stock_pending(struct stock *s, struct item item);
int mem_stock_remembered(struct stock *s, struct item item); /* commands */
/* The item's state now; false when it is not there. */
bool mem_stock_info(struct stock *s, struct item item, struct stock_item_info *info);
/* The record, borrowed until the next call that changes the store; NULL: none. */
const struct reservation *mem_stock_find(struct stock *s, struct item item, int64_t user_id,
                                         const struct uuid *request_id);
/* free + held = total: units held are reservations neither RELEASED nor written off (rule 4). For
 * invariants in tests. */
int64_t mem_stock_units_held(struct stock *s, struct item item);

/* Units appear (or, with a negative number, vanish) by somebody's hand, as do buyers entries; a key
 * is not what it must be any more, or is again (NULL). */
void mem_stock_add_free(struct stock *s, struct item item, int64_t by);
void mem_stock_remove_buyer(struct stock *s, struct item item, int64_t user_id);
void mem_stock_put_buyer(struct stock *s, struct item item, const struct reservation *r);
void mem_stock_forget_pending(struct stock *s, struct item item, int64_t user_id);
void mem_stock_break_item(struct stock *s, struct item item, const char *key);

/* All items as they are, and again as they were then: a Redis restarted from a snapshot. NULL is no
 * snapshot to free. */
struct mem_stock_snapshot;
struct mem_stock_snapshot *mem_stock_snapshot(struct stock *s);
void mem_stock_restore(struct stock *s, const struct mem_stock_snapshot *snap);
void mem_stock_snapshot_free(struct mem_stock_snapshot *snap);

/* The news of items (PUBLISH), delivered half a latency after the change. */
void mem_stock_news_start(struct stock *s,
                          struct stock_news *news); /* on_link(true) comes by timer */
void mem_stock_news_stop(struct stock *s, struct stock_news *news);
void mem_stock_news_link(struct stock *s,
                         bool up); /* tells every subscriber; while down nothing is delivered */
