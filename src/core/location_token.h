/* The token in the Location of a 202: this service accepted that request. Who brings it back is
 * never told "no such request" (architecture 2, rules 34c, 37).
 *
 *   <epoch>.<mac>     epoch: that of the reservation, decimal, 1 … 2^63-1
 *                     mac: 22 characters, base64url of the first 128 bits of HMAC-SHA256(secret,
 *                     "loc-v1:" user activity sku epoch (8 bytes each, big endian) request (16))
 *
 * There is one spelling of a token: what is parsed has no leading zero, no padding and no unused
 * bit set. It is no secret of its own and gives no access: the request is found by the user's
 * bearer token. Pure; the keys are read-only once made: any thread. */
#pragma once

#include "base/str.h"
#include "core/item.h"
#include "core/sha256.h"
#include "core/uuid.h"

#define LOCATION_MAC_BYTES 16
#define LOCATION_TOKEN_MAX 42 /* 19 digits, a dot, 22 characters */
#define LOCATION_KEYS_MAX 4

/* A secret, hashed as far as it is the same for every token. */
struct location_key {
    struct sha256 inner, outer;
};
/* The first one makes tokens, each of them is believed. None: there are no tokens. */
struct location_keys {
    int n;
    struct location_key keys[LOCATION_KEYS_MAX];
};

struct location_claim {
    int64_t user_id;
    struct item item;
    struct uuid request_id;
    int64_t epoch;
};

struct location_token {
    int64_t epoch;
    unsigned char mac[LOCATION_MAC_BYTES];
};

void location_key_init(struct location_key *k, struct str secret);
/* Into `out`; its length. 0: there is no key, or the epoch is none. No allocation. */
size_t location_token_make(const struct location_keys *k, const struct location_claim *c,
                           char out[LOCATION_TOKEN_MAX]);
/* 0, or ERR_INVALID: this was never a token. */
int location_token_parse(struct str text, struct location_token *out);
/* Whether it was made for this request by one of the keys; claim->epoch is set to the token's. In a
 * time that does not depend on the MAC. */
bool location_token_check(const struct location_keys *k, const struct location_token *t,
                          struct location_claim *claim);
