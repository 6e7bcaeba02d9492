/* What operators do in PostgreSQL (seckillctl): items and dead letters. Blocking and straight-line,
 * a connection per call, 10 s at most. rc 0, > 0 as told, or < 0 as in err.h with a message in err;
 * every change is noted in operator_actions. */
#pragma once

#include "core/item.h"
#include "core/uuid.h"
#include <stdbool.h>
#include <stddef.h>

struct pg_activity {
    struct item item;
    int64_t starts_ms, ends_ms, expires_ms; /* since 1970 */
    int64_t total, sold, epoch;
    int64_t warmed_us;            /* the mark of pg_mark_warmed; 0: none */
    int64_t opened_ms, closed_ms; /* first opened; closed; 0: not */
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
/* Notes when the item was first opened, once: before Redis opens it. 1: no such item, or noted
 * before. */
int pg_mark_opened(const char *conninfo, struct item item, char *err, size_t err_cap);

/* Notes that the item is paused, or is not any more, before Redis does it: a rebuild goes by this.
 * 1: no such item, or so noted before. */
int pg_mark_paused(const char *conninfo, struct item item, bool paused, char *err, size_t err_cap);

/* Rule 33: before Redis is warmed. *mark_us, a time of its own, tells this mark from any other. 1:
 * it is marked already. 2: no such item. */
int pg_mark_warmed(const char *conninfo, struct item item, int64_t *mark_us, char *err,
                   size_t err_cap);
/* Goes on with a warming whose command died: the mark *mark_us becomes a new one, whoever made the
 * old one cannot take it back any more. Only for an item that cannot have lost anything (checked
 * here): never opened, and no order, message or movement of a unit is known of it. 1: the mark is
 * another one by now. 2: refused. */
int pg_remark_warmed(const char *conninfo, struct item item, int64_t *mark_us, char *err,
                     size_t err_cap);
/* Takes back exactly this mark: nothing was done under it. 1: it is another one by now. */
int pg_unmark_warmed(const char *conninfo, struct item item, int64_t mark_us, char *err,
                     size_t err_cap);

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
