/* What the files of the loop share; nobody else includes it. */
#pragma once

#include "loop/loop.h"

#include <event2/event.h>
#include <pthread.h>
#include <stdatomic.h>

struct evdns_base;

struct loop {
    struct sched sched;
    struct event_base *base;
    struct event *timer; /* the one libevent timer: armed for the earliest of sched's */
    int64_t armed_us;    /* INT64_MAX: not armed */
    int64_t wall_us;     /* 0: not read in this turn */
    bool fresh;          /* sched.now_us was read in this turn */
    struct list tasks, flushes;

    int wake_fd;
    struct event *wake;
    atomic_bool stop;
    pthread_mutex_t lock; /* guards the three below */
    struct loop_post *post_head, **post_tail;
    bool woken; /* wake_fd was written and not yet read */

    int attached; /* descriptors and signals: loop_free checks */
    struct evdns_base *dns;
    int resolving;
};

/* First thing in whatever libevent calls: "now" is read once a turn, after the poll returned. */
void loop_touch(struct loop *l);
void loop_resolve_shutdown(struct loop *l);
