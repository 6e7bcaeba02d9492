/* Random numbers: xoshiro256**, seeded from the kernel or, in tests, by hand. Not for secrets. One
 * thread each. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct rng {
    uint64_t s[4];
};

void rng_init(struct rng *r);                     /* from getrandom */
void rng_init_seed(struct rng *r, uint64_t seed); /* the same sequence each time */
uint64_t rng_u64(struct rng *r);
uint64_t rng_below(struct rng *r, uint64_t n); /* uniform in [0, n), n > 0 */
void rng_fill(struct rng *r, void *dst, size_t n);
/* Bytes for secrets and nonces, from getrandom; aborts if the kernel has none. */
void rng_secret(void *dst, size_t n);
