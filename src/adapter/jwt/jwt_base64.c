#include "adapter/jwt/jwt_base64.h"

#include "base/err.h"

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/* Value + 1; 0: not in the alphabet. */
static const unsigned char values[256] = {
    ['A'] = 1,  ['B'] = 2,  ['C'] = 3,  ['D'] = 4,  ['E'] = 5,  ['F'] = 6,  ['G'] = 7,  ['H'] = 8,
    ['I'] = 9,  ['J'] = 10, ['K'] = 11, ['L'] = 12, ['M'] = 13, ['N'] = 14, ['O'] = 15, ['P'] = 16,
    ['Q'] = 17, ['R'] = 18, ['S'] = 19, ['T'] = 20, ['U'] = 21, ['V'] = 22, ['W'] = 23, ['X'] = 24,
    ['Y'] = 25, ['Z'] = 26, ['a'] = 27, ['b'] = 28, ['c'] = 29, ['d'] = 30, ['e'] = 31, ['f'] = 32,
    ['g'] = 33, ['h'] = 34, ['i'] = 35, ['j'] = 36, ['k'] = 37, ['l'] = 38, ['m'] = 39, ['n'] = 40,
    ['o'] = 41, ['p'] = 42, ['q'] = 43, ['r'] = 44, ['s'] = 45, ['t'] = 46, ['u'] = 47, ['v'] = 48,
    ['w'] = 49, ['x'] = 50, ['y'] = 51, ['z'] = 52, ['0'] = 53, ['1'] = 54, ['2'] = 55, ['3'] = 56,
    ['4'] = 57, ['5'] = 58, ['6'] = 59, ['7'] = 60, ['8'] = 61, ['9'] = 62, ['-'] = 63, ['_'] = 64,
};

int jwt_base64_decode(struct str s, unsigned char *dst, size_t cap)
{
    size_t n = s.len * 3 / 4;
    if (s.len % 4 == 1 || n > cap)
        return ERR_INVALID;
    unsigned bits = 0, have = 0;
    for (size_t i = 0; i < s.len; i++) {
        unsigned v = values[(unsigned char)s.ptr[i]];
        if (v == 0)
            return ERR_INVALID;
        bits = bits << 6 | (v - 1);
        have += 6;
        if (have >= 8) {
            have -= 8;
            *dst++ = (unsigned char)(bits >> have);
            bits &= (1u << have) - 1;
        }
    }
    return bits ? ERR_INVALID : (int)n;
}

size_t jwt_base64_encode(char *dst, const void *bytes, size_t n)
{
    const unsigned char *p = bytes;
    char *at = dst;
    unsigned bits = 0, have = 0;
    for (size_t i = 0; i < n; i++) {
        bits = (bits << 8 | p[i]) & 0xffff;
        for (have += 8; have >= 6;) {
            have -= 6;
            *at++ = alphabet[bits >> have & 63];
        }
    }
    if (have)
        *at++ = alphabet[bits << (6 - have) & 63];
    return (size_t)(at - dst);
}
