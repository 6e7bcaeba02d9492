/* What the data loops' queues say, gathered on the control loop: each loop is asked by a post and
 * answers with one, so that no queue is looked at from another thread. With the store's own queue
 * there is nothing to watch. Internal to daemon/api. */
#pragma once

#include "daemon/admin.h"
#include "daemon/common/event_queue.h"

#define QUEUE_WATCH_WHY 256

struct api;
struct data_loop;

/* In each data loop. */
struct queue_report {
    struct loop_post ask, tell;
    bool ready;
    char why[QUEUE_WATCH_WHY]; /* "": nothing is wrong */
};
void queue_report_init(struct data_loop *d);

/* On the control loop. */
struct queue_watch {
    struct api *api;
    struct admin_check check; /* "queue" */
    struct event_queue_wait wait;
    int asked;       /* reports under way */
    int64_t told_us; /* of the last full round; 0: none yet */
    bool ready;      /* all of them */
    char why[QUEUE_WATCH_WHY];
};
void queue_watch_init(struct queue_watch *w, struct api *api);
/* All queues can be used; asks anew where the answer is old, and says in the log what the start
 * waits for. */
bool queue_watch_ready(struct queue_watch *w);
/* The data loops are gone: a check that waits for them ends. */
void queue_watch_end(struct queue_watch *w);
