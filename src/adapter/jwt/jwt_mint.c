#include "adapter/jwt/jwt_base64.h"
#include "adapter/jwt/jwt_keys.h"
#include "base/err.h"
#include "base/json.h"
#include <openssl/hmac.h>

#define PART_MAX 4096

static const struct jwt_key *hs256_key(const struct jwt_keys *k, const char *kid)
{
    for (int i = 0; i < k->n; i++) {
        if (strcmp(k->key[i].kid, kid) == 0)
            return k->key[i].alg == JWT_HS256 ? &k->key[i] : NULL;
    }
    return NULL;
}

static void add_member(struct strbuf *b, struct str name, const char *value)
{
    strbuf_add_str(b, name);
    json_add_string(b, str_of(value));
}

static void add_base64(struct strbuf *b, const void *bytes, size_t n)
{
    char *at = strbuf_reserve(b, JWT_BASE64_LEN(n));
    if (at)
        strbuf_commit(b, jwt_base64_encode(at, bytes, n));
}

int jwt_mint(const struct jwt_keys *k, const char *kid, const char *issuer, const char *audience,
             int64_t user_id, int64_t now_s, int64_t ttl_s, char *dst, size_t cap)
{
    const struct jwt_key *key = hs256_key(k, kid);
    if (!key || user_id <= 0)
        return ERR_INVALID;
    char header_mem[PART_MAX], claims_mem[PART_MAX];
    struct strbuf header, claims, out;
    strbuf_init_fixed(&header, header_mem, sizeof header_mem);
    strbuf_init_fixed(&claims, claims_mem, sizeof claims_mem);
    strbuf_init_fixed(&out, dst, cap);

    strbuf_add_str(&header, STR("{\"alg\":\"HS256\",\"typ\":\"JWT\""));
    add_member(&header, STR(",\"kid\":"), kid);
    strbuf_add_char(&header, '}');

    add_member(&claims, STR("{\"iss\":"), issuer);
    add_member(&claims, STR(",\"aud\":"), audience);
    strbuf_add_str(&claims, STR(",\"sub\":\""));
    strbuf_add_i64(&claims, user_id);
    strbuf_add_str(&claims, STR("\",\"iat\":"));
    strbuf_add_i64(&claims, now_s);
    strbuf_add_str(&claims, STR(",\"exp\":"));
    strbuf_add_i64(&claims, now_s + ttl_s);
    strbuf_add_char(&claims, '}');

    add_base64(&out, header.ptr, header.len);
    strbuf_add_char(&out, '.');
    add_base64(&out, claims.ptr, claims.len);
    unsigned char mac[EVP_MAX_MD_SIZE];
    unsigned n;
    if (header.failed || claims.failed || out.failed ||
        !HMAC(EVP_sha256(), key->secret, (int)key->secret_len, (const unsigned char *)out.ptr,
              out.len, mac, &n))
        return ERR_INVALID;
    strbuf_add_char(&out, '.');
    add_base64(&out, mac, n);
    return out.failed ? ERR_INVALID : (int)out.len;
}
