/* JWT (RFC 7519) as this system accepts them: HS256, RS256, ES256; the algorithm is pinned by the
 * key, never chosen by the token; `sub` is the user, a positive 64-bit integer as a decimal string;
 * exp required, nbf and iat honoured, iss and aud as configured. Verified tokens are cached; a
 * cached one's exp is still checked. One verifier per loop. */
#pragma once

#include "base/str.h"
#include "port/auth.h"
#include <stdint.h>

struct jwt_keys; /* immutable, shared by the loops */

/* spec: "kid=HS256:/path/to/secret,kid2=RS256:/path/to/public.pem,kid3=ES256:/path.pem". NULL with
 * a message in err (a missing file, a weak HMAC key under 32 bytes, an RSA key under 2048 bits, the
 * wrong curve, a kid twice). */
struct jwt_keys *jwt_keys_load(const char *spec, char *err, size_t err_cap);
void jwt_keys_free(struct jwt_keys *k);

struct jwt_config {
    const struct jwt_keys *keys; /* borrowed */
    const char *issuer, *audience;
    int64_t leeway_s;
    size_t cache_entries; /* 0: no cache; the memory is taken at once */
};
/* NULL: no memory, or no issuer or audience (under 512 bytes each), or a setup error of OpenSSL. */
struct auth *jwt_new(const struct jwt_config *c);
void jwt_free(struct auth *a);

/* Mints an HS256 token (development and tests): the key kid must be an HS256 one. The length, or
 * ERR_INVALID. */
int jwt_mint(const struct jwt_keys *k, const char *kid, const char *issuer, const char *audience,
             int64_t user_id, int64_t now_s, int64_t ttl_s, char *dst, size_t cap);
