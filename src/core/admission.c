#include "core/admission.h"

/* Per round of requests: four more, or three quarters of them. */
#define GROW 4.0
#define SHRINK 0.75

void admission_init(struct admission *a, int max, int64_t target_us)
{
    *a = (struct admission){.limit = max, .max = max, .target_us = target_us};
}

int admission_limit(const struct admission *a)
{
    return (int)a->limit;
}

bool admission_enter(struct admission *a)
{
    if (a->in_flight >= (int)a->limit)
        return false;
    a->in_flight++;
    return true;
}

void admission_leave(struct admission *a, int64_t now_us, int64_t took_us, bool timed_out)
{
    int was = a->in_flight--;
    if (timed_out || took_us > a->target_us) {
        if (now_us < a->shrink_at_us)
            return;
        /* From what was really under way: a limit that nobody reached says nothing. */
        double from = was < a->limit ? was : a->limit;
        double least = a->max < ADMISSION_LEAST ? a->max : ADMISSION_LEAST;
        a->limit = from * SHRINK > least ? from * SHRINK : least;
        a->shrink_at_us = now_us + took_us;
    } else if (was * 2 > (int)a->limit) { /* only while it is made use of */
        a->limit += GROW / a->limit;
        if (a->limit > a->max)
            a->limit = a->max;
    }
}
