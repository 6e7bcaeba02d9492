/* What the files of the flow share (reconcile.c: a round; reconcile_walk.c: its pages). */
#pragma once

#include "app/worker.h"

enum {
    IDLE,
    BEGIN,
    INSPECT,
    SOURCE,
    HELD,
    LOOK,
    JUDGE,
    PUBLISH,
    OVER,
    MEND,
    MENDED,
    TELL,
    END,
    STATES
};

static inline struct worker *worker_of(struct flow *f)
{
    return container_of(f, struct worker, reconcile.flow);
}

static inline struct worker *worker_of_job(struct share_job *j)
{
    return container_of(j, struct worker, reconcile.job);
}

static inline enum flow_result go(struct flow *f, int state)
{
    flow_goto(f, state);
    return FLOW_NEXT;
}

/* A job for the database; the flow goes on when it is done. */
void reconcile_submit(struct worker *w, void (*run)(struct share_job *, struct orders *));
/* On the crew: the lease of this round's item, taken or renewed. */
int reconcile_take_lease(struct worker *w, struct orders *o, struct orders_books *books);
/* The round ends here and says nothing; the second one says why. */
enum flow_result reconcile_give_up(struct worker *w);
enum flow_result reconcile_failed(struct worker *w, const char *what, int rc);

enum flow_result reconcile_step_source(struct flow *f);
enum flow_result reconcile_step_held(struct flow *f);
enum flow_result reconcile_step_look(struct flow *f);
enum flow_result reconcile_step_judge(struct flow *f);
enum flow_result reconcile_step_publish(struct flow *f);
