/* Internal to metric*.c: how a series is stored. */
#pragma once

#include "base/metric.h"
#include <stdatomic.h>

enum { METRIC_SHARDS = 16, METRIC_MAX_SERIES = 1024, METRIC_MAX_BOUNDS = 64, METRIC_LINE = 64 };

enum metric_kind { METRIC_COUNTER, METRIC_GAUGE, METRIC_HISTOGRAM };

/* Series of one name. */
struct metric_family {
    char *name, *help;
    enum metric_kind kind;
    double *bounds;
    int n_bounds;
    struct metric *first, *last;
    struct metric_family *next;
};

/* A shard is `stride` bytes, whole cache lines: for a counter its count; for a histogram the sum
 * and then n_bounds + 1 buckets, not cumulated. */
struct metric {
    struct metric_family *family;
    char *labels; /* "" for none */
    struct metric *next;
    unsigned char *shards;
    size_t stride;
    _Atomic int64_t gauge;
    atomic_bool known;
};

struct metric_shard {
    _Atomic double sum; /* histogram only */
    _Atomic uint64_t count[];
};

static inline struct metric_shard *metric_shard(const struct metric *m, size_t i)
{
    return (struct metric_shard *)(void *)(m->shards + i * m->stride);
}

/* The families in the order of their registration; the lists only grow, under metric_lock. */
struct metric_family *metric_families(void);
void metric_lock(void);
void metric_unlock(void);
/* process_* of this process, from /proc. What cannot be read is left out. */
void metric_render_process(struct strbuf *b);
void metric_add_double(struct strbuf *b, double v);
