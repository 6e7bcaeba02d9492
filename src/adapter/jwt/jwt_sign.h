/* Signatures of one verifier: OpenSSL's contexts, made once for each key and used again for each
 * token. One thread. */
#pragma once

#include "adapter/jwt/jwt_keys.h"

struct jwt_sign {
    const struct jwt_keys *keys;
    EVP_MD *sha256;
    EVP_MD_CTX *digest;
    EVP_MAC_CTX *mac[JWT_KEYS_MAX];
    EVP_PKEY_CTX *verify[JWT_KEYS_MAX];
};

#define JWT_HMAC_BYTES 32

/* False: OpenSSL has no memory, or not these algorithms. jwt_sign_deinit is due in either case. */
bool jwt_sign_init(struct jwt_sign *s, const struct jwt_keys *keys);
void jwt_sign_deinit(struct jwt_sign *s);
/* Is sig a signature of text by keys->key[key], with that key's algorithm? */
bool jwt_sign_check(struct jwt_sign *s, int key, struct str text, const unsigned char *sig,
                    size_t n);
/* The HS256 signature by keys->key[key]. */
bool jwt_sign_hmac(struct jwt_sign *s, int key, struct str text, unsigned char mac[JWT_HMAC_BYTES]);
