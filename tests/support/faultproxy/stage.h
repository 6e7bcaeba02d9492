/* A toxic at work on one direction of one connection: what comes in waits in `in` until the toxic's
 * kind moves it on. A stage that does not apply (toxicity) passes everything. */
#pragma once

#include "base/sched.h"
#include "toxic.h"

struct link;

enum chunk_kind {
    CHUNK_DATA,
    CHUNK_END,   /* the end of this direction: the receiver's side is shut down for writing */
    CHUNK_CUT,   /* both directions end, after what came before has been written */
    CHUNK_RESET, /* the same, with a reset */
};

struct chunk {
    struct list link;
    enum chunk_kind kind;
    uint64_t at;               /* DATA: offset of its first byte in the direction */
    int64_t came_us;           /* when it was read */
    const struct stage *timed; /* the stage that has set due_us */
    int64_t due_us;
    size_t off, len;
    char bytes[];
};

struct stage {
    struct list link;
    struct toxic *toxic;
    struct link *of;
    struct list in;
    struct timer timer;
    bool applied, done;
    int64_t begun_us, free_us;
    uint64_t count,
        next_at; /* limit_data, half_close: bytes passed; slicer: slices and the next cut */
};

/* NULL without memory. */
struct stage *stage_new(struct link *of, struct toxic *t);
void stage_free(struct stage *s); /* in must be empty, or is dropped */
void stage_run(struct stage *s);

void stage_latency(struct stage *s);
void stage_bandwidth(struct stage *s);
void stage_slow_close(struct stage *s);
void stage_timeout(struct stage *s);
void stage_timeout_removed(struct stage *s);
void stage_reset(struct stage *s);
void stage_slicer(struct stage *s);
void stage_limit(struct stage *s);
void stage_blackhole(struct stage *s);
void stage_half_close(struct stage *s);
