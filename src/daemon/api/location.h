/* The Location of a 202, with the token that proves it (core/location_token.h). Any thread. */
#pragma once

#include "core/location_token.h"

#define LOCATION_HEADER_MAX 192

/* Adds "Location: …\r\n"; without keys, or without an epoch, without a token. */
void location_add(struct strbuf *b, const struct location_keys *keys,
                  const struct location_claim *claim);
