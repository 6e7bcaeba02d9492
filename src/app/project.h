/* Projection to the result topic: outbox rows that are settled in Redis are published for other
 * systems, at least once (rule 9). Most are told as soon as they are settled (tell.h) and never
 * seen here; this finds the others: ends of orders, what the relay settled, what did not arrive.
 * Nothing waits for it: not the ack, not the settle, no buyer; an outage there leaves rows in the
 * outbox, no more.
 *
 *   IDLE → READ → PICK → PUBLISH (one item at a time) … → MARK → IDLE
 *                                    └ the topic is away: the rest waits for its claim's end
 *
 *   READ     claims rows by their state, never by "id > last": a transaction that commits late is
 *            found when it does
 *   MARK     what certainly arrived; all else comes again, with the same key
 *
 * It has a connection to PostgreSQL of its own (worker.upkeep), shared with retention only. Several
 * workers share the rows by claims. Bounded: one page of rows. Loop thread; the calls run on the
 * crew, one job at a time. */
#pragma once

#include "base/ctx.h"
#include "base/err.h"
#include "base/flow.h"
#include "base/sched.h"
#include "port/jobs.h"
#include "port/results.h"

#define PROJECT_READ_MAX 1024
#define PROJECT_CLAIM_MS 5000
#define PROJECT_AGAIN_US 20000     /* a page was full: there is more */
#define PROJECT_BACKOFF_US 5000000 /* at most, while the topic is away */
#define PROJECT_LOOK_US 5000000    /* between two looks at the backlog's size */
#define PROJECT_COUNT_MAX 100000   /* rows are counted up to here */

struct worker;

struct project {
    struct flow flow;
    struct timer timer;
    bool stopped;
    struct job job;
    struct ctx ctx;
    int rc;
    struct result *rows; /* [PROJECT_READ_MAX] */
    bool *done;          /* [PROJECT_READ_MAX]: was its item's turn */
    int n;
    struct results_row *batch; /* [RESULTS_MAX] */
    struct results_publish publish;
    int64_t *arrived; /* [PROJECT_READ_MAX]: to be marked */
    int n_arrived;
    bool away; /* a publish of this round failed */
    int64_t backoff_us, looked_us;
    bool looking;
    struct orders_unpublished backlog;
};

/* What became of a publish, told by metric and log: of its n rows `told` arrived. */
void project_note(struct worker *w, const struct results_publish *p, int rc, int told);
/* Whether that error speaks of the topic. What is wrong with one item's stream alone is no reason
 * to let the others wait. */
static inline bool project_topic_away(int rc)
{
    return rc < 0 && rc != ERR_INTERNAL && rc != ERR_INVALID;
}
/* Does nothing without worker.results. */
void project_start(struct worker *w);
void project_stop(struct worker *w);
void project_deinit(struct worker *w);
bool project_idle(const struct worker *w);
