/* Who may use the database connections: orders first, but the background work (relay, recovery,
 * marks, dead letters, beats) always keeps one connection when it wants one, and so do the orders.
 * Every job of the worker goes through here. Loop thread. */
#pragma once

#include "base/list.h"
#include "base/sched.h"
#include "port/jobs.h"

struct worker;

enum share_class { SHARE_ORDERS, SHARE_BACK, SHARE_CLASSES };

struct share_job {
    enum share_class class;
    void (*run)(struct share_job *j, struct orders *o); /* on a crew thread: sets rc */
    void (*on_done)(struct share_job *j);               /* on the loop, never inside share_submit */
    int rc;
    /* internal */
    struct job job;
    struct list link;
    struct worker *w;
    struct timer refused;
    int64_t asked_us, started_us; /* submitted; a connection was free */
};

struct share {
    struct list waiting[SHARE_CLASSES];
    int n_waiting[SHARE_CLASSES], running[SHARE_CLASSES];
    bool pumping;
};

void share_init(struct worker *w);
void share_submit(struct worker *w, struct share_job *j);
/* Starts whatever may start now: waiting jobs, then ready lanes. Cheap; called whenever something
 * changed. */
void share_pump(struct worker *w);
bool share_idle(const struct worker *w); /* nothing runs or waits */
