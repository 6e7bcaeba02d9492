/* The keys inside; jwt.h has what the world sees. */
#pragma once

#include "adapter/jwt/jwt.h"
#include <openssl/evp.h>

#define JWT_KEYS_MAX 16
#define JWT_KID_MAX 64

enum jwt_alg { JWT_HS256, JWT_RS256, JWT_ES256, JWT_ALGS };

struct jwt_key {
    char kid[JWT_KID_MAX];
    enum jwt_alg alg;      /* the only one this key is ever used with */
    unsigned char *secret; /* HS256 */
    size_t secret_len;
    EVP_PKEY *public_key; /* RS256, ES256; shared by the threads, each with its own context */
};

struct jwt_keys {
    int n;
    struct jwt_key key[JWT_KEYS_MAX];
};

struct str jwt_alg_name(enum jwt_alg alg);
