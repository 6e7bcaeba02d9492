/* Who sent a request: "Authorization: Bearer <JWT>". */
#pragma once

#include "adapter/http/server.h"
#include "port/auth.h"

/* True and *user_id. False: x was answered with 401. */
bool bearer_authenticate(struct auth *auth, struct http_exchange *x, int64_t *user_id);
