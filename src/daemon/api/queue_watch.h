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
    bool ready, lasting;       /* lasting: `why` stays until somebody puts it right */
    char why[QUEUE_WATCH_WHY]; /* "": nothing is wrong */
};
void queue_report_init(struct data_loop *d);

/* On the control loop. */
struct queue_watch {
    struct api *api;
    struct admin_check check; /* "queue" */
    struct event_queue_wait wait;
    int asked;        /* reports under way */
    int64_t told_us;  /* of the last full round; 0: none yet */
    int64_t since_us; /* the start waits; 0: nobody asked yet */
    bool ready;       /* all of them */
    bool lasting;     /* any of them */
    char why[QUEUE_WATCH_WHY];
};
void queue_watch_init(struct queue_watch *w, struct api *api);
/* Whether the program may be told started: all queues can be used. Where publish_refused is
 * `recover` one that cannot be reached is waited for only so long, since units are sold without it,
 * and an instance that is restarted meanwhile has to come up; what somebody has to put right holds
 * the start up as long as it lasts. Asks anew where the answer is old, and says in the log what it
 * waits for. */
bool queue_watch_lets_start(struct queue_watch *w);
/* The data loops are gone: a check that waits for them ends. */
void queue_watch_end(struct queue_watch *w);
