/* SHA-1 (FIPS 180-4), for name-based UUIDs alone (RFC 9562 version 5 prescribes it): not for
 * anything that an attacker must not be able to collide. Messages below 2^29 bytes. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define SHA1_BYTES 20

struct sha1 {
    uint32_t h[5];
    uint64_t total;
    unsigned char block[64];
};

void sha1_init(struct sha1 *s);
void sha1_add(struct sha1 *s, const void *bytes, size_t n);
void sha1_end(struct sha1 *s, unsigned char digest[SHA1_BYTES]);
