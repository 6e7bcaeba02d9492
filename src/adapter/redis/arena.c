#include "adapter/redis/arena.h"

#include <stdlib.h>

enum { CHUNK = 32 << 10 };

struct arena_chunk {
    struct arena_chunk *next;
    size_t used, cap;
    _Alignas(16) unsigned char bytes[];
};

void arena_init(struct arena *a)
{
    *a = (struct arena){0};
}

static void free_after(struct arena_chunk *c)
{
    while (c) {
        struct arena_chunk *next = c->next;
        free(c);
        c = next;
    }
}

void arena_deinit(struct arena *a)
{
    free_after(a->first);
    arena_init(a);
}

static struct arena_chunk *grow(struct arena *a, size_t n)
{
    size_t cap = n > CHUNK ? n : CHUNK;
    if (cap > ARENA_MAX || a->total > ARENA_MAX - cap)
        return NULL;
    struct arena_chunk *c = malloc(sizeof *c + cap);
    if (!c)
        return NULL;
    c->next = NULL;
    c->used = 0;
    c->cap = cap;
    if (a->at)
        a->at->next = c;
    else
        a->first = c;
    a->at = c;
    a->total += cap;
    return c;
}

void *arena_take(struct arena *a, size_t n)
{
    if (n > ARENA_MAX)
        return NULL;
    n = (n + 15) & ~(size_t)15;
    struct arena_chunk *c = a->at;
    if (!c || n > c->cap - c->used) {
        c = grow(a, n);
        if (!c)
            return NULL;
    }
    void *p = c->bytes + c->used;
    c->used += n;
    return p;
}

void arena_reset(struct arena *a)
{
    struct arena_chunk *first = a->first;
    if (!first)
        return;
    if (first->cap > CHUNK) { /* a first reply of unusual size does not stay */
        arena_deinit(a);
        return;
    }
    free_after(first->next);
    first->next = NULL;
    first->used = 0;
    a->at = first;
    a->total = first->cap;
}
