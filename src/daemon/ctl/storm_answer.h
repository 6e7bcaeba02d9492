/* One answer of POST /v1/orders, held against the contract (architecture 2): the status and code
 * are a pair of the answer table, an acceptance and a duplicate name the unit. Pure. */
#pragma once

#include "core/uuid.h"
#include "core/verdict.h"

struct storm_answer {
    enum answer answer;
    int64_t order_id; /* 0: the answer names no unit */
    bool has_reservation;
    struct uuid reservation_id;
};

/* What the answer says about the world. */
enum storm_says {
    STORM_ACCEPTED, /* 202, 200 */
    STORM_REFUSED,  /* certainly not done */
    STORM_UNSAID,   /* 500, 504: it may have been done */
};
enum storm_says storm_answer_says(enum answer a);

/* key: the request's Idempotency-Key. 0; ERR_INVALID with what breaks the contract in *why (a
 * static string). */
int storm_answer_read(int status, struct str body, const struct uuid *key, struct storm_answer *out,
                      const char **why);
/* The same of a status call's 200. */
int storm_state_read(struct str body, const struct uuid *key, struct verdict *out,
                     const char **why);
