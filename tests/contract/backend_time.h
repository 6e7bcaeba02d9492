/* The time that a contract suite's backend runs in: a loop's, with a real service (backend_loop.c),
 * or the fakes' virtual clock (backend_sched.c). One of them is linked. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

int64_t backend_now_us(void);
/* Runs until *flag or for at most `us`. Whether it was set. */
bool backend_run(const bool *flag, int64_t us);
/* A flag was set: backend_run may return. */
void backend_wake(void);
