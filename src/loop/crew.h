/* A small crew of threads for straight-line blocking work (database scripts). A job runs on one of
 * the threads and is handed back to the loop that gave it. Bounded: a full crew refuses. */
#pragma once

#include "loop/loop.h"

struct crew;

struct crew_job {
    void (*run)(struct crew_job *j,
                void *member); /* on a crew thread; member: that thread's own, see crew_new */
    void (*on_done)(struct crew_job *j); /* on the loop, exactly once */
    struct loop_post post;               /* internal */
    struct loop *loop;
    struct crew_job *next;
};

/* `members`: what each thread owns (a connection), n of them, borrowed until crew_free; thread i
 * runs with members[i]. queue_max: jobs waiting at most. NULL if threads cannot be started. */
struct crew *crew_new(const char *name, void **members, int n, int queue_max);
/* 0; ERR_OVERLOAD when the queue is full (on_done does not come). Loop thread. */
int crew_submit(struct crew *c, struct loop *l, struct crew_job *j);
int crew_queued(const struct crew *c); /* waiting now */
int crew_busy(const struct crew *c);   /* running now */
/* Waits for what runs and what is queued (their contexts bound that), then ends the threads. Loops
 * must still be able to run what was posted to them. */
void crew_free(struct crew *c);
