/* xoshiro256** 1.0 and splitmix64 (D. Blackman, S. Vigna, public domain algorithms). */
#include "base/rng.h"

#include "base/panic.h"
#include <errno.h>
#include <string.h>
#include <sys/random.h>

void rng_secret(void *dst, size_t n)
{
    unsigned char *at = dst;
    while (n) {
        ssize_t got = getrandom(at, n, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            panic("getrandom: %s", strerror(errno));
        at += got;
        n -= (size_t)got;
    }
}

void rng_init(struct rng *r)
{
    do {
        rng_secret(r->s, sizeof r->s);
    } while (!(r->s[0] | r->s[1] | r->s[2] | r->s[3])); /* the one state that never leaves itself */
}

void rng_init_seed(struct rng *r, uint64_t seed)
{
    for (int i = 0; i < 4; i++) {
        seed += UINT64_C(0x9e3779b97f4a7c15);
        uint64_t z = seed;
        z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
        z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
        r->s[i] = z ^ (z >> 31);
    }
}

static inline uint64_t rotl(uint64_t x, int n)
{
    return x << n | x >> (64 - n);
}

uint64_t rng_u64(struct rng *r)
{
    uint64_t *s = r->s;
    uint64_t result = rotl(s[1] * 5, 7) * 9;
    uint64_t t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotl(s[3], 45);
    return result;
}

uint64_t rng_below(struct rng *r, uint64_t n)
{
    if (n == 0)
        panic("rng_below(0)");
    /* Lemire's multiplication; the rejected sliver below `least` is what a plain modulo would
     * favour. */
    unsigned __int128 wide = (unsigned __int128)rng_u64(r) * n;
    if ((uint64_t)wide < n) {
        uint64_t least = (UINT64_C(0) - n) % n;
        while ((uint64_t)wide < least)
            wide = (unsigned __int128)rng_u64(r) * n;
    }
    return (uint64_t)(wide >> 64);
}

void rng_fill(struct rng *r, void *dst, size_t n)
{
    unsigned char *at = dst;
    while (n) {
        uint64_t word = rng_u64(r);
        size_t take = n < sizeof word ? n : sizeof word;
        memcpy(at, &word, take);
        at += take;
        n -= take;
    }
}
