/* What the remoting protocol says of a group's backlog, read out of its answers. Pure. The bytes
 * come from the network: what does not make sense is ERR_INTERNAL, that is unknown, never zero. */
#pragma once

#include "base/str.h"

#define BACKLOG_BROKERS 32 /* as many as are received from */
#define BACKLOG_ADDRESS 128

/* 105, route of a topic: the addresses of its brokers' masters. The number; ERR_UNAVAIL: one of
 * them has no master now; ERR_OVERLOAD: more than BACKLOG_BROKERS. */
int backlog_masters(struct str body, char (*out)[BACKLOG_ADDRESS]);

/* 208, consume stats: adds up the messages that no consumer of the group was given yet, of the
 * topic or, with a '*' at its end, of all whose names begin so. How many queues that were, or
 * ERR_INTERNAL. */
int backlog_waiting(struct str body, const char *topic, int64_t *waiting);

/* 303, consume time spans: the age of the oldest of them, 0 if there is none. 0 or ERR_INTERNAL. */
int backlog_oldest_ms(struct str body, int64_t *age_ms);
