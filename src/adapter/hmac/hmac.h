/* HMAC-SHA256 (RFC 2104). Any thread. */
#pragma once

#include "base/str.h"

#define HMAC_BYTES 32

/* Of `first` and `second`, one after the other. 0, or ERR_OVERLOAD: no memory. */
int hmac_sha256(struct str key, struct str first, struct str second, unsigned char mac[HMAC_BYTES]);
/* In a time that does not depend on where they differ. */
bool hmac_equal(const unsigned char a[HMAC_BYTES], const unsigned char b[HMAC_BYTES]);
