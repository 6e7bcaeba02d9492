#include "core/breaker.h"

void breaker_init(struct breaker *b, int threshold, int64_t cooldown_us)
{
    *b = (struct breaker){
        .state = BREAKER_CLOSED, .threshold = threshold, .cooldown_us = cooldown_us};
}

static void open(struct breaker *b, int64_t now_us)
{
    b->state = BREAKER_OPEN;
    b->probing = false;
    b->failures = 0;
    b->open_until_us = now_us + b->cooldown_us;
}

bool breaker_allow(struct breaker *b, int64_t now_us)
{
    if (b->state == BREAKER_CLOSED)
        return true;
    /* While a probe is out, open_until_us is when it counts as lost: whoever took it may have
     * forgotten to report, and that must not keep the breaker half-open for ever. */
    if ((b->state == BREAKER_OPEN || b->probing) && now_us < b->open_until_us)
        return false;
    b->state = BREAKER_HALF_OPEN;
    b->probing = true;
    b->open_until_us = now_us + b->cooldown_us;
    return true;
}

void breaker_success(struct breaker *b, int64_t now_us)
{
    /* An answer to a call made before it opened proves nothing about now: only the probe closes. */
    if (b->state == BREAKER_OPEN)
        return;
    if (b->state == BREAKER_HALF_OPEN)
        b->closed_at_us = now_us;
    b->state = BREAKER_CLOSED;
    b->probing = false;
    b->failures = 0;
}

void breaker_failure(struct breaker *b, int64_t now_us)
{
    if (b->state == BREAKER_HALF_OPEN ||
        (b->state == BREAKER_CLOSED && ++b->failures >= b->threshold))
        open(b, now_us);
}
