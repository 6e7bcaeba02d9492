/* What is done about a finding, in the safe direction only (rule 40): free units are lowered, never
 * raised; an entry follows its record; what ended is settled again as the first time; an order that
 * PostgreSQL does not have is published again with the same ids: its inbox decides; an order whose
 * cancel it lost is cancelled again (parked, sweep.h). Loop thread. */
#pragma once

#include "app/settling.h"
#include "app/share.h"
#include "base/ctx.h"
#include "port/queue.h"
#include "port/stock.h"

struct worker;
struct finding;

struct mend {
    struct worker *w;
    int rc;
    struct event event;
    union {
        struct stock_mend record;
        struct stock_lower lower;
        struct queue_publish publish;
        struct settling settling;
        struct {
            struct share_job job;
            struct ctx ctx;
            struct item item;
            struct orders_command command;
            char body[EVENT_MAX_BYTES];
        } cancel;
    } u;
    const char *done; /* what it is called if it was done; static */
};
/* False: nothing is done about it. Else reconcile_mended comes, never inside. */
bool mend_start(struct mend *m, struct worker *w, const struct finding *f);
/* Publishes an order of Redis again that PostgreSQL does not have. reconcile_mended comes. */
void mend_publish(struct mend *m, struct worker *w, struct item item, const struct reservation *r);
