/* How long something may take, and whether anybody still wants it. Passed to everything that can
 * wait. A child's deadline is the earlier of its own and its parent's; cancelling a parent cancels
 * the children. A parent outlives its children. `cancel` may come from another thread; all else
 * belongs to one thread. */
#pragma once

#include "base/err.h"
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct ctx {
    int64_t deadline_us; /* monotonic */
    atomic_bool canceled;
    const struct ctx *parent;
};

#define CTX_NO_DEADLINE INT64_MAX

void ctx_init(struct ctx *c, const struct ctx *parent, int64_t deadline_us);
void ctx_cancel(struct ctx *c);
/* 0, ERR_CANCELED or ERR_DEADLINE. */
int ctx_check(const struct ctx *c, int64_t now_us);
/* Time left, never negative; 0 when cancelled. */
int64_t ctx_left_us(const struct ctx *c, int64_t now_us);
