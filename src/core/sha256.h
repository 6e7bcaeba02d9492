/* SHA-256 (FIPS 180-4). A value: a state is copied by assignment, so that what all messages begin
 * with is hashed once. Messages below 2^61 bytes. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define SHA256_BYTES 32
#define SHA256_BLOCK 64

struct sha256 {
    uint32_t h[8];
    uint64_t total;
    unsigned char block[SHA256_BLOCK];
};

void sha256_init(struct sha256 *s);
void sha256_add(struct sha256 *s, const void *bytes, size_t n);
void sha256_end(struct sha256 *s, unsigned char digest[SHA256_BYTES]);
