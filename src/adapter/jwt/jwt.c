/* A token's way: length → cache (then only the times) → three parts → header (which key, which
 * algorithm) → signature → claims → times → cache. The signature comes before the claims: nothing
 * that an outsider wrote is looked at further than it takes to find the key. */
#include "adapter/jwt/jwt.h"

#include "adapter/jwt/jwt_base64.h"
#include "adapter/jwt/jwt_cache.h"
#include "adapter/jwt/jwt_claims.h"
#include "adapter/jwt/jwt_sign.h"
#include "base/err.h"
#include "base/list.h"
#include "base/metric.h"
#include <stdlib.h>

#define TOKEN_MAX 4096
#define STRING_MAX 512

struct verifier {
    struct auth auth;
    struct jwt_sign sign;
    struct jwt_cache cache;
    int64_t leeway_s;
    char issuer[STRING_MAX], audience[STRING_MAX];
    struct metric *cached, *verified, *denied;
};

static const char *check_times(const struct verifier *v, const struct jwt_claims *c, int64_t wall_s)
{
    if (wall_s >= c->expires_s + v->leeway_s)
        return "expired";
    return wall_s < c->not_before_s - v->leeway_s ? "not valid yet" : NULL;
}

/* The three parts, and what the first two stand for: text before the last dot is what was signed.
 */
struct parts {
    struct str header, claims, signature, text;
};

static bool split(struct str token, struct parts *p)
{
    struct str rest = str_split(token, '.', &p->header);
    if (!rest.ptr)
        return false;
    p->signature = str_split(rest, '.', &p->claims);
    if (!p->signature.ptr || memchr(p->signature.ptr, '.', p->signature.len))
        return false;
    p->text = (struct str){token.ptr, p->header.len + 1 + p->claims.len};
    return p->header.len && p->claims.len && p->signature.len;
}

static const char *verify_token(struct verifier *v, struct str token, struct jwt_claims *out)
{
    unsigned char bytes[TOKEN_MAX];
    struct parts p;
    if (!split(token, &p))
        return "not three parts";
    int key, n = jwt_base64_decode(p.header, bytes, sizeof bytes);
    if (n < 0)
        return "ill-formed base64url";
    const char *why =
        jwt_header_read((struct str){(const char *)bytes, (size_t)n}, v->sign.keys, &key);
    if (why)
        return why;
    n = jwt_base64_decode(p.signature, bytes, sizeof bytes);
    if (n < 0)
        return "ill-formed base64url";
    if (!jwt_sign_check(&v->sign, key, p.text, bytes, (size_t)n))
        return "wrong signature";
    n = jwt_base64_decode(p.claims, bytes, sizeof bytes);
    if (n < 0)
        return "ill-formed base64url";
    return jwt_claims_read((struct str){(const char *)bytes, (size_t)n}, v->issuer, v->audience,
                           out);
}

static int verify(struct auth *a, struct str token, int64_t wall_s, int64_t *user_id,
                  const char **why)
{
    struct verifier *v = container_of(a, struct verifier, auth);
    struct jwt_claims claims;
    *why = token.len > TOKEN_MAX ? "too long" : token.len == 0 ? "no token" : NULL;
    if (*why) {
        metric_add(v->denied, 1);
        return ERR_DENIED;
    }
    struct hash128 tag = jwt_cache_tag(&v->cache, token);
    const struct jwt_claims *known = jwt_cache_get(&v->cache, tag);
    if (known)
        claims = *known;
    else
        *why = verify_token(v, token, &claims);
    if (!*why)
        *why = check_times(v, &claims, wall_s);
    if (*why) {
        metric_add(v->denied, 1);
        return ERR_DENIED;
    }
    if (!known)
        jwt_cache_put(&v->cache, tag, &claims, wall_s - v->leeway_s);
    metric_add(known ? v->cached : v->verified, 1);
    *user_id = claims.user_id;
    return 0;
}

static struct metric *counter(const char *labels)
{
    return metric_counter("seckill_token_verifications_total", "Tokens checked, by result.",
                          labels);
}

struct auth *jwt_new(const struct jwt_config *c)
{
    static const struct auth_ops ops = {.verify = verify};
    struct verifier *v = calloc(1, sizeof *v);
    if (!v)
        return NULL;
    v->auth.ops = &ops;
    v->leeway_s = c->leeway_s;
    v->cached = counter("result=\"cached\"");
    v->verified = counter("result=\"verified\"");
    v->denied = counter("result=\"denied\"");
    /* An empty issuer or audience would accept anybody's tokens of a shared key. */
    bool named = c->issuer && *c->issuer && c->audience && *c->audience &&
                 str_copy(v->issuer, sizeof v->issuer, str_of(c->issuer)) &&
                 str_copy(v->audience, sizeof v->audience, str_of(c->audience));
    bool cache = jwt_cache_init(&v->cache, c->cache_entries);
    if (jwt_sign_init(&v->sign, c->keys) && cache && named)
        return &v->auth;
    jwt_free(&v->auth);
    return NULL;
}

void jwt_free(struct auth *a)
{
    if (!a)
        return;
    struct verifier *v = container_of(a, struct verifier, auth);
    jwt_sign_deinit(&v->sign);
    jwt_cache_deinit(&v->cache);
    free(v);
}
