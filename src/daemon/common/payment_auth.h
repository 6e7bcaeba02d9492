/* The payment provider's credential: it signs each body with a secret that both know.
 *
 *   Authorization: Seckill-HMAC-SHA256 t=1782388800,v1=<64 hex digits>
 *
 * v1 is HMAC-SHA256(secret, t "." body), t the Unix time of signing. Signed again, the same payment
 * has another signature; sent again within the window, it is the same payment (its id). Loaded
 * once, then read-only: any thread. */
#pragma once

#include "daemon/common/secrets.h"

#define PAYMENT_SIGNATURE_MAX 160

struct payment_auth {
    int64_t window_s;
    struct secrets secrets; /* none: nobody may pay */
};

/* From a file of secrets (secrets.h). "": none, nobody may pay. 0, or ERR_INVALID with a message.
 */
int payment_auth_load(struct payment_auth *a, const char *path, int64_t window_us, char *err,
                      size_t err_cap);
void payment_auth_wipe(struct payment_auth *a);
/* Whether the header's value signs this body; *why (a static sentence) if not. */
bool payment_auth_check(const struct payment_auth *a, struct str authorization, struct str body,
                        int64_t wall_s, const char **why);
/* The header's value, zero-terminated. 0, or ERR_OVERLOAD. */
int payment_auth_sign(const struct payment_auth *a, struct str body, int64_t wall_s,
                      char out[PAYMENT_SIGNATURE_MAX]);
