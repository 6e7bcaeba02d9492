/* Who sent a request: "Authorization: Bearer <JWT>". */
#pragma once

#include "adapter/http/server.h"
#include "adapter/jwt/jwt.h"
#include "daemon/settings.h"
#include "port/auth.h"

/* A loop's verifier, as the settings have it; freed with jwt_free. NULL: no memory, or a setup
 * error of OpenSSL. */
struct auth *bearer_verifier(const struct jwt_keys *keys, const struct settings *s);
/* True and *user_id. False: x was answered with 401. */
bool bearer_authenticate(struct auth *auth, struct http_exchange *x, int64_t *user_id);
