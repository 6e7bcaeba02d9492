/* Open-addressing map from 64-bit integers to 64-bit integers or pointers; grows up to a bound. One
 * thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct map {
    struct map_slot {
        uint64_t key, value;
        bool used;
    } * slots;
    size_t n, cap, max; /* max: entries allowed */
};

void map_init(struct map *m, size_t max);
void map_deinit(struct map *m);
/* True and *value if there. */
bool map_get(const struct map *m, uint64_t key, uint64_t *value);
/* 0; ERR_OVERLOAD at the bound (an existing key is always replaced). */
int map_put(struct map *m, uint64_t key, uint64_t value);
bool map_remove(struct map *m, uint64_t key);
/* Iterates: start with *at = 0; false at the end. Nothing may be put or removed meanwhile. */
bool map_next(const struct map *m, size_t *at, uint64_t *key, uint64_t *value);
