#include "adapter/hmac/hmac.h"

#include "base/err.h"
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/params.h>

static bool update(EVP_MAC_CTX *ctx, struct str s)
{
    return s.len == 0 || EVP_MAC_update(ctx, (const unsigned char *)s.ptr, s.len);
}

int hmac_sha256(struct str key, struct str first, struct str second, unsigned char mac[HMAC_BYTES])
{
    char digest[] = "SHA256";
    OSSL_PARAM params[] = {
        OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
        OSSL_PARAM_construct_end(),
    };
    size_t n = 0;
    EVP_MAC *hmac = EVP_MAC_fetch(NULL, "HMAC", NULL);
    EVP_MAC_CTX *ctx = hmac ? EVP_MAC_CTX_new(hmac) : NULL;
    bool done = ctx && EVP_MAC_init(ctx, (const unsigned char *)key.ptr, key.len, params) &&
                update(ctx, first) && update(ctx, second) &&
                EVP_MAC_final(ctx, mac, &n, HMAC_BYTES) && n == HMAC_BYTES;
    EVP_MAC_CTX_free(ctx);
    EVP_MAC_free(hmac);
    return done ? 0 : ERR_OVERLOAD;
}

bool hmac_equal(const unsigned char a[HMAC_BYTES], const unsigned char b[HMAC_BYTES])
{
    return CRYPTO_memcmp(a, b, HMAC_BYTES) == 0;
}
