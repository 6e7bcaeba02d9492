/* Blocking work on the orders port, done elsewhere: a crew of threads in production (loop/crew.h),
 * plain calls on the virtual clock in flow tests. Of the loop that owns it. */
#pragma once

#include "port/orders.h"

/* Embedded in the request of whoever submits it. */
struct job_space {
    _Alignas(16) unsigned char bytes[128];
};
struct job {
    /* On a crew thread, with that thread's connection. Touches nothing but its own struct; every
     * wait is bounded by a ctx of its own. */
    void (*run)(struct job *j, struct orders *o);
    /* On the loop, exactly once, never inside submit. */
    void (*on_done)(struct job *j);
    struct job_space space;
};

struct jobs;
struct jobs_ops {
    /* 0; ERR_OVERLOAD when too many wait (on_done does not come). */
    int (*submit)(struct jobs *, struct job *);
};
struct jobs {
    const struct jobs_ops *ops;
    int threads; /* how many run at once */
};
