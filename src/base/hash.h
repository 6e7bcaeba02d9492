/* SipHash-2-4: a keyed hash. With a secret key an attacker can neither collide nor predict it. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct hash_key {
    uint64_t k0, k1;
};
struct hash128 {
    uint64_t lo, hi;
};

uint64_t hash_sip64(const struct hash_key *key, const void *data, size_t n);
struct hash128 hash_sip128(const struct hash_key *key, const void *data, size_t n);
/* A cheap mixing of one integer, for tables whose keys nobody can choose at will. */
static inline uint64_t hash_mix64(uint64_t x)
{
    x ^= x >> 33;
    x *= UINT64_C(0xff51afd7ed558ccd);
    x ^= x >> 33;
    x *= UINT64_C(0xc4ceb9fe1a85ec53);
    return x ^ (x >> 33);
}
