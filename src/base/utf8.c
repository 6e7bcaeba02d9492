#include "base/utf8.h"

size_t utf8_len(const char *p, size_t n)
{
    const unsigned char *u = (const unsigned char *)p;
    unsigned char lead = u[0];
    if (lead < 0x80)
        return 1;
    /* The second byte's bounds carry all the exceptions (Unicode, table 3-7). */
    unsigned char low = 0x80, high = 0xbf;
    size_t len;
    if (lead < 0xc2)
        return 0;
    if (lead < 0xe0) {
        len = 2;
    } else if (lead < 0xf0) {
        len = 3;
        if (lead == 0xe0)
            low = 0xa0;
        else if (lead == 0xed)
            high = 0x9f;
    } else if (lead < 0xf5) {
        len = 4;
        if (lead == 0xf0)
            low = 0x90;
        else if (lead == 0xf4)
            high = 0x8f;
    } else {
        return 0;
    }
    if (n < len || u[1] < low || u[1] > high)
        return 0;
    for (size_t i = 2; i < len; i++) {
        if ((u[i] & 0xc0) != 0x80)
            return 0;
    }
    return len;
}

bool utf8_valid(const char *p, size_t n)
{
    for (size_t at = 0; at < n;) {
        size_t len = utf8_len(p + at, n - at);
        if (!len)
            return false;
        at += len;
    }
    return true;
}

size_t utf8_put(char *dst, unsigned code)
{
    if (code < 0x80) {
        dst[0] = (char)code;
        return 1;
    }
    if (code < 0x800) {
        dst[0] = (char)(0xc0 | code >> 6);
        dst[1] = (char)(0x80 | (code & 0x3f));
        return 2;
    }
    if (code < 0x10000) {
        dst[0] = (char)(0xe0 | code >> 12);
        dst[1] = (char)(0x80 | (code >> 6 & 0x3f));
        dst[2] = (char)(0x80 | (code & 0x3f));
        return 3;
    }
    dst[0] = (char)(0xf0 | code >> 18);
    dst[1] = (char)(0x80 | (code >> 12 & 0x3f));
    dst[2] = (char)(0x80 | (code >> 6 & 0x3f));
    dst[3] = (char)(0x80 | (code & 0x3f));
    return 4;
}
