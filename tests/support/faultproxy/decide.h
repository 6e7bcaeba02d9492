/* Every random decision of the proxy, and the record of what was decided. A decision is a keyed
 * hash of (seed, what, proxy, toxic, connection, index): it depends on nothing but these, so the
 * same seed and the same order of connections and requests give the same faults, whatever the
 * timing. */
#pragma once

#include "base/hash.h"
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct decide {
    struct hash_key key;
    uint64_t seed;
    FILE *log; /* NULL: nothing is recorded */
    int64_t logged, log_max;
};

/* What a decision is about; proxy and toxic by name, since numbers would depend on the order of the
 * control calls. */
struct decide_about {
    const char *what, *proxy, *toxic;
    uint64_t connection, index;
};

/* log_path NULL: no log. False with errno when it cannot be written. */
bool decide_init(struct decide *d, uint64_t seed, const char *log_path, int64_t log_max);
void decide_deinit(struct decide *d);
uint64_t decide_u64(const struct decide *d, const struct decide_about *a);
double decide_unit(const struct decide *d, const struct decide_about *a); /* [0, 1) */
/* Uniform in [-spread, spread]. */
int64_t decide_spread(const struct decide *d, const struct decide_about *a, int64_t spread);
/* One JSON line: the event, whom it is about, and `more` (an object, taken; may be NULL). Beyond
 * log_max bytes one last line says so. */
void decide_log(struct decide *d, const char *event, const struct decide_about *a, json_t *more);
