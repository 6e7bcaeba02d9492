/* SipHash-2-4 after J.-P. Aumasson and D. J. Bernstein, "SipHash: a fast short-input PRF" (2012),
 * and the 128-bit variant of its reference implementation. */
#include "base/hash.h"

#include <string.h>

struct sip {
    uint64_t v0, v1, v2, v3;
};

static inline uint64_t rotl(uint64_t x, int n)
{
    return x << n | x >> (64 - n);
}

static inline void sip_round(struct sip *s)
{
    s->v0 += s->v1;
    s->v1 = rotl(s->v1, 13) ^ s->v0;
    s->v0 = rotl(s->v0, 32);
    s->v2 += s->v3;
    s->v3 = rotl(s->v3, 16) ^ s->v2;
    s->v0 += s->v3;
    s->v3 = rotl(s->v3, 21) ^ s->v0;
    s->v2 += s->v1;
    s->v1 = rotl(s->v1, 17) ^ s->v2;
    s->v2 = rotl(s->v2, 32);
}

static inline void absorb(struct sip *s, uint64_t word)
{
    s->v3 ^= word;
    sip_round(s);
    sip_round(s);
    s->v0 ^= word;
}

static inline uint64_t finish(struct sip *s)
{
    for (int i = 0; i < 4; i++)
        sip_round(s);
    return s->v0 ^ s->v1 ^ s->v2 ^ s->v3;
}

static inline uint64_t load_le(const unsigned char *p, size_t n)
{
    uint64_t word = 0;
    for (size_t i = 0; i < n; i++)
        word |= (uint64_t)p[i] << (8 * i);
    return word;
}

static inline struct sip sip_start(const struct hash_key *key, const void *data, size_t n,
                                   uint64_t variant)
{
    struct sip s = {
        .v0 = UINT64_C(0x736f6d6570736575) ^ key->k0,
        .v1 = UINT64_C(0x646f72616e646f6d) ^ key->k1 ^ variant,
        .v2 = UINT64_C(0x6c7967656e657261) ^ key->k0,
        .v3 = UINT64_C(0x7465646279746573) ^ key->k1,
    };
    const unsigned char *p = data;
    size_t whole = n & ~(size_t)7;
    for (size_t i = 0; i < whole; i += 8)
        absorb(&s, load_le(p + i, 8));
    uint64_t tail = n & 7 ? load_le(p + whole, n & 7) : 0;
    absorb(&s, tail | (uint64_t)n << 56);
    return s;
}

uint64_t hash_sip64(const struct hash_key *key, const void *data, size_t n)
{
    struct sip s = sip_start(key, data, n, 0);
    s.v2 ^= 0xff;
    return finish(&s);
}

struct hash128 hash_sip128(const struct hash_key *key, const void *data, size_t n)
{
    struct sip s = sip_start(key, data, n, 0xee);
    struct hash128 h;
    s.v2 ^= 0xee;
    h.lo = finish(&s);
    s.v1 ^= 0xdd;
    h.hi = finish(&s);
    return h;
}
