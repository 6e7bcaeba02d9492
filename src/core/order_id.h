/* Order ids: 41-bit ms since 2024-01-01 | 10-bit instance | 12-bit counter. Unique while each
 * instance number has one owner (rule 38), and never backwards within a generator, whatever the
 * clock does. Text in JSON and Lua (2^53). */
#pragma once

#include "base/err.h"
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define ORDER_ID_INSTANCES 1024
#define ORDER_ID_EPOCH_MS INT64_C(1704067200000)
/* How far the ids may run ahead of the clock before they are refused (more than 4096 a ms for that
 * long). */
#define ORDER_ID_MAX_AHEAD_MS 1000

/* Shared by the loops of a process: one of the few shared things (see ARCHITECTURE.md). */
struct order_id_source {
    _Atomic int64_t last;           /* ms << 12 | counter: the last one given out */
    _Atomic int instance;           /* -1: none is held */
    _Atomic int64_t valid_until_us; /* monotonic: the lease of the instance number */
};

void order_id_init(struct order_id_source *s);
/* The lease was taken or renewed: ids start after floor_ms (the highest that the slot's earlier
 * owner may have used). */
void order_id_grant(struct order_id_source *s, int instance, int64_t floor_ms,
                    int64_t valid_until_us);
void order_id_revoke(struct order_id_source *s);
/* Whether a lease is valid. */
bool order_id_held(const struct order_id_source *s, int64_t mono_us);
/* 0; ERR_UNAVAIL without a valid lease or too far ahead of the clock. */
int order_id_next(struct order_id_source *s, int64_t wall_ms, int64_t mono_us, int64_t *out);
int64_t order_id_ms(int64_t id); /* since 1970 */
int64_t
order_id_highest_ms(const struct order_id_source *s); /* the highest ms given out; 0 if none */
