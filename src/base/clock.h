/* The three clocks. Code below daemon and loop does not read them: time is passed in (sched.h holds
 * "now"). */
#pragma once

#include <stdint.h>

int64_t clock_mono_us(void); /* CLOCK_MONOTONIC: deadlines, leases, durations */
int64_t clock_wall_us(void); /* CLOCK_REALTIME: only for what people and other machines read */
int64_t clock_cpu_us(void);  /* CPU time of this process */
