/* Watches the leases of waiting messages: prolonged while they still make sense, else dropped
 * without an ack, so that another worker may have them. A process that slept for long finds its
 * leases over here, and before each step that matters (place). Loop thread. */
#pragma once

#include "base/sched.h"

#define LEASE_EXTEND_MAX 3 /* more only while their lane moves */

struct worker;

struct lease {
    struct timer timer;
};

void lease_start(struct worker *w);
void lease_stop(struct worker *w);
