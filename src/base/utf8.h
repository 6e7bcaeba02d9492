/* UTF-8 as RFC 3629 has it: no overlong forms, no surrogates, nothing above U+10FFFF. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Length of the well-formed sequence at p (n bytes are there, n > 0), 1 to 4; 0 if it is ill-formed
 * or cut. */
size_t utf8_len(const char *p, size_t n);
bool utf8_valid(const char *p, size_t n);
/* Writes a code point (no surrogate, at most U+10FFFF) at dst, which has room for 4 bytes; its
 * length. */
size_t utf8_put(char *dst, unsigned code);
