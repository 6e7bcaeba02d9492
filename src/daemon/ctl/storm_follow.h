/* What became of a storm's acceptances: the Location of each is asked at query-api, as it was told,
 * until the state is final (docs/api.md: after 200 ms, then twice as long each time up to 2 s).
 *
 *   follow_add ─► waiting (a queue of each delay) ─► GET ─► final: counted, forgotten
 *                    ▲                                │
 *                    └──── not final, 503, no answer ─┘
 *
 * At most FOLLOW_MAX are waited for at once; those beyond are only counted. Each for so long at
 * most as the configuration says. Where nobody listens, all wait. One thread. */
#pragma once

#include "daemon/ctl/storm.h"

#define FOLLOW_MAX (1 << 17)
#define FOLLOW_CONNECTIONS 32

struct follow;
/* Heap. NULL: no memory, or c->query is not understood. on_change: something came to an end; called
 * from the loop. */
struct follow *follow_new(const struct storm_config *c, void (*on_change)(void *arg), void *arg);
/* The Location of request j's acceptance. False with a static reason: it is none of this request.
 */
bool follow_add(struct follow *f, int64_t j, struct str location, const char **why);

/* --- NULL is one that follows nobody --- */
/* Begins nothing more. */
void follow_stop(struct follow *f);
/* Nobody is waited for and nothing is under way. */
bool follow_over(const struct follow *f);
void follow_totals(const struct follow *f, struct follow_totals *out);
int64_t follow_heard_us(const struct follow *f); /* the last answer; 0: none */
/* Before the loop's end; what is under way completes on the loop first (follow_busy). */
void follow_cut(struct follow *f);
int follow_busy(const struct follow *f);
void follow_free(struct follow *f); /* not while busy */
