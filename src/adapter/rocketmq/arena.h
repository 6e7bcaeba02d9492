/* Memory of one decoded answer: protobuf-c's allocator over a block that is used again for the
 * next. Bounded, since a few bytes on the wire can ask for many in memory; over the bound decoding
 * fails. One thread. */
#pragma once

#include <protobuf-c/protobuf-c.h>
#include <stddef.h>

struct rmq_arena {
    ProtobufCAllocator allocator; /* for protobuf_c_message_unpack; its free does nothing */
    struct rmq_arena_block *blocks;
    size_t used, max;
};

void rmq_arena_init(struct rmq_arena *a, size_t max);
void rmq_arena_deinit(struct rmq_arena *a);
void rmq_arena_reset(struct rmq_arena *a); /* everything of it is gone; the first block is kept */
