/* Verified tokens: fixed memory, four places where a token may be, found by a keyed 128-bit hash of
 * the whole token (so that nobody can find two tokens of one hash). What is stored still has to be
 * checked against the time. One thread. */
#pragma once

#include "adapter/jwt/jwt_claims.h"
#include "base/hash.h"

#define JWT_CACHE_WAYS 4

struct jwt_cache_entry {
    struct hash128 tag;
    struct jwt_claims claims; /* user_id 0: free */
};

struct jwt_cache {
    struct hash_key key;
    struct jwt_cache_entry *entries; /* [sets * JWT_CACHE_WAYS]; NULL: no cache */
    size_t sets;                     /* a power of two */
    unsigned turn;
};

/* Rounded up to a power of two of sets. False: no memory. */
bool jwt_cache_init(struct jwt_cache *c, size_t entries);
void jwt_cache_deinit(struct jwt_cache *c);
struct hash128 jwt_cache_tag(const struct jwt_cache *c, struct str token);
const struct jwt_claims *jwt_cache_get(const struct jwt_cache *c, struct hash128 tag);
/* Takes the place of a free or expired one, else of one of the four in turn. */
void jwt_cache_put(struct jwt_cache *c, struct hash128 tag, const struct jwt_claims *claims,
                   int64_t expired_s);
