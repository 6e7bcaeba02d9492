/* Who is asking: a bearer token to a user. Synchronous, pure CPU; one per loop (it holds that
 * loop's cache). */
#pragma once

#include "base/str.h"
#include <stdint.h>

struct auth;

struct auth_ops {
    /* 0 and *user_id (> 0); ERR_DENIED with a static reason in *why. wall_s: seconds since 1970. */
    int (*verify)(struct auth *a, struct str token, int64_t wall_s, int64_t *user_id,
                  const char **why);
};
struct auth {
    const struct auth_ops *ops;
};
