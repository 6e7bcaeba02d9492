/* The end of messages in hand: acknowledged (a few tries; a failed ack costs a redelivery, which
 * the inbox answers), given back to be delivered again later, or left to their lease. Then their
 * slots are free. Loop thread. */
#pragma once

#include "core/item.h"

struct worker;
struct work;

/* Both take the works (1…256, of one item) over. */
void disposal_ack(struct worker *w, struct item item, struct work **works, int n);
/* The delay grows with `attempt` (from 1), jittered; the lease bounds it. */
void disposal_retry_later(struct worker *w, struct item item, struct work **works, int n,
                          int attempt);
/* Nothing is told: delivered again when the lease is over. For those that the broker gave up, of
 * which nothing is known: giving these back would publish and acknowledge them. */
void disposal_leave(struct worker *w, struct work **works, int n);
