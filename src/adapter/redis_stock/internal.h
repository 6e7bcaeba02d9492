/* What the files of the adapter share; nobody else includes it. An operation is a stock_call in its
 * op_space: one redis_call, sent once or for each of a few stages. */
#pragma once

#include "adapter/redis_stock/keys.h"
#include "adapter/redis_stock/line.h"
#include "adapter/redis_stock/redis_stock.h"
#include "base/map.h"
#include "base/metric.h"

enum stock_script {
    SCRIPT_CLAIM,
    SCRIPT_CONTROL,
    SCRIPT_HELD,
    SCRIPT_INSPECT,
    SCRIPT_ITEM,
    SCRIPT_LISTED,
    SCRIPT_LOWER,
    SCRIPT_MARK,
    SCRIPT_MEND,
    SCRIPT_PENDING,
    SCRIPT_PROBE,
    SCRIPT_PROGRESS,
    SCRIPT_REBUILD_BEGIN,
    SCRIPT_REBUILD_END,
    SCRIPT_REBUILD_RESTORE,
    SCRIPT_RECORDS,
    SCRIPT_REFUSE,
    SCRIPT_RELEASE,
    SCRIPT_REMEMBER,
    SCRIPT_REMEMBERED,
    SCRIPT_REPUBLISHED,
    SCRIPT_RESERVE,
    SCRIPT_SETTLE,
    SCRIPT_SLOT,
    SCRIPT_TOTAL,
    SCRIPT_WARM,
    SCRIPTS
};

struct redis_stock {
    struct stock stock;
    struct redis *redis;
    struct redis_script scripts[SCRIPTS];
    bool stream_queue;
    struct map active; /* op → its stock_call: for cancel */
    struct metric *results[STOCK_BEHIND + 1];
};

struct stock_call {
    struct redis_call call;
    struct redis_stock *st;
    struct op *op;
    int stage;
};

static inline struct redis_stock *stock_self(struct stock *s)
{
    return container_of(s, struct redis_stock, stock);
}

/* The operation around a call: OP_OF(c, struct stock_reserve). */
#define OP_OF(call_, type)                                                                         \
    container_of((struct op_space *)(void *)container_of(call_, struct stock_call, call), type,    \
                 space)

/* A new operation: its call, zeroed. */
struct stock_call *stock_begin(struct redis_stock *st, struct op *op, struct op_space *space);
/* Sends the call (again) as this script. */
void stock_run(struct stock_call *c, enum stock_script script, int keys, int args,
               void (*on_encode)(struct redis_call *, struct redis_writer *),
               void (*on_reply)(struct redis_call *, int, const struct redis_reply *));
/* Sends it as a plain command, whose first word after its name is its key. */
void stock_run_command(struct stock_call *c, const char *name, int args,
                       void (*on_encode)(struct redis_call *, struct redis_writer *),
                       void (*on_reply)(struct redis_call *, int, const struct redis_reply *));
void stock_end(struct stock_call *c, int rc);
/* rc, or that of reading the answer's head; takes its TIME (rule 15). 0: *a is good. */
int stock_answer(struct stock_call *c, int rc, const struct redis_reply *reply, struct line *a);
/* Whether an item without meta is listed: KEYS and ARGV of listed.lua for on_encode. */
void stock_ask_listed(struct stock_call *c,
                      void (*on_encode)(struct redis_call *, struct redis_writer *),
                      void (*on_reply)(struct redis_call *, int, const struct redis_reply *));
/* Scripts compare times as texts of 13 digits. */
int64_t stock_thirteen_digits(int64_t ms);
void stock_put_listed(struct redis_writer *w, struct item item);

/* --- the operations --- */
void stock_reserve(struct stock *, struct stock_reserve *);
void stock_settle(struct stock *, struct stock_settle *);
void stock_progress(struct stock *, struct stock_settle *);
void stock_mark(struct stock *, struct stock_mark *);
void stock_release(struct stock *, struct stock_release *);
void stock_claim(struct stock *, struct stock_claim *);
void stock_refuse(struct stock *s, struct stock_refuse *r);
void stock_remember(struct stock *, struct stock_remember *);
void stock_remembered(struct stock *, struct stock_remembered *);
void stock_forget(struct stock *, struct stock_forget *);
void stock_republished(struct stock *, struct stock_republished *);
void stock_lookup(struct stock *, struct stock_lookup *);
void stock_pending(struct stock *, struct stock_pending *);
void stock_item_get(struct stock *, struct stock_item_get *);
void stock_items(struct stock *, struct stock_items *);
void stock_unlist(struct stock *, struct stock_unlist *);
void stock_relist(struct stock *, struct stock_relist *);
void stock_reports(struct stock *, struct stock_reports *);
void stock_unreport(struct stock *, struct stock_unreport *);
void stock_rebuild_begin(struct stock *, struct stock_rebuild_begin *);
void stock_rebuild_restore(struct stock *, struct stock_rebuild_restore *);
void stock_rebuild_end(struct stock *, struct stock_rebuild_end *);
void stock_buyers(struct stock *, struct stock_buyers *);
void stock_warm(struct stock *, struct stock_warm *);
void stock_control(struct stock *, struct stock_control *);
void stock_report(struct stock *, struct stock_report *);
void stock_slot_lease(struct stock *, struct stock_slot_lease *);
void stock_probe(struct stock *, struct stock_probe *);
void stock_inspect(struct stock *, struct stock_inspect *);
void stock_holders(struct stock *, struct stock_holders *);
void stock_held(struct stock *, struct stock_held *);
void stock_mend(struct stock *, struct stock_mend *);
void stock_lower(struct stock *, struct stock_lower *);
void stock_set_total(struct stock *, struct stock_set_total *);
/* "state starts_ms …" of item.lua; the answer's version and time. 0 or ERR_INTERNAL. */
int stock_take_item(struct stock_item_info *info, struct line *a);
