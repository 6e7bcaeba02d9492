/* The result topic: what became of every reservation, for other systems (architecture 7, project).
 * A stream per item in Redis (adapter/redis_results), a topic on RocketMQ (adapter/rocketmq), a
 * fake in flow tests; one contract suite runs on each (tests/contract). At least once: whoever
 * cannot tell whether a row arrived sends it again, with the same key. Asynchronous (base/op.h), of
 * the loop that owns the port. */
#pragma once

#include "base/op.h"
#include "core/result.h"

#define RESULTS_MAX 128 /* rows of one call */

struct results_row {
    struct result result;
    bool published; /* out: it certainly arrived; false: not, or nobody knows */
};

/* rc 0: each row's `published` says whether it is there. An error: none is known to be. */
struct results_publish {
    struct op op;
    struct item item;         /* of all rows */
    struct results_row *rows; /* borrowed until on_done */
    int n;                    /* 1…RESULTS_MAX */
    struct op_space space;
};

struct results;
struct results_ops {
    void (*publish)(struct results *, struct results_publish *);
    void (*cancel)(struct results *, struct op *);
};
struct results {
    const struct results_ops *ops;
};
