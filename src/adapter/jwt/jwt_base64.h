/* base64url (RFC 4648 §5) as JWS has it: no padding, nothing but the alphabet, and the one
 * canonical spelling (the bits that the last character has to spare are zero). */
#pragma once

#include "base/str.h"

#define JWT_BASE64_LEN(n) (((n)*4 + 2) / 3)

/* The length, at most s.len * 3 / 4, or ERR_INVALID (which a dst that is too small gets as well).
 */
int jwt_base64_decode(struct str s, unsigned char *dst, size_t cap);
/* JWT_BASE64_LEN(n) characters, not terminated; the length. */
size_t jwt_base64_encode(char *dst, const void *bytes, size_t n);
