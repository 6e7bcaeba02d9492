/* Commands to bytes. */
#pragma once

#include "adapter/redis/redis.h"

struct redis_writer {
    struct strbuf *out;
    int left; /* redis_put calls still to come */
};

/* Appends one call, EVALSHA or (whole) EVAL for a script; out->failed tells whether it did not fit.
 */
void writer_call(struct strbuf *out, struct redis_call *c, bool whole);
/* Appends a command of n words. */
void writer_words(struct strbuf *out, const struct str *words, int n);
