/* Tokens of test buyers: minted with the development key, an HS256 one of auth.keys. One thread. */
#pragma once

#include "daemon/settings.h"
#include <stddef.h>

#define TOKEN_MAX 1600

struct jwt_keys;
struct token_mint {
    struct jwt_keys *keys;
    char kid[128];
    const char *issuer, *audience; /* borrowed from the settings */
};

/* 0; ERR_DENIED (no HS256 key is configured: this is no development system) or ERR_INVALID with a
 * message in err. */
int token_mint_init(struct token_mint *m, const struct settings *s, char *err, size_t err_cap);
void token_mint_deinit(struct token_mint *m);
/* The length of the token in dst (TOKEN_MAX), or ERR_INVALID. */
int token_mint(const struct token_mint *m, int64_t user, int64_t now_s, int64_t ttl_s, char *dst,
               size_t cap);
