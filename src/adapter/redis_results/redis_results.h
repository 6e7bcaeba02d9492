/* The result topic on Redis: a stream per item, sec:{A:S}:results, field b: a JSON array of at most
 * 16 results (lua/results.lua). On a connection of its own, so that no settle waits behind it. All
 * rows of a call or none; unknown is told as an error, and a repeat stands in the stream a second
 * time. */
#pragma once

#include "adapter/redis/redis.h"
#include "port/results.h"

struct redis_results_config {
    struct redis_config redis;
    int64_t max_len; /* entries of an item's stream, about */
    int64_t keep_us; /* it lives so long from its last entry, at least */
};
struct results *redis_results_new(struct loop *l, const struct redis_results_config *c, char *err,
                                  size_t err_cap);
/* Calls under way complete first, inside this call. */
void redis_results_free(struct results *r);
