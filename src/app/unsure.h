/* Messages whose order function gave no answer: their orders may be made. When one of them comes
 * again and the inbox says that it is an order, that order is counted as created, once. Where the
 * message went to another process, which did not make the order, or where this was forgotten,
 * nobody counts it. At most UNSURE_MAX are known; at the bound all are forgotten.
 *
 * A second copy of a message may get no answer after the first was counted: what was counted is
 * remembered, too, in a table in which a newer one takes an older one's place. Loop thread. */
#pragma once

#include "base/map.h"
#include "core/uuid.h"
#include <stdbool.h>

#define UNSURE_MAX 4096
#define UNSURE_COUNTED 16384 /* a power of two */

struct unsure {
    struct map messages;
    uint64_t counted[UNSURE_COUNTED];
};

void unsure_init(struct unsure *u);
void unsure_deinit(struct unsure *u);
/* Nothing, if its order was counted. */
void unsure_add(struct unsure *u, const struct uuid *message_id);
/* Its order was counted. */
void unsure_counted(struct unsure *u, const struct uuid *message_id);
/* Whether it was; it is not any more. */
bool unsure_take(struct unsure *u, const struct uuid *message_id);
