/* What operators do in PostgreSQL (seckillctl): items and dead letters. Blocking and straight-line,
 * a connection per call, 10 s at most. rc 0, > 0 as told, or < 0 as in err.h with a message in err;
 * every change is noted in operator_actions. */
#pragma once

#include "core/item.h"
#include "core/uuid.h"
#include <stddef.h>

struct pg_activity {
    struct item item;
    int64_t starts_ms, ends_ms, expires_ms; /* since 1970 */
    int64_t total, sold, epoch;
    bool warmed;
    int64_t closed_ms; /* 0: not closed */
};

/* item, times and total are read. 1: the item exists already (nothing changed). */
int pg_activity_create(const char *conninfo, const struct pg_activity *a, char *err,
                       size_t err_cap);
/* 1: no such item. */
int pg_activity_get(const char *conninfo, struct item item, struct pg_activity *out, char *err,
                    size_t err_cap);
/* By item; *n in: capacity, out: how many. */
int pg_activity_list(const char *conninfo, struct pg_activity *rows, int *n, char *err,
                     size_t err_cap);
/* Notes when the item was closed, once. 1: no such item, or closed before. */
int pg_activity_close(const char *conninfo, struct item item, char *err, size_t err_cap);
/* Rule 33: before Redis is warmed. 1: it was warmed already, so Redis can only be rebuilt. 2: no
 * such item. */
int pg_mark_warmed(const char *conninfo, struct item item, char *err, size_t err_cap);

struct pg_dead_letter {
    int64_t id;
    struct item item;
    bool decoded; /* false: only the bytes are known */
    struct uuid message_id, request_id, reservation_id;
    int64_t user_id, order_id;
    int deliveries;
    int64_t created_ms, replayed_ms, voided_ms; /* 0: not */
    char broker_id[256], reason[1024];
    size_t body_len;
};

/* Newest first, those with an id below before_id (0: all); *n in: capacity, out: how many. */
int pg_dead_letters_list(const char *conninfo, int64_t before_id, struct pg_dead_letter *rows,
                         int *n, char *err, size_t err_cap);
/* 1: no such dead letter. body: appended. */
int pg_dead_letters_show(const char *conninfo, int64_t id, struct pg_dead_letter *out,
                         struct strbuf *body, char *err, size_t err_cap);
/* Rule 25: the message's new life; the caller publishes body (appended) for item. 1: refused: no
 * such dead letter, an undecodable one, replayed before, or no longer quarantined. When the answer
 * is lost (ERR_UNCERTAIN) or publishing fails: the reservation is unsettled again and recovery
 * publishes it. */
int pg_dead_letters_replay(const char *conninfo, int64_t id, struct item *item, struct strbuf *body,
                           char *err, size_t err_cap);
