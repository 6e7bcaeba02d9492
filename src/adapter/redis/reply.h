/* Bytes to replies: hiredis's reader with our own objects in an arena, and what an error reply
 * means. */
#pragma once

#include "adapter/redis/arena.h"
#include "adapter/redis/redis.h"

#include <hiredis/read.h>

struct reply_reader {
    redisReader *reader;
    struct arena arena; /* of the reply that is being read */
};

int reply_reader_init(struct reply_reader *r); /* 0 or ERR_OVERLOAD */
void reply_reader_deinit(struct reply_reader *r);
int reply_reader_feed(struct reply_reader *r, const char *bytes,
                      size_t n); /* 0 or ERR_UNAVAIL: give up */
/* 0 and *reply (NULL: more bytes are needed), valid until reply_reader_next; ERR_UNAVAIL: not RESP,
 * or too large. */
int reply_reader_get(struct reply_reader *r, struct redis_reply **reply);
void reply_reader_next(struct reply_reader *r); /* done with the reply */

/* 0 for no error; ERR_UNAVAIL for those that say "not done, and not your fault"; ERR_INTERNAL for
 * all others. */
int reply_rc(const struct redis_reply *reply);
bool reply_is_noscript(const struct redis_reply *reply);
