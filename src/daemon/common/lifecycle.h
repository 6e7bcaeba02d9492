/* The life of a program that serves HTTP on data loops, kept by its control loop:
 *
 *   STARTING ─ is_started ─► SERVING
 *      └────── SIGTERM, SIGINT ─┴─► ENDPOINTS (not ready, still serving, drain.endpoints)
 *                                  ─► DRAINING (begin_drain; until lifecycle_drained by each loop)
 * ─► the loop stops
 *
 * A second signal ends the process at once. */
#pragma once

#include "daemon/admin.h"

enum lifecycle_phase {
    LIFECYCLE_STARTING,
    LIFECYCLE_SERVING,
    LIFECYCLE_ENDPOINTS,
    LIFECYCLE_DRAINING
};

struct lifecycle {
    /* set by the owner before lifecycle_init; borrowed */
    struct loop *loop;
    struct admin *admin;
    int64_t endpoints_us;
    int n_loops;                              /* data loops */
    bool (*is_started)(struct lifecycle *c);  /* asked again and again until it is true */
    void (*begin_drain)(struct lifecycle *c); /* no new connections, finish what is in hand */
    /* internal */
    enum lifecycle_phase phase;
    int drained; /* data loops */
    struct timer timer;
    struct loop_signal term, interrupt;
};

int lifecycle_init(struct lifecycle *c); /* takes the signals: 0 or an error */
void lifecycle_start(struct lifecycle *c);
/* On the control loop: a data loop has nothing left in hand. After the last one the loop stops. */
void lifecycle_drained(struct lifecycle *c);
void lifecycle_deinit(struct lifecycle *c); /* harmless after a failed lifecycle_init */
