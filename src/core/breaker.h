/* Circuit breaker: closed → open after `threshold` infrastructure failures in a row → half-open
 * after `cooldown` with one probe at a time → closed when the probe got an answer, business answers
 * included. One owner thread. */
#pragma once

#include "base/rng.h"
#include <stdbool.h>
#include <stdint.h>

enum breaker_state { BREAKER_CLOSED, BREAKER_OPEN, BREAKER_HALF_OPEN };

struct breaker {
    enum breaker_state state;
    int threshold, failures;
    int64_t cooldown_us;
    int64_t open_until_us; /* half-open: when the probe counts as lost */
    int64_t closed_at_us;  /* when it last closed: recovery waits one receive round from here (rule
                              29) */
    bool probing;
};
void breaker_init(struct breaker *b, int threshold, int64_t cooldown_us);
/* May a call be made now? In half-open: only one at a time, the probe; one that nobody reported
 * within a cooldown counts as lost. */
bool breaker_allow(struct breaker *b, int64_t now_us);
void breaker_success(struct breaker *b, int64_t now_us);
void breaker_failure(struct breaker *b, int64_t now_us);
