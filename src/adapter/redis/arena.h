/* Memory of one reply: bump allocation, freed all at once. Keeps its first chunk, so that a usual
 * reply costs no malloc. One thread. */
#pragma once

#include <stddef.h>

#define ARENA_MAX (16 << 20) /* of one reply: beyond it the connection is given up */

struct arena_chunk;
struct arena {
    struct arena_chunk *first, *at;
    size_t total; /* bytes of all chunks */
};

void arena_init(struct arena *a);
void arena_deinit(struct arena *a);
void *arena_take(struct arena *a,
                 size_t n); /* aligned for pointers; NULL at the bound or without memory */
void arena_reset(struct arena *a);
