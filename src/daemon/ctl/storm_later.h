/* Requests that are tried again after a fixed delay: a queue in order of time, of a fixed size. Who
 * pushes has seen to it that there is room. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define LATER_ROOM (1 << 16)

struct later {
    int64_t j, due_us;
    int try;
};
struct later_queue {
    struct later *ring; /* [LATER_ROOM] */
    uint32_t head, n;
    int64_t delay_us;
};

static inline void later_push(struct later_queue *q, int64_t j, int try, int64_t now_us)
{
    q->ring[(q->head + q->n++) % LATER_ROOM] = (struct later){j, now_us + q->delay_us, try};
}

static inline bool later_pop(struct later_queue *q, int64_t now_us, struct later *out)
{
    if (q->n == 0 || q->ring[q->head].due_us > now_us)
        return false;
    *out = q->ring[q->head];
    q->head = (q->head + 1) % LATER_ROOM;
    q->n--;
    return true;
}

static inline int64_t later_due_us(const struct later_queue *q)
{
    return q->n ? q->ring[q->head].due_us : INT64_MAX;
}
