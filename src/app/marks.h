/* Outbox rows whose outcome Redis has: marked as settled in PostgreSQL, many at once (rule 9).
 * What the result topic is known to have is marked as published in the same update. Coalesced for a
 * moment; bounded; what is lost here is settled once more by the relay. Loop thread. */
#pragma once

#include "app/share.h"
#include "base/ctx.h"
#include "base/sched.h"

#define MARKS_MAX 8192
#define MARKS_BATCH 1000
#define MARKS_WAIT_US 100000 /* below worker.relay_after, or the relay settles them once more */

struct mark {
    int64_t outbox_id;
    bool told;
};
struct marks {
    struct mark *waiting; /* [MARKS_MAX] */
    int n;
    int64_t *ids;           /* [MARKS_BATCH] with the job under way: told ones, then the others */
    int told, sent, marked; /* of ids */
    bool busy;
    struct share_job job;
    struct ctx ctx;
    struct timer timer;
};

void marks_init(struct worker *w);
void marks_deinit(struct worker *w);
/* told: the result topic certainly has it; else project tells it, if there is a topic. */
void marks_add(struct worker *w, int64_t outbox_id, bool told);
void marks_flush(struct worker *w); /* now, and without waiting for more: at the end */
bool marks_idle(const struct worker *w);
