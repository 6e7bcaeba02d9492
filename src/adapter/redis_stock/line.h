/* What our scripts answer: one line "code epoch seq seconds microseconds rest" (lua/README.md). */
#pragma once

#include "adapter/redis/redis.h"
#include "core/item.h"
#include "port/stock.h"

struct line {
    int code;
    struct item_version version;
    int64_t time_us; /* Redis's clock */
    struct str rest; /* borrowed from the reply */
};
int line_parse(const struct redis_reply *reply, struct line *out); /* 0 or ERR_INTERNAL */

/* The next word up to a space; an empty str at the end. */
struct str line_word(struct str *rest);
int line_i64(struct str *rest, int64_t *out); /* 0 or ERR_INTERNAL */
int line_uuid(struct str *rest, struct uuid *out);

/* "field value field value …" of a record; user and request are the caller's. 0 or ERR_INTERNAL. */
int line_record(struct str text, struct reservation *out);
