/* The input as a token, as a header and as claims that somebody with the key has signed. */
#include "adapter/jwt/jwt.h"
#include "adapter/jwt/jwt_base64.h"
#include "adapter/jwt/jwt_claims.h"
#include "adapter/jwt/jwt_sign.h"
#include "base/panic.h"
#include "base/rng.h"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define NOW 1782388800

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct jwt_keys *keys;
static struct auth *auth;
static struct jwt_sign sign;

static void setup(void)
{
    unsigned char secret[32];
    char path[] = "/tmp/jwt_fuzz.XXXXXX", spec[64], err[256];
    int fd = mkstemp(path);
    rng_secret(secret, sizeof secret);
    if (fd < 0 || write(fd, secret, sizeof secret) != sizeof secret)
        panic("no key file");
    close(fd);
    snprintf(spec, sizeof spec, "k=HS256:%s", path);
    keys = jwt_keys_load(spec, err, sizeof err);
    unlink(path);
    if (!keys)
        panic("%s", err);
    struct jwt_config c = {.keys = keys, .issuer = "seckill", .audience = "seckill"};
    c.cache_entries = 64;
    auth = jwt_new(&c);
    if (!auth || !jwt_sign_init(&sign, keys))
        panic("no verifier");
}

static void as_token(struct str s)
{
    int64_t user;
    const char *why = NULL;
    if (auth->ops->verify(auth, s, NOW, &user, &why) == 0 || !why)
        panic("an unsigned token is accepted");
}

static void as_base64(struct str s)
{
    unsigned char bytes[4096];
    char again[JWT_BASE64_LEN(sizeof bytes)];
    int n = jwt_base64_decode(s, bytes, sizeof bytes);
    if (n >= 0 && (jwt_base64_encode(again, bytes, (size_t)n) != s.len ||
                   (s.len && memcmp(again, s.ptr, s.len) != 0)))
        panic("two spellings of one text");
}

static void as_claims(struct str s)
{
    struct jwt_claims claims = {0};
    bool good = jwt_claims_read(s, "seckill", "seckill", &claims) == NULL;
    if (good && (claims.user_id <= 0 || claims.expires_s < 0 || claims.not_before_s < 0))
        panic("accepted what is out of bounds");
    good = good && claims.expires_s > NOW && claims.not_before_s <= NOW;

    static const char header[] = "{\"alg\":\"HS256\"}";
    char text[4096];
    unsigned char mac[JWT_HMAC_BYTES];
    if (s.len == 0 || JWT_BASE64_LEN(s.len) > 3900)
        return;
    size_t n = jwt_base64_encode(text, header, sizeof header - 1);
    text[n++] = '.';
    n += jwt_base64_encode(text + n, s.ptr, s.len);
    if (!jwt_sign_hmac(&sign, 0, (struct str){text, n}, mac))
        panic("no signature");
    text[n++] = '.';
    n += jwt_base64_encode(text + n, mac, sizeof mac);
    for (int i = 0; i < 2; i++) { /* the second time from the cache */
        int64_t user = 0;
        const char *why;
        int rc = auth->ops->verify(auth, (struct str){text, n}, NOW, &user, &why);
        if ((rc == 0) != good || (good && user != claims.user_id))
            panic("claims and token disagree");
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!keys)
        setup();
    struct str s = {(const char *)data, size};
    int key;
    as_token(s);
    as_base64(s);
    jwt_header_read(s, keys, &key);
    as_claims(s);
    return 0;
}
