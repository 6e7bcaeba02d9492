/* The fake PostgreSQL: inventory, orders, inbox, outbox, dead letters, attempts, suspects. Internal
 * to adapter/mem; all functions are called with the mutex held. */
#pragma once

#include "adapter/mem/mem_orders.h"
#include "base/map.h"
#include <pthread.h>

struct mem_inventory {
    struct list link;
    struct item item;
    int64_t total, sold, epoch, expires_ms;
    int64_t seq; /* the highest of this epoch among the orders */
    int64_t epoch_us, max_hold_us, beat_us;
    char life[64]; /* whose attempt to rebuild it this is */
    bool rebuilding, asked, unopened;
    struct list holds; /* who holds a unit, by reservation id (mem_orders_rebuild.c) */
    struct list over;  /* rebuilds that came to their end */
};

struct mem_order {
    struct list link;
    struct mem_order *next_of_user;
    struct orders_order o;
    struct uuid message_id;
};

struct mem_inbox {
    struct uuid message_id;
    struct item item;
    int64_t user_id;
    struct uuid request_id;
    struct orders_inbox row;
    struct orders_row outcome; /* what a redelivery hears */
};

struct mem_outbox {
    struct list link;
    struct orders_unsettled row;
    struct uuid message_id;
    int64_t order_id, created_us, claimed_us;
    bool settled, published;
};

/* A cancel or a payment that was seen. */
struct mem_command {
    struct list link;
    enum event_command kind;
    struct item item;
    struct orders_command row; /* as decided; body and payment_id are copies' */
    bool parked;
    int64_t parked_us, claimed_us;
    char body[EVENT_MAX_BYTES];
    size_t body_len;
};

/* Attempts, suspects, poison, dead letters, lives: few of each, found by scanning. */
struct mem_note {
    struct list link;
    enum mem_note_kind {
        MEM_NOTE_ATTEMPTS,
        MEM_NOTE_SUSPECT,
        MEM_NOTE_POISON,
        MEM_NOTE_DEAD_LETTER,
        MEM_NOTE_LIFE
    } kind;
    struct uuid id;
    char text[128]; /* life, broker id */
    int value;
    int64_t at_us;
    int64_t oldest_us; /* of a life: when its oldest message was enqueued; 0: it has none */
};

/* What reconciliation noted of an item. */
struct mem_reconciled {
    struct list link;
    struct item item;
    char life[64], outcome[24], detail[16384];
    int64_t beat_us, walked;
    bool asked;
    int rounds;
};

struct mem_db {
    pthread_mutex_t mutex;
    const struct sched *sched;
    int64_t call_us, row_us;
    int ports;
    struct list inventory, orders, outbox, notes, commands, reconciled;
    int64_t timeline;
    struct map by_user, by_order_id, by_message;
    int64_t next_outbox;
};

struct mem_inventory *mem_db_inventory(const struct mem_db *db, struct item item); /* NULL: none */
struct mem_inbox *mem_db_inbox(const struct mem_db *db,
                               const struct uuid *message_id); /* NULL: none */
struct mem_inbox *mem_db_add_inbox(struct mem_db *db, struct item item,
                                   const struct orders_row *row, const char *status);
struct mem_order *mem_db_orders_of(const struct mem_db *db,
                                   int64_t user_id); /* chained by next_of_user */
struct mem_order *mem_db_order(const struct mem_db *db, int64_t order_id);
struct mem_order *mem_db_add_order(struct mem_db *db, struct item item,
                                   const struct orders_row *row);
bool mem_order_active(const struct mem_order *o);
int64_t mem_db_add_outbox(struct mem_db *db, struct item item, const struct orders_row *row);
struct mem_note *mem_db_note(struct mem_db *db, enum mem_note_kind kind, const struct uuid *id,
                             const char *text);
struct mem_note *mem_db_add_note(struct mem_db *db, enum mem_note_kind kind, const struct uuid *id,
                                 const char *text);

int mem_db_count_attempt(struct mem_db *db,
                         const struct uuid *message_id); /* one more: all of it */
/* The rc of a batch with a poisoned message; 0: none is. */
int mem_db_poisoned(struct mem_db *db, const struct uuid *message_id);
/* Ends an active, unpaid order: rc 0 with its outbox row; 1: it is neither. */
int mem_db_end_order(struct mem_db *db, struct mem_order *o, enum verdict_reason reason,
                     int64_t *outbox_id);

/* A call of the port: 0: go on, with the mutex held until leave, which returns what the call
 * returns. */
int mem_orders_enter(struct orders *port, const struct ctx *ctx, int kind);
int mem_orders_leave(struct orders *port, const struct ctx *ctx, int rc);
bool mem_orders_twice(struct orders *port); /* the fault of this call: it is applied twice */
struct mem_db *mem_orders_db(struct orders *port);
/* mem_orders_outbox.c */
int mem_orders_mark_settled(struct orders *o, const struct ctx *ctx, const int64_t *ids, int n,
                            bool tell);
int mem_orders_unsettled(struct orders *o, const struct ctx *ctx, int64_t min_age_ms,
                         struct orders_unsettled *rows, int *n);
int mem_orders_unpublished(struct orders *o, const struct ctx *ctx, int64_t claim_ms,
                           struct result *rows, int *n);
int mem_orders_mark_published(struct orders *o, const struct ctx *ctx, const int64_t *ids, int n);
int mem_orders_unpublished_backlog(struct orders *o, const struct ctx *ctx, int max,
                                   struct orders_unpublished *backlog);
int mem_orders_retain(struct orders *o, const struct ctx *ctx, const struct orders_retention *what,
                      struct orders_retained *taken);
/* mem_orders_commands.c */
int mem_orders_parked_failed(struct orders *o, const struct ctx *ctx, const struct uuid *ids, int n,
                             const char *error_kind, int max_attempts, int *quarantined);
int mem_orders_cancel(struct orders *o, const struct ctx *ctx, struct item item,
                      struct orders_command *rows, int n, bool give_up);
int mem_orders_pay(struct orders *o, const struct ctx *ctx, struct item item,
                   struct orders_command *rows, int n, bool give_up);
int mem_orders_park(struct orders *o, const struct ctx *ctx, struct item item,
                    enum event_command kind, const struct orders_command *rows, int *n);
int mem_orders_parked(struct orders *o, const struct ctx *ctx, int64_t give_up_ms,
                      struct orders_parked *rows, int *n);
int mem_orders_expire(struct orders *o, const struct ctx *ctx, struct item item,
                      int64_t created_before_ms, int64_t pay_within_ms,
                      struct orders_unsettled *rows, int *n);

/* mem_orders_rebuild.c */
int mem_orders_watch(struct orders *o, const struct ctx *ctx, struct orders_watched *rows, int *n);
int mem_orders_rebuild_take(struct orders *o, const struct ctx *ctx, struct item item,
                            int64_t from_epoch, struct str life, struct str reason,
                            int64_t max_hold_ms, struct orders_rebuild *out);
int mem_orders_rebuild_keep(struct orders *o, const struct ctx *ctx, struct item item,
                            int64_t epoch, const struct orders_hold *rows, int n);
int mem_orders_rebuild_count(struct orders *o, const struct ctx *ctx, struct item item,
                             int64_t epoch, struct orders_held *held);
int mem_orders_rebuild_page(struct orders *o, const struct ctx *ctx, struct item item,
                            int64_t epoch, const struct uuid *after, struct orders_hold *rows,
                            int *n);
int mem_orders_rebuild_resettle(struct orders *o, const struct ctx *ctx, struct item item,
                                int64_t epoch, int64_t *from);
int mem_orders_rebuild_finish(struct orders *o, const struct ctx *ctx, struct item item,
                              int64_t epoch);
void mem_db_void(struct mem_db *db, struct item item, const struct orders_row *message,
                 enum verdict_reason reason);
/* The highest epoch whose rebuild's time is over, for the order function or (told) for buyers. */
int64_t mem_db_lost_epoch(const struct mem_db *db, const struct mem_inventory *i, bool told);
/* What a rebuild kept of this request and has no outcome yet; NULL: nothing. */
const struct orders_hold *mem_db_kept(const struct mem_inventory *i, int64_t user_id,
                                      const struct uuid *request_id);
/* Rule 37: a message of an older epoch that no rebuild found, after max_hold. */
bool mem_db_is_lost(const struct mem_db *db, const struct mem_inventory *i,
                    const struct orders_row *row);
void mem_db_forget_rebuilds(struct mem_inventory *i);

/* The order function (mem_orders_place.c). */
int mem_db_place(struct mem_db *db, struct item item, struct orders_row *rows, int n);

/* mem_orders_reconcile.c */
int mem_orders_reconcile_begin(struct orders *o, const struct ctx *ctx, struct item item,
                               struct str life, int64_t lease_ms, struct orders_books *books);
int mem_orders_reconcile_asked(struct orders *o, const struct ctx *ctx, struct str life,
                               int64_t lease_ms, struct item *item);
int mem_orders_reconcile_look(struct orders *o, const struct ctx *ctx, struct orders_look *rows,
                              int n);
int mem_orders_reconcile_orders(struct orders *o, const struct ctx *ctx, struct item item,
                                int64_t after_user, struct orders_active *rows, int *n);
int mem_orders_reconcile_end(struct orders *o, const struct ctx *ctx, struct str life,
                             const struct orders_reconciled *end);
