#include "token.h"

#include "adapter/jwt/jwt_base64.h"
#include "base/err.h"
#include "base/rng.h"
#include "unit.h"
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <stdlib.h>
#include <unistd.h>

static struct {
    char dir[64];
    unsigned char secret[48];
    EVP_PKEY *rsa, *p256, *p384;
    struct jwt_keys *keys;
} run;

const char *token_key_dir(void)
{
    return run.dir;
}

struct jwt_keys *token_keys(void)
{
    return run.keys;
}

static void path_of(char path[128], const char *name)
{
    snprintf(path, 128, "%s/%s", run.dir, name);
}

static void write_public(const char *name, EVP_PKEY *key)
{
    char path[128];
    path_of(path, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(PEM_write_PUBKEY(f, key), 1);
    fclose(f);
}

int token_setup(void **state)
{
    (void)state;
    snprintf(run.dir, sizeof run.dir, "/tmp/jwt_test.XXXXXX");
    assert_non_null(mkdtemp(run.dir));
    rng_secret(run.secret, sizeof run.secret);
    run.rsa = EVP_PKEY_Q_keygen(NULL, NULL, "RSA", (size_t)2048);
    run.p256 = EVP_PKEY_Q_keygen(NULL, NULL, "EC", "P-256");
    run.p384 = EVP_PKEY_Q_keygen(NULL, NULL, "EC", "P-384");
    assert_true(run.rsa && run.p256 && run.p384);
    char path[128], spec[512], err[256] = "";
    path_of(path, "h.key");
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(run.secret, 1, sizeof run.secret, f), sizeof run.secret);
    fclose(f);
    write_public("r.pem", run.rsa);
    write_public("e.pem", run.p256);
    snprintf(spec, sizeof spec, "h=HS256:%s/h.key,r=RS256:%s/r.pem,e=ES256:%s/e.pem", run.dir,
             run.dir, run.dir);
    run.keys = jwt_keys_load(spec, err, sizeof err);
    assert_string_equal(err, "");
    assert_non_null(run.keys);
    return 0;
}

int token_teardown(void **state)
{
    (void)state;
    static const char *const files[] = {"h.key", "r.pem", "e.pem"};
    for (int i = 0; i < 3; i++) {
        char path[128];
        path_of(path, files[i]);
        unlink(path);
    }
    rmdir(run.dir);
    jwt_keys_free(run.keys);
    EVP_PKEY_free(run.rsa);
    EVP_PKEY_free(run.p256);
    EVP_PKEY_free(run.p384);
    return 0;
}

static char *unsigned_text(const char *header, const char *claims, size_t *n)
{
    size_t h = strlen(header), c = strlen(claims);
    char *text = malloc(JWT_BASE64_LEN(h) + JWT_BASE64_LEN(c) + 1024);
    assert_non_null(text);
    *n = jwt_base64_encode(text, header, h);
    text[(*n)++] = '.';
    *n += jwt_base64_encode(text + *n, claims, c);
    return text;
}

char *token_with(const char *header, const char *claims, const void *sig, size_t sig_len)
{
    size_t n;
    char *text = unsigned_text(header, claims, &n);
    text[n++] = '.';
    n += jwt_base64_encode(text + n, sig, sig_len);
    text[n] = 0;
    return text;
}

static size_t sign(EVP_PKEY *key, const EVP_MD *md, int padding, const char *text, size_t n,
                   unsigned char *sig)
{
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    EVP_PKEY_CTX *pctx;
    size_t len = 512;
    assert_int_equal(EVP_DigestSignInit(ctx, &pctx, md, NULL, key), 1);
    if (padding)
        assert_true(EVP_PKEY_CTX_set_rsa_padding(pctx, padding) > 0);
    assert_int_equal(EVP_DigestSign(ctx, sig, &len, (const unsigned char *)text, n), 1);
    EVP_MD_CTX_free(ctx);
    return len;
}

/* r and s one after the other, each `half` bytes. */
static size_t to_jws(unsigned char *sig, size_t n, int half)
{
    const unsigned char *p = sig;
    ECDSA_SIG *s = d2i_ECDSA_SIG(NULL, &p, (long)n);
    assert_non_null(s);
    assert_int_equal(BN_bn2binpad(ECDSA_SIG_get0_r(s), sig, half), half);
    assert_int_equal(BN_bn2binpad(ECDSA_SIG_get0_s(s), sig + half, half), half);
    ECDSA_SIG_free(s);
    return 2 * (size_t)half;
}

static size_t hmac(const void *key, size_t key_len, const char *text, size_t n, unsigned char *sig)
{
    unsigned len;
    assert_non_null(
        HMAC(EVP_sha256(), key, (int)key_len, (const unsigned char *)text, n, sig, &len));
    return len;
}

static size_t hmac_with_file(const char *name, const char *text, size_t n, unsigned char *sig)
{
    char path[128], bytes[4096];
    path_of(path, name);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    size_t len = fread(bytes, 1, sizeof bytes, f);
    fclose(f);
    return hmac(bytes, len, text, n, sig);
}

static size_t sign_as(enum signer signer, const char *text, size_t n, unsigned char *sig)
{
    switch (signer) {
    case SIGN_HS:
        return hmac(run.secret, sizeof run.secret, text, n, sig);
    case SIGN_EMPTY_KEY:
        return hmac("", 0, text, n, sig);
    case SIGN_RSA_AS_HMAC:
        return hmac_with_file("r.pem", text, n, sig);
    case SIGN_EC_AS_HMAC:
        return hmac_with_file("e.pem", text, n, sig);
    case SIGN_RS:
        return sign(run.rsa, EVP_sha256(), RSA_PKCS1_PADDING, text, n, sig);
    case SIGN_RS_PSS:
        return sign(run.rsa, EVP_sha256(), RSA_PKCS1_PSS_PADDING, text, n, sig);
    case SIGN_RS_SHA512:
        return sign(run.rsa, EVP_sha512(), RSA_PKCS1_PADDING, text, n, sig);
    case SIGN_ES:
        return to_jws(sig, sign(run.p256, EVP_sha256(), 0, text, n, sig), 32);
    case SIGN_ES_DER:
        return sign(run.p256, EVP_sha256(), 0, text, n, sig);
    case SIGN_P384:
        return to_jws(sig, sign(run.p384, EVP_sha256(), 0, text, n, sig), 48);
    case SIGN_NOTHING:
        break;
    }
    return 0;
}

char *token_make(enum signer signer, const char *header, const char *claims)
{
    unsigned char sig[512];
    size_t n;
    char *text = unsigned_text(header, claims, &n);
    size_t len = sign_as(signer, text, n, sig);
    free(text);
    return token_with(header, claims, sig, len);
}

void token_es256(const char *header, const char *claims, unsigned char sig[64])
{
    unsigned char long_sig[512];
    size_t n;
    char *text = unsigned_text(header, claims, &n);
    assert_int_equal(sign_as(SIGN_ES, text, n, long_sig), 64);
    memcpy(sig, long_sig, 64);
    free(text);
}

const char *token_verify(struct auth *a, const char *token, int64_t now, int64_t *user)
{
    /* Exactly as long as it is, so that the sanitizer sees a byte read too far. */
    size_t n = strlen(token);
    char *copy = malloc(n ? n : 1);
    assert_non_null(copy);
    memcpy(copy, token, n);
    const char *why = "untouched";
    *user = -1;
    int rc = a->ops->verify(a, (struct str){copy, n}, now, user, &why);
    free(copy);
    assert_int_equal(rc, why ? ERR_DENIED : 0);
    assert_true(why ? *user == -1 : *user > 0);
    return why;
}
