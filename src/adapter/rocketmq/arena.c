#include "adapter/rocketmq/arena.h"

#include <stdlib.h>

#define BLOCK ((size_t)64 << 10)
#define ALIGN 16

struct rmq_arena_block {
    struct rmq_arena_block *next;
    size_t size, used;
    _Alignas(ALIGN) unsigned char bytes[];
};

static struct rmq_arena_block *block_new(struct rmq_arena *a, size_t n)
{
    size_t size = n > BLOCK ? n : BLOCK;
    struct rmq_arena_block *b = malloc(sizeof *b + size);
    if (!b)
        return NULL;
    *b = (struct rmq_arena_block){.next = a->blocks, .size = size};
    a->blocks = b;
    return b;
}

static void *alloc(void *data, size_t n)
{
    struct rmq_arena *a = data;
    if (n > a->max)
        return NULL;
    n = (n + ALIGN - 1) & ~(size_t)(ALIGN - 1);
    if (n > a->max - a->used)
        return NULL;
    struct rmq_arena_block *b = a->blocks;
    if (!b || n > b->size - b->used)
        b = block_new(a, n);
    if (!b)
        return NULL;
    void *at = b->bytes + b->used;
    b->used += n;
    a->used += n;
    return at;
}

static void release(void *data, void *ptr)
{
    (void)data;
    (void)ptr;
}

void rmq_arena_init(struct rmq_arena *a, size_t max)
{
    *a = (struct rmq_arena){
        .allocator = {.alloc = alloc, .free = release, .allocator_data = a},
        .max = max & ~(size_t)(ALIGN - 1),
    };
}

void rmq_arena_reset(struct rmq_arena *a)
{
    a->used = 0;
    while (a->blocks && (a->blocks->next || a->blocks->size > BLOCK)) {
        struct rmq_arena_block *b = a->blocks;
        a->blocks = b->next;
        free(b);
    }
    if (a->blocks)
        a->blocks->used = 0;
}

void rmq_arena_deinit(struct rmq_arena *a)
{
    a->used = 0;
    while (a->blocks) {
        struct rmq_arena_block *b = a->blocks;
        a->blocks = b->next;
        free(b);
    }
}
