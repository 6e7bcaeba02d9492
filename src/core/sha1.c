#include "core/sha1.h"

#include <string.h>

static uint32_t rotl(uint32_t x, int n)
{
    return x << n | x >> (32 - n);
}

static void compress(uint32_t h[5], const unsigned char *p)
{
    uint32_t w[80];
    for (int i = 0; i < 16; i++, p += 4)
        w[i] = (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
    for (int i = 16; i < 80; i++)
        w[i] = rotl(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
    uint32_t a = h[0], b = h[1], c = h[2], d = h[3], e = h[4];
    for (int i = 0; i < 80; i++) {
        uint32_t f;
        if (i < 20)
            f = ((b & c) | (~b & d)) + 0x5a827999u;
        else if (i < 40)
            f = (b ^ c ^ d) + 0x6ed9eba1u;
        else if (i < 60)
            f = ((b & c) | (b & d) | (c & d)) + 0x8f1bbcdcu;
        else
            f = (b ^ c ^ d) + 0xca62c1d6u;
        uint32_t t = rotl(a, 5) + f + e + w[i];
        e = d;
        d = c;
        c = rotl(b, 30);
        b = a;
        a = t;
    }
    h[0] += a;
    h[1] += b;
    h[2] += c;
    h[3] += d;
    h[4] += e;
}

void sha1_init(struct sha1 *s)
{
    *s = (struct sha1){.h = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0}};
}

void sha1_add(struct sha1 *s, const void *bytes, size_t n)
{
    const unsigned char *p = bytes;
    while (n) {
        size_t used = (size_t)(s->total % 64), take = 64 - used < n ? 64 - used : n;
        memcpy(s->block + used, p, take);
        s->total += take;
        p += take;
        n -= take;
        if (used + take == 64)
            compress(s->h, s->block);
    }
}

void sha1_end(struct sha1 *s, unsigned char digest[SHA1_BYTES])
{
    static const unsigned char pad[64] = {0x80};
    uint64_t bits = s->total * 8;
    unsigned char length[8];
    for (int i = 0; i < 8; i++)
        length[i] = (unsigned char)(bits >> (56 - 8 * i));
    sha1_add(s, pad, 1 + (size_t)((119 - s->total % 64) % 64));
    sha1_add(s, length, sizeof length);
    for (int i = 0; i < SHA1_BYTES; i++)
        digest[i] = (unsigned char)(s->h[i / 4] >> (24 - i % 4 * 8));
}
