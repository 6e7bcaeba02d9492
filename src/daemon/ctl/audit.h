/* The audit of one item (architecture 8): reads the history, Redis and PostgreSQL, and checks
 * I1–I7 and the seed's SQL. One thread, straight-line. */
#pragma once

#include "adapter/pg/pg_audit.h"
#include "adapter/redis_stock/redis_stock_audit.h"
#include "daemon/ctl/audit_model.h"
#include "daemon/ctl/ctl.h"

#define AUDIT_NAMED 20 /* offenders that are named; the rest are counted */
#define AUDIT_NAME 200
#define AUDIT_UNSETTLED_MS 60000 /* Redis hears of a verdict within seconds; this is a fault */

enum audit_check_id {
    AUDIT_I1,
    AUDIT_I2,
    AUDIT_I3,
    AUDIT_I4,
    AUDIT_I5,
    AUDIT_I6,
    AUDIT_I7,
    AUDIT_SEED_ONE_ORDER,
    AUDIT_SEED_OVERSOLD,
    AUDIT_SEED_INBOX,
    AUDIT_CHECKS
};

struct audit_check {
    const char *id, *title;
    bool skipped;   /* there was nothing to check it with */
    int64_t broken; /* offenders */
    char named[AUDIT_NAMED][AUDIT_NAME];
    char note[AUDIT_NAME]; /* what was counted */
};

/* Sums and sizes, as they were read. */
struct audit_counts {
    /* history */
    int64_t invoked, accepted, other_items;
    /* PostgreSQL */
    int64_t total, sold, active, orders, unsettled, dead_letters;
    int64_t completed, rejected, quarantined;
    /* Redis */
    int64_t records, pending, buyers;
    struct stock_item_info info;
    int64_t key_expires_ms[REDIS_STOCK_KEYS]; /* -1: never, -2: there is no such key */
    int64_t max_seq;                          /* of the records of the item's epoch */
    struct pg_audit_inventory pg;
};

struct audit {
    struct ctl *c;
    struct pg_audit *pg;
    struct item item;
    bool has_history;
    bool waited_in_vain; /* --wait is over, and something is still on its way */
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

/* The checks over the model. */
void audit_check_model(struct audit *a);
/* The part of I7 that is about how Redis keeps the item: meta, records, expiries. */
void audit_check_kept(struct audit *a);

/* "user 7, request 0190…": how an offender is named. */
struct audit_name {
    char z[80];
};
struct audit_name audit_name(const struct audit *a, uint32_t request);
