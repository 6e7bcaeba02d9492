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
    int64_t created_us;
    bool settled;
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

struct mem_db {
    pthread_mutex_t mutex;
    const struct sched *sched;
    int64_t call_us, row_us;
    int ports;
    struct list inventory, orders, outbox, notes;
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

/* The order function (mem_orders_place.c). */
int mem_db_place(struct mem_db *db, struct item item, struct orders_row *rows, int n);
