/* The sweep: outbox rows that are not known to be settled in Redis (the process died between commit
 * and settle, or Redis was away) are settled again, item by item (rule 9).
 *
 *   IDLE → READ → SETTLE (one item at a time) … → IDLE     when everything was read and there is
 *                                                          more: at once, else after the interval
 *   an item being rebuilt answers LATER: its rows stay, and must not hide others behind them: the
 *   next read is larger
 *
 * Loop thread; at most one read at a time. */
#pragma once

#include "app/settling.h"
#include "app/share.h"
#include "base/ctx.h"
#include "base/flow.h"
#include "base/sched.h"

#define RELAY_READ_MAX 4096
#define RELAY_AGAIN_US 50000

struct relay {
    struct flow flow;
    struct timer timer;
    struct share_job job;
    struct ctx ctx;
    int64_t after_ms;
    struct orders_unsettled *rows; /* [RELAY_READ_MAX] */
    bool *done;                    /* [RELAY_READ_MAX]: was its item's turn */
    int n, want, later, took;
    struct settling settling;
    bool stopped;
};

void relay_start(struct worker *w);
void relay_stop(struct worker *w);
void relay_deinit(struct worker *w);
bool relay_idle(const struct worker *w);
