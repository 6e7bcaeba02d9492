/* The orders port in memory: the order function's outcomes (rules 16–20, 25) in plain C, for flow
 * tests. Not for production.
 *
 * Calls are plain functions: they return at once, and the virtual time that they would have taken
 * adds up until mem_orders_take_us (mem_jobs delivers its completion that much later). For the port
 * "now" is the clock plus that time: a fault that makes a call longer than its ctx allows is
 * ERR_UNCERTAIN; an ended ctx is ERR_DEADLINE or ERR_CANCELED, not done. Several ports on one
 * store, and calls from several threads, are fine: a mutex. */
#pragma once

#include "adapter/mem/mem_clock.h"
#include "adapter/mem/mem_fault.h"
#include "port/orders.h"

enum mem_orders_op {
    MEM_ORDERS_PLACE,
    MEM_ORDERS_CANCEL,
    MEM_ORDERS_PAY,
    MEM_ORDERS_PARK,
    MEM_ORDERS_PARKED,
    MEM_ORDERS_PARKED_FAILED,
    MEM_ORDERS_EXPIRE,
    MEM_ORDERS_MARK_SETTLED,
    MEM_ORDERS_UNSETTLED,
    MEM_ORDERS_UNPUBLISHED,
    MEM_ORDERS_MARK_PUBLISHED,
    MEM_ORDERS_UNPUBLISHED_BACKLOG,
    MEM_ORDERS_RETAIN,
    MEM_ORDERS_INBOX,
    MEM_ORDERS_VOID,
    MEM_ORDERS_QUARANTINE,
    MEM_ORDERS_COUNT_ATTEMPTS,
    MEM_ORDERS_ATTEMPTS,
    MEM_ORDERS_SUSPECT_BEGIN,
    MEM_ORDERS_SUSPECT_CLEAR,
    MEM_ORDERS_BEAT,
    MEM_ORDERS_FIND_REQUEST,
    MEM_ORDERS_FIND_ORDER,
    MEM_ORDERS_INVENTORY,
    MEM_ORDERS_WARMED,
    MEM_ORDERS_RECONCILE_BEGIN,
    MEM_ORDERS_RECONCILE_ASKED,
    MEM_ORDERS_RECONCILE_LOOK,
    MEM_ORDERS_RECONCILE_ORDERS,
    MEM_ORDERS_RECONCILE_END,
    MEM_ORDERS_WATCH,
    MEM_ORDERS_REBUILD_TAKE,
    MEM_ORDERS_REBUILD_KEEP,
    MEM_ORDERS_REBUILD_COUNT,
    MEM_ORDERS_REBUILD_PAGE,
    MEM_ORDERS_REBUILD_RESETTLE,
    MEM_ORDERS_REBUILD_FINISH,
    MEM_ORDERS_PROBE, /* place with n = 0 counts as this one too */
    MEM_ORDERS_OPS
};

struct mem_db;

struct mem_db *mem_db_new(const struct sched *sched, int64_t call_us /* 0: 2 ms */);
void mem_db_free(struct mem_db *db); /* after its ports */

struct orders *mem_orders_new(struct mem_db *db);
void mem_orders_free(struct orders *o);
struct mem_faults *mem_orders_faults(struct orders *o);
/* The virtual time that the calls on this port took since this was last asked. */
int64_t mem_orders_take_us(struct orders *o);

/* Straight access for tests. */
/* Again with another epoch: it moved now. */
void mem_db_put_item(struct mem_db *db, struct item item, int64_t total, int64_t epoch);
/* As a rebuild at this epoch that comes to its end now. */
void mem_db_rebuilt(struct mem_db *db, struct item item, int64_t epoch, int64_t max_hold_us);
/* When the item's keys in Redis are over, as PostgreSQL knows it. */
void mem_db_set_expiry(struct mem_db *db, struct item item, int64_t expires_ms);
/* Every batch with this message fails with rc (ERR_INVALID: its own fault; ERR_UNAVAIL: not) until
 * rc 0 is set. */
void mem_db_poison(struct mem_db *db, const struct uuid *message_id, int rc);
/* Each row of place and of quarantine takes so much longer. */
void mem_db_slow_rows(struct mem_db *db, int64_t row_us);
/* The outcome of a buyer's cancel, an expiry or a closing: order CANCELLED/CLOSED, sold − 1, one
 * outbox row. rc 0; 1: not active any more. */
int mem_db_cancel(struct mem_db *db, int64_t order_id, enum verdict_reason reason);
int mem_db_pay(struct mem_db *db, int64_t order_id); /* rc 0; 1: not active */
void mem_db_replay(struct mem_db *db,
                   const struct uuid *message_id); /* rule 25: deletes a QUARANTINED inbox row */
void mem_db_ask_rebuild(struct mem_db *db, struct item item); /* as an operator does */
int64_t mem_db_epoch(struct mem_db *db, struct item item);
int64_t mem_db_sold(struct mem_db *db, struct item item);
int mem_db_active_orders(struct mem_db *db, struct item item);
int mem_db_parked(struct mem_db *db);                                 /* commands that wait */
int mem_db_refunds(struct mem_db *db);                                /* payments given back */
const char *mem_db_order_status(struct mem_db *db, int64_t order_id); /* "NONE": there is none */
int mem_db_dead_letters(struct mem_db *db);
int mem_db_unsettled(struct mem_db *db);
/* The outcome of the item's last round of reconciliation ("": there was none) and how many there
 * were; what was noted of it. */
const char *mem_db_reconciled(struct mem_db *db, struct item item, int *rounds);
const char *mem_db_reconciled_detail(struct mem_db *db, struct item item);
void mem_db_ask_reconcile(struct mem_db *db, struct item item);
bool mem_db_asked_reconcile(struct mem_db *db, struct item item);
/* A standby was promoted: another timeline. What it lacks: mem_db_lose_order, with everything of
 * the order. rc 0; 1: there is none. */
void mem_db_promote(struct mem_db *db);
int mem_db_lose_order(struct mem_db *db, int64_t order_id);
void mem_db_set_total(struct mem_db *db, struct item item, int64_t total);
void mem_db_settled_all(struct mem_db *db);             /* as if Redis had heard of everything */
int mem_db_outbox(struct mem_db *db, bool unpublished); /* rows; or only those not published */
/* Each: sold = active orders <= total; at most one active order per user; one inbox row per
 * message. NULL when all hold, else what does not. */
const char *mem_db_audit(struct mem_db *db);
