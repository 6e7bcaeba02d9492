/* What recovery does with one reservation that has no outcome.
 *
 *   CLAIM → PUBLISH → NOTE → END   published again: same message_id, retry_count + 1
 *   VOID → SETTLE → END            the tombstone (rule 25); whoever settled it before is obeyed
 *   any failure → END              nothing is lost: the next look begins anew
 *
 * Loop thread. */
#pragma once

#include "app/settling.h"
#include "app/share.h"
#include "base/ctx.h"
#include "base/flow.h"
#include "port/orders.h"
#include "port/queue.h"
#include "port/stock.h"

struct worker;

enum recover_plan { RECOVER_LEAVE, RECOVER_PUBLISH, RECOVER_VOID };

struct recover_row {
    struct flow flow;
    struct worker *w;
    struct item item;
    struct reservation r;
    enum queue_position position;
    bool position_known;
    enum recover_plan plan;
    enum verdict_reason reason; /* of the void */

    struct queue_locate locate;
    int rc;
    struct stock_claim claim;
    struct event event;
    struct queue_publish publish;
    struct stock_republished note;
    struct share_job job;
    struct ctx ctx;
    struct orders_row message;
    struct orders_inbox inbox;
    struct settling settling;
};

/* By plan; recover_row_ended follows, never inside. */
void recover_row_start(struct recover_row *row);
/* The settle row of an inbox row with an outcome. */
struct stock_settle_row recover_row_settle(const struct reservation *r,
                                           const struct orders_inbox *inbox);
