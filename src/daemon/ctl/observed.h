/* What was seen of the programs during a sale, JSONL (docs/audit.md), as tests and operators write
 * it beside the buyers' history:
 *
 *   {"t":µs,"type":"metrics","program":"seckill-api","instance":"api-1","life":"4711",
 *    "final":true,"values":{"seckill_http_connections":12,"…{route=\"orders\",status=\"202\"}":3}}
 *   {"t":µs,"type":"fault","what":"kill -9 order-worker"}
 *   {"t":µs,"type":"injected","metric":"seckill_pg_commit_unknown_total","program":"order-worker",
 *    "count":3,"is":"equal"|"at_least"|"at_most","what":"answers of COMMIT dropped"}
 *
 * metrics: a snapshot of /metrics; buckets of histograms are not needed. life tells the processes
 * of one instance apart: counters begin at 0 in each. final: it had nothing under way any more, so
 * that its counters are the life's totals. injected: how often somebody made happen what the metric
 * counts. One thread. */
#pragma once

#include "base/str.h"
#include <stdbool.h>
#include <stdint.h>

#define OBSERVED_NAME 160

struct observed_life {
    char program[24], instance[64], life[32];
    int64_t first_us, last_us; /* of its snapshots, wall clock */
    bool final;                /* its last snapshot is */
};

struct observed_series {
    uint32_t life;            /* index */
    char name[OBSERVED_NAME]; /* with its labels */
    double last, most;
};

enum observed_is { OBSERVED_EQUAL, OBSERVED_AT_LEAST, OBSERVED_AT_MOST };
struct observed_injection {
    char metric[OBSERVED_NAME], program[24], what[OBSERVED_NAME]; /* program "": all of them */
    double count;
    enum observed_is is;
};

struct observed {
    struct observed_life *lives;
    struct observed_series *series;
    struct observed_injection *injections;
    uint32_t n_lives, cap_lives, n_series, cap_series, n_injections, cap_injections;
    uint32_t *slots; /* of series: open addressing, index + 1 */
    uint32_t cap_slots;
    int64_t snapshots, faults, last_fault_us;
};

void observed_deinit(struct observed *o); /* starts zeroed */
/* 0; ERR_UNAVAIL, ERR_INVALID, ERR_OVERLOAD with why in err. A last line that its writer died in is
 * left out. */
int observed_read(struct observed *o, const char *path, char *err, size_t err_cap);

/* Whether the series is of this metric: its very name, or the name with any labels. */
bool observed_is_of(const struct observed_series *s, const char *metric);
/* The last values of all lives of a program ("" of all programs), summed. */
double observed_sum(const struct observed *o, const char *program, const char *metric);
double observed_sum_of(const struct observed *o, uint32_t life, const char *metric);
