/* What the fake of Redis holds: items, reservations, buyers, instance slots. Internal to
 * adapter/mem. */
#pragma once

#include "adapter/mem/mem_call.h"
#include "adapter/mem/mem_stock.h"
#include "base/map.h"
#include "core/order_id.h"

struct mem_record {
    struct list link; /* of the item, in order of creation */
    struct mem_record *next_of_user;
    struct reservation r;
    bool pending;
    enum stock_row result; /* of reading it: what a test made of it */
};

struct mem_remembered {
    struct list link; /* of the item */
    int64_t at_ms;
    struct stock_command command;
};

struct mem_item {
    struct list link;
    struct item item;
    bool meta, listed, suspect;
    const char *broken; /* the key that a test made unreadable; NULL: none */
    struct item_version version;
    enum stock_state state;
    int64_t total, free, starts_ms, ends_ms, expires_ms;
    int64_t rebuild, step; /* the epoch of a rebuild under way, and how far it is; 0: none */
    enum stock_state after;
    struct list records, commands;
    struct map by_user; /* user → first struct mem_record */
    struct map buyers;  /* user → struct reservation on the heap: three ids */
};

struct mem_slot {
    char nonce[33];
    int64_t highest_ms, floor_ms, until_us;
};

#define MEM_STORE_SUBSCRIBERS 16
struct mem_store {
    int ports;
    uint64_t connections;
    struct sched *sched;
    struct mem_broker *stream;
    struct list items;
    struct list news; /* publications on their way */
    struct stock_news *subscribers[MEM_STORE_SUBSCRIBERS];
    bool link_up;
    struct mem_slot slots[ORDER_ID_INSTANCES];
};

struct mem_store *mem_store_new(struct sched *sched, struct mem_broker *stream);
void mem_store_free(struct mem_store *st);
int64_t mem_store_now_ms(const struct mem_store *st);
struct mem_item *mem_store_item(const struct mem_store *st,
                                struct item item); /* NULL: never heard of */
/* In the catalogue, or there is no catalogue: then 503 and not 404 (rule 34). */
bool mem_store_listed(const struct mem_store *st, struct item item);
struct mem_item *mem_store_add_item(struct mem_store *st, struct item item);
void mem_store_remove_record(struct mem_item *it, struct mem_record *rec);
void mem_store_empty_item(struct mem_item *it); /* its records and buyers */
struct mem_record *mem_store_record(const struct mem_item *it, int64_t user_id,
                                    const struct uuid *request_id);
struct mem_record *mem_store_add_record(struct mem_item *it, const struct reservation *r);
struct reservation *mem_store_buyer(const struct mem_item *it, int64_t user_id);
void mem_store_set_buyer(struct mem_item *it, int64_t user_id, const struct uuid *reservation_id,
                         int64_t order_id, const struct uuid *request_id);
void mem_store_remove_buyer(struct mem_item *it, int64_t user_id);
/* Rule 7: the news of a change, on its way to the subscribers. */
void mem_store_publish(struct mem_store *st, const struct mem_item *it);
void mem_store_info(const struct mem_store *st, const struct mem_item *it,
                    struct stock_item_info *info);

/* on_link(link_up) to one subscriber, by timer. */
void mem_store_tell_link(struct mem_store *st, struct stock_news *news);
struct mem_store *mem_stock_store(struct stock *s);
struct mem_link *mem_stock_link(struct stock *s);

/* The port's operations that are not in mem_stock.c: mem_stock_reconcile.c. */
void mem_stock_inspect(struct stock *s, struct stock_inspect *r);
void mem_stock_holders(struct stock *s, struct stock_holders *r);
void mem_stock_held(struct stock *s, struct stock_held *r);
void mem_stock_mend(struct stock *s, struct stock_mend *r);
void mem_stock_lower(struct stock *s, struct stock_lower *r);
void mem_stock_set_total(struct stock *s, struct stock_set_total *r);
/* A call of the port (mem_stock.c). */
struct mem_call *mem_stock_start(struct stock *s, int kind, struct op *op, size_t size,
                                 int (*apply)(struct mem_call *, void *));
/* mem_stock_commands.c */
void mem_op_remember(struct stock *s, struct stock_remember *r);
void mem_op_remembered(struct stock *s, struct stock_remembered *r);
void mem_op_forget(struct stock *s, struct stock_forget *r);
/* mem_stock_rebuild.c */
void mem_op_unlist(struct stock *s, struct stock_unlist *r);
void mem_op_relist(struct stock *s, struct stock_relist *r);
void mem_op_reports(struct stock *s, struct stock_reports *r);
void mem_op_unreport(struct stock *s, struct stock_unreport *r);
void mem_op_rebuild_begin(struct stock *s, struct stock_rebuild_begin *r);
void mem_op_rebuild_restore(struct stock *s, struct stock_rebuild_restore *r);
void mem_op_rebuild_end(struct stock *s, struct stock_rebuild_end *r);

/* The scripts (mem_stock_rules.c): each runs at the instant of its arrival. */
int mem_rules_reserve(struct mem_store *st, struct stock_reserve *r, struct str open_event);
int mem_rules_settle(struct mem_store *st, struct stock_settle *s);
int mem_rules_progress(struct mem_store *st, const struct stock_settle *s);
int mem_rules_refuse(struct mem_store *st, const struct stock_refuse *r);
int mem_rules_mark(struct mem_store *st, const struct stock_mark *m);
int mem_rules_release(struct mem_store *st, struct stock_release *r);
int mem_rules_claim(struct mem_store *st, struct stock_claim *c);
int mem_rules_republished(struct mem_store *st, const struct stock_republished *r);
int mem_rules_warm(struct mem_store *st, const struct stock_warm *r);
int mem_rules_control(struct mem_store *st, struct stock_control *r);
int mem_rules_report(struct mem_store *st, const struct stock_report *r);
int mem_rules_slot(struct mem_store *st, struct stock_slot_lease *r);
