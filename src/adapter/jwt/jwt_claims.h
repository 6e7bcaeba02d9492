/* What a token says: its header and its claims, read strictly. Pure. Members may not come twice,
 * nor be spelled with escapes (two spellings of one name are how two readers come to differ). Every
 * function: NULL, or what is wrong (a static string). */
#pragma once

#include "adapter/jwt/jwt_keys.h"

#define JWT_MEMBERS_MAX 64 /* of one object */

/* The key that the token names, by index into keys, with the algorithm checked against that key's.
 */
const char *jwt_header_read(struct str json, const struct jwt_keys *keys, int *key);

struct jwt_claims {
    int64_t user_id;
    int64_t expires_s;    /* exp, rounded down */
    int64_t not_before_s; /* the later of nbf and iat; 0: neither is there */
};
const char *jwt_claims_read(struct str json, const char *issuer, const char *audience,
                            struct jwt_claims *out);
