/* One settle call with its rows and the outbox rows they come from: shared by finish, relay and
 * recover. Embedded; loop thread. */
#pragma once

#include "port/stock.h"

struct worker;

struct settling {
    struct worker *w;
    struct stock_settle op;
    void (*on_done)(struct settling *s); /* exactly once after settling_send, never inside it */
    struct stock_settle_row *rows;       /* [max] */
    int64_t *ids;                        /* [max]: outbox ids; 0: none */
    int n, max, rc;
};
/* max: 1…256 */
void settling_init(struct settling *s, struct worker *w, struct item item, int max,
                   void (*on_done)(struct settling *s));
void settling_deinit(struct settling *s);
void settling_add(struct settling *s, const struct stock_settle_row *row, int64_t outbox_id);
void settling_send(struct settling *s);
/* Whether Redis is known to have row i's outcome: settled now, or nothing to do there. */
bool settling_took(const struct settling *s, int i);
