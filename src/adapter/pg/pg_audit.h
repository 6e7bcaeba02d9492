/* What an audit reads in PostgreSQL (seckillctl audit): the rows of one item, and the checks that
 * are one statement. One connection for all of it, made at first use; each statement may take two
 * minutes. Nothing is changed. Blocking, one thread.
 *
 * rc of every function: 0, or < 0 as in err.h with a message for people in pg_audit_error. What a
 * callback returns < 0 ends the reading and is the rc. */
#pragma once

#include "core/item.h"
#include "core/uuid.h"
#include "core/verdict.h"

struct pg_audit;
struct pg_audit *pg_audit_new(const char *conninfo, int64_t connect_us, struct item item);
void pg_audit_free(struct pg_audit *a);
const char *pg_audit_error(const struct pg_audit *a);

struct pg_audit_inventory {
    int64_t total, sold;
    int64_t epoch, seq;                                /* seq: the highest of this epoch */
    int64_t epoch_ms;                                  /* when the epoch last moved */
    int64_t starts_ms, ends_ms, expires_ms, closed_ms; /* closed: 0: not */
    int64_t paused_ms;                                 /* by an operator; 0: not */
    bool opened;                                       /* once, by an operator */
    int64_t dead_letters; /* neither replayed nor voided; those of no item, too */
};
int pg_audit_inventory(struct pg_audit *a, struct pg_audit_inventory *out); /* ERR_NOTFOUND */

/* How much is still on its way: unsettled outbox rows, and messages in quarantine. */
int pg_audit_waiting(struct pg_audit *a, int64_t *unsettled, int64_t *quarantined);

struct pg_audit_order {
    int64_t order_id, user_id;
    struct uuid request_id, reservation_id;
    bool active;
};
int pg_audit_orders(struct pg_audit *a, int (*on_order)(void *arg, const struct pg_audit_order *o),
                    void *arg);

int pg_audit_orders_of_all(struct pg_audit *a, int64_t *orders); /* of all items */

struct pg_audit_message {
    struct uuid message_id, request_id, reservation_id;
    int64_t user_id;
    struct str status; /* PROCESSING, COMPLETED, REJECTED, QUARANTINED; valid during the call */
    struct verdict verdict;
};
int pg_audit_inbox(struct pg_audit *a,
                   int (*on_message)(void *arg, const struct pg_audit_message *m), void *arg);

/* What Redis has not heard yet. */
struct pg_audit_unsettled {
    int64_t user_id, age_ms;
    struct uuid message_id, request_id;
    bool give_back; /* the unit returns to Redis */
};
int pg_audit_unsettled(struct pg_audit *a,
                       int (*on_row)(void *arg, const struct pg_audit_unsettled *u), void *arg);

/* The invariants of architecture 8 as far as one statement can check them, and the seed's own
 * statements (000 §13.6), which are about all items. */
enum pg_audit_rule {
    PG_AUDIT_I1,
    PG_AUDIT_I2,
    PG_AUDIT_I3,
    PG_AUDIT_I4,
    PG_AUDIT_I5,
    PG_AUDIT_SEED_ONE_ORDER,
    PG_AUDIT_SEED_OVERSOLD,
    PG_AUDIT_SEED_INBOX,
    PG_AUDIT_RULES
};
/* Who breaks a rule: at most `max` of each of its statements are named to on_name; *unnamed is how
 * many there are beyond. */
int pg_audit_offenders(struct pg_audit *a, enum pg_audit_rule rule, int max,
                       void (*on_name)(void *arg, struct str name), void *arg, int64_t *unnamed);
