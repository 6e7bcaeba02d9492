/* Commands to bytes. */
#pragma once

#include "adapter/redis/redis.h"

struct redis_writer {
    struct strbuf *out; /* NULL: nothing is written, one word is looked for */
    int left;           /* redis_put calls still to come */
    int slot_in;        /* that many before the word that is looked for */
    int slot;           /* the word's */
};

/* The cluster's slot of the call's key; -1: it has none. */
int writer_slot(struct redis_call *c);

/* Appends one call, EVALSHA or (whole) EVAL for a script; out->failed tells whether it did not fit.
 */
void writer_call(struct strbuf *out, struct redis_call *c, bool whole);
/* Appends a command of n words. */
void writer_words(struct strbuf *out, const struct str *words, int n);
