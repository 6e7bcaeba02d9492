/* The books of an item as operators change and read them: its total, what reconciliation found, and
 * its rebuilds (seckillctl). Blocking, a connection per call, 10 s at most. rc 0, > 0 as told, or <
 * 0 as in err.h with a message in err. */
#pragma once

#include "core/item.h"
#include "core/uuid.h"
#include <stddef.h>

/* The total, here alone, if it is still *total and the item at this epoch. *total, *sold: as they
 * are now. 1: refused, more is sold; 2: refused, total or epoch is another. */
int pg_set_total(const char *conninfo, struct item item, int64_t epoch, int64_t to, int64_t *total,
                 int64_t *sold, char *err, size_t err_cap);

/* A worker looks at the item next, and mends. */
int pg_reconcile_ask(const char *conninfo, struct item item, char *err, size_t err_cap);
/* 1: it was answered; 0: not yet. */
int pg_reconcile_answered(const char *conninfo, struct item item, char *err, size_t err_cap);

/* One finding of the item's last stretch of rounds; kind "": it had none. */
struct pg_finding {
    int64_t since_ms, until_ms, rounds;
    char outcome[16], kind[16], mended[24];
    int64_t units, user_id, order_id; /* 0: of nobody */
    struct uuid reservation_id;       /* nil: of none */
};
/* *n in: capacity, out: how many; 0: it was never looked at. */
int pg_reconcile_show(const char *conninfo, struct item item, struct pg_finding *rows, int *n,
                      char *err, size_t err_cap);

/* A worker rebuilds the item in Redis at its next look. 1: no such item. */
int pg_rebuild_ask(const char *conninfo, struct item item, char *err, size_t err_cap);
struct pg_rebuild {
    int64_t epoch, started_ms, finished_ms; /* 0: it did not come to its end (yet) */
    int64_t ordered, live;                  /* what it counted */
    char reason[25];
};
/* The last attempt. 1: there was none. */
int pg_rebuild_last(const char *conninfo, struct item item, struct pg_rebuild *out, char *err,
                    size_t err_cap);
