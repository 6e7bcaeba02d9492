/* The keys of location tokens (core/location_token.h), of a file of secrets. Start-up. */
#pragma once

#include "core/location_token.h"

/* location.secret_file; "": there are no tokens. 0, or ERR_INVALID with a message that names no
 * secret. */
int location_secret_load(struct location_keys *k, const char *path, char *err, size_t err_cap);
