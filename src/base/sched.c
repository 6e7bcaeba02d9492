/* A binary heap of pointers; each timer knows its place, so that setting and clearing cost O(log n)
 * and no memory but the heap's own growth. */
#include "base/sched.h"

#include "base/panic.h"
#include <stdbool.h>
#include <stdlib.h>

void sched_init(struct sched *s, int64_t now_us)
{
    *s = (struct sched){.now_us = now_us};
}

void sched_deinit(struct sched *s)
{
    if (s->n)
        panic("sched_deinit: %zu timers are still set", s->n);
    free(s->heap);
    *s = (struct sched){0};
}

static bool before(const struct timer *a, const struct timer *b)
{
    return a->at_us != b->at_us ? a->at_us < b->at_us : a->seq < b->seq;
}

static void place(struct sched *s, size_t i, struct timer *t)
{
    s->heap[i] = t;
    t->slot = i + 1;
}

static void sift_up(struct sched *s, size_t i, struct timer *t)
{
    while (i && before(t, s->heap[(i - 1) / 2])) {
        place(s, i, s->heap[(i - 1) / 2]);
        i = (i - 1) / 2;
    }
    place(s, i, t);
}

static void sift_down(struct sched *s, size_t i, struct timer *t)
{
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= s->n)
            break;
        if (child + 1 < s->n && before(s->heap[child + 1], s->heap[child]))
            child++;
        if (!before(s->heap[child], t))
            break;
        place(s, i, s->heap[child]);
        i = child;
    }
    place(s, i, t);
}

static void put(struct sched *s, size_t i, struct timer *t)
{
    if (i && before(t, s->heap[(i - 1) / 2]))
        sift_up(s, i, t);
    else
        sift_down(s, i, t);
}

static void grow(struct sched *s)
{
    size_t cap = s->cap ? s->cap * 2 : 64;
    struct timer **heap = realloc(s->heap, cap * sizeof(struct timer *));
    if (!heap)
        panic("sched: no memory for %zu timers", cap);
    s->heap = heap;
    s->cap = cap;
}

void sched_set(struct sched *s, struct timer *t, int64_t at_us)
{
    if (!t->on_fire)
        panic("sched_set: a timer without on_fire");
    /* During a run whatever is set into the past sorts behind all that was due when the run began:
     * that is how the run knows where to stop, and a callback that sets timers for "now" cannot
     * keep it from ending. */
    t->at_us = s->running && at_us < s->now_us ? s->now_us : at_us;
    t->seq = ++s->seq;
    if (t->slot) {
        put(s, t->slot - 1, t);
        return;
    }
    if (s->n == s->cap)
        grow(s);
    s->n++;
    sift_up(s, s->n - 1, t);
}

void sched_clear(struct sched *s, struct timer *t)
{
    if (!t->slot)
        return;
    size_t i = t->slot - 1;
    if (i >= s->n || s->heap[i] != t)
        panic("sched_clear: the timer is set in another sched");
    struct timer *last = s->heap[--s->n];
    t->slot = 0;
    if (last != t)
        put(s, i, last);
}

int64_t sched_next_us(const struct sched *s)
{
    return s->n ? s->heap[0]->at_us : INT64_MAX;
}

void sched_run(struct sched *s, int64_t now_us)
{
    if (s->running)
        panic("sched_run: called from a timer");
    if (now_us < s->now_us)
        panic("sched_run: the clock went back");
    s->now_us = now_us;
    s->running = true;
    uint64_t newest = s->seq;
    while (s->n && s->heap[0]->at_us <= now_us && s->heap[0]->seq <= newest) {
        struct timer *t = s->heap[0];
        sched_clear(s, t); /* first, so that the callback may set or free it */
        t->on_fire(t);
    }
    s->running = false;
}
