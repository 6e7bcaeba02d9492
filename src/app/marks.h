/* Outbox rows whose outcome Redis has: marked as settled in PostgreSQL, many at once (rule 9).
 * Coalesced for a moment; bounded; what is lost here is settled once more by the relay. Loop
 * thread. */
#pragma once

#include "app/share.h"
#include "base/ctx.h"
#include "base/sched.h"

#define MARKS_MAX 8192
#define MARKS_BATCH 1000
#define MARKS_WAIT_US 100000 /* below worker.relay_after, or the relay settles them once more */

struct marks {
    int64_t *ids; /* [MARKS_MAX], the first n are in use */
    int n, sent;  /* the first `sent` of them are with the job under way */
    bool busy;
    struct share_job job;
    struct ctx ctx;
    struct timer timer;
};

void marks_init(struct worker *w);
void marks_deinit(struct worker *w);
void marks_add(struct worker *w, int64_t outbox_id);
void marks_flush(struct worker *w); /* now, and without waiting for more: at the end */
bool marks_idle(const struct worker *w);
