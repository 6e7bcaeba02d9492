#include "adapter/jwt/jwt_sign.h"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/params.h>
#include <openssl/rsa.h>

#define P256_BYTES 32

static bool init_mac(struct jwt_sign *s, int i)
{
    const struct jwt_key *key = &s->keys->key[i];
    char digest[] = "SHA256";
    OSSL_PARAM params[] = {
        OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
        OSSL_PARAM_construct_end(),
    };
    EVP_MAC *hmac = EVP_MAC_fetch(NULL, "HMAC", NULL);
    s->mac[i] = hmac ? EVP_MAC_CTX_new(hmac) : NULL;
    EVP_MAC_free(hmac);
    return s->mac[i] && EVP_MAC_init(s->mac[i], key->secret, key->secret_len, params);
}

static bool init_verify(struct jwt_sign *s, int i)
{
    const struct jwt_key *key = &s->keys->key[i];
    EVP_PKEY_CTX *ctx = s->verify[i] = EVP_PKEY_CTX_new_from_pkey(NULL, key->public_key, NULL);
    if (!ctx || EVP_PKEY_verify_init(ctx) <= 0)
        return false;
    if (key->alg == JWT_RS256 && EVP_PKEY_CTX_set_rsa_padding(ctx, RSA_PKCS1_PADDING) <= 0)
        return false;
    return EVP_PKEY_CTX_set_signature_md(ctx, s->sha256) > 0;
}

bool jwt_sign_init(struct jwt_sign *s, const struct jwt_keys *keys)
{
    *s = (struct jwt_sign){.keys = keys};
    s->sha256 = EVP_MD_fetch(NULL, "SHA256", NULL);
    s->digest = EVP_MD_CTX_new();
    if (!s->sha256 || !s->digest)
        return false;
    for (int i = 0; i < keys->n; i++) {
        if (!(keys->key[i].alg == JWT_HS256 ? init_mac(s, i) : init_verify(s, i)))
            return false;
    }
    return true;
}

void jwt_sign_deinit(struct jwt_sign *s)
{
    for (int i = 0; i < JWT_KEYS_MAX; i++) {
        EVP_MAC_CTX_free(s->mac[i]);
        EVP_PKEY_CTX_free(s->verify[i]);
    }
    EVP_MD_CTX_free(s->digest);
    EVP_MD_free(s->sha256);
}

bool jwt_sign_hmac(struct jwt_sign *s, int key, struct str text, unsigned char mac[JWT_HMAC_BYTES])
{
    EVP_MAC_CTX *ctx = s->mac[key];
    size_t n;
    /* Without a key, init starts over with the one it has: the key's own hashing is not repeated.
     */
    return ctx && EVP_MAC_init(ctx, NULL, 0, NULL) &&
           EVP_MAC_update(ctx, (const unsigned char *)text.ptr, text.len) &&
           EVP_MAC_final(ctx, mac, &n, JWT_HMAC_BYTES) && n == JWT_HMAC_BYTES;
}

/* An ASN.1 INTEGER of 32 bytes, big-endian, unsigned; the length, 0 for zero. */
static size_t der_integer(unsigned char *dst, const unsigned char *p)
{
    size_t n = P256_BYTES;
    while (n && *p == 0) {
        p++;
        n--;
    }
    if (n == 0)
        return 0;
    size_t sign = *p >> 7;
    dst[0] = 2;
    dst[1] = (unsigned char)(n + sign);
    dst[2] = 0;
    memcpy(dst + 2 + sign, p, n);
    return 2 + sign + n;
}

/* A JWS has r and s one after the other, OpenSSL wants them in DER (RFC 7518 §3.4). 0 if there is
 * no such signature. */
static size_t der_signature(unsigned char *dst, const unsigned char *sig, size_t n)
{
    if (n != 2 * P256_BYTES)
        return 0;
    size_t r = der_integer(dst + 2, sig);
    size_t s = r ? der_integer(dst + 2 + r, sig + P256_BYTES) : 0;
    if (!s)
        return 0;
    dst[0] = 0x30;
    dst[1] = (unsigned char)(r + s);
    return 2 + r + s;
}

static bool check_public(struct jwt_sign *s, int key, struct str text, const unsigned char *sig,
                         size_t n)
{
    unsigned char hash[EVP_MAX_MD_SIZE], der[2 + 2 * (3 + P256_BYTES)];
    if (s->keys->key[key].alg == JWT_ES256) {
        n = der_signature(der, sig, n);
        if (!n)
            return false;
        sig = der;
    }
    unsigned hash_len;
    bool good = EVP_DigestInit_ex2(s->digest, s->sha256, NULL) &&
                EVP_DigestUpdate(s->digest, text.ptr, text.len) &&
                EVP_DigestFinal_ex(s->digest, hash, &hash_len) &&
                EVP_PKEY_verify(s->verify[key], sig, n, hash, hash_len) == 1;
    if (!good)
        ERR_clear_error(); /* or this thread's queue of errors would speak to somebody else */
    return good;
}

bool jwt_sign_check(struct jwt_sign *s, int key, struct str text, const unsigned char *sig,
                    size_t n)
{
    if (s->keys->key[key].alg != JWT_HS256)
        return check_public(s, key, text, sig, n);
    unsigned char mac[JWT_HMAC_BYTES];
    return n == sizeof mac && jwt_sign_hmac(s, key, text, mac) &&
           CRYPTO_memcmp(mac, sig, sizeof mac) == 0;
}
