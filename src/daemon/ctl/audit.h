/* The audit of one item (architecture 8): reads the history, what was seen of the programs, Redis,
 * PostgreSQL and the queue, and checks I1–I11 and the seed's SQL. One thread, straight-line.
 * docs/audit.md. */
#pragma once

#include "adapter/pg/pg_audit.h"
#include "adapter/redis_stock/redis_stock_audit.h"
#include "daemon/ctl/audit_model.h"
#include "daemon/ctl/ctl.h"
#include "daemon/ctl/observed.h"

#define AUDIT_NAMED 20 /* offenders that are named; the rest are counted */
#define AUDIT_NAME 200
#define AUDIT_EPOCH_SLACK_MS 5000 /* buyers' clocks against PostgreSQL's */
#define AUDIT_STATUSES 600        /* HTTP's */
#define AUDIT_UNSETTLED_MS 60000  /* Redis hears of a verdict within seconds; this is a fault */

enum audit_check_id {
    AUDIT_I1,
    AUDIT_I2,
    AUDIT_I3,
    AUDIT_I4,
    AUDIT_I5,
    AUDIT_I6,
    AUDIT_I7,
    AUDIT_I8,
    AUDIT_I9,
    AUDIT_I10,
    AUDIT_I11,
    AUDIT_SEED_ONE_ORDER,
    AUDIT_SEED_OVERSOLD,
    AUDIT_SEED_INBOX,
    AUDIT_CHECKS
};

struct audit_check {
    const char *id, *title;
    bool skipped;   /* there was nothing to check it with */
    bool unknown;   /* it could not be found out: neither holds nor broken */
    int64_t broken; /* offenders */
    char named[AUDIT_NAMED][AUDIT_NAME];
    char note[AUDIT_NAME]; /* what was counted */
};

/* Sums and sizes, as they were read. */
struct audit_counts {
    /* history */
    int64_t invoked, accepted, told, other_items;
    int64_t buyers_asked; /* different ones */
    int64_t unheard;      /* invocations of all items without an answer */
    /* PostgreSQL */
    int64_t total, sold, active, orders, unsettled, dead_letters;
    int64_t completed, rejected, quarantined;
    int64_t orders_of_all; /* of all items */
    /* Redis */
    int64_t records, pending, buyers;
    struct stock_item_info info;
    bool ends_may_move;                       /* of keys, a little (redis_stock_audit.h) */
    int64_t key_expires_ms[REDIS_STOCK_KEYS]; /* -1: never, -2: there is no such key */
    int64_t max_seq;                          /* of the records of the item's epoch */
    struct pg_audit_inventory pg;
};

/* What was on its way when it was last looked at. */
struct audit_drain {
    bool waited, quiet;
    int64_t began_us, quiet_at_us; /* wall clock */
    int64_t pending, unsettled;
    int64_t backlog; /* -1: not known */
};

struct audit {
    struct ctl *c;
    struct pg_audit *pg;
    struct item item;
    bool has_history;
    bool has_observed;
    bool sold_out;      /* demand went on to the end */
    int64_t drain_us;   /* I10: at most so long after the last fault */
    int64_t max_memory; /* bytes; 0: any */
    struct audit_drain drain;
    struct observed observed;
    int64_t
        statuses[AUDIT_STATUSES]; /* answers to POST /v1/orders that clients of all items heard */
    struct audit_model model;
    struct audit_counts counts;
    struct audit_check checks[AUDIT_CHECKS];
};

/* Counts one offender and names it while there is room. */
void audit_broken(struct audit *a, enum audit_check_id id, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Each fills its part of model and counts. 0; else complained: the audit cannot be done. */
int audit_read_history(struct audit *a, const char *path);
int audit_read_redis(struct audit *a);
/* PostgreSQL: the rows into the model; and the checks that are one statement. */
int audit_read_pg(struct audit *a);
int audit_check_pg(struct audit *a);
/* How much is still on its way: unsettled outbox rows of the item, and messages in quarantine. */
int audit_pg_waiting(struct audit *a, int64_t *unsettled, int64_t *quarantined);

/* Makes, or makes again, the connection to PostgreSQL. */
void audit_connect(struct audit *a);
/* Waits until nothing of the item is on its way: 0, whether it is so or the time is over (drain
 * says); else complained: the exit status. A store that is away is waited for, too. */
int audit_wait_drained(struct audit *a, int64_t wait_us);
void audit_check_drained(struct audit *a); /* I10 */

int audit_read_observed(struct audit *a, const char *path); /* as audit_read_history */
void audit_check_observed(struct audit *a);                 /* I8, I9, I11 */

/* The checks over the model. */
void audit_check_model(struct audit *a);
/* The parts of I3 and I7 that are about what the status call told, one answer after the other. */
void audit_check_told(struct audit *a);
/* The part of I7 that is about how Redis keeps the item: meta, records, expiries. */
void audit_check_kept(struct audit *a);

/* "user 7, request 0190…": how an offender is named. */
struct audit_name {
    char z[80];
};
struct audit_name audit_name(const struct audit *a, uint32_t request);
