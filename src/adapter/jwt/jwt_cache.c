#include "adapter/jwt/jwt_cache.h"

#include "base/rng.h"
#include <stdlib.h>

bool jwt_cache_init(struct jwt_cache *c, size_t entries)
{
    *c = (struct jwt_cache){0};
    rng_secret(&c->key, sizeof c->key);
    if (entries == 0)
        return true;
    c->sets = 1;
    while (c->sets * JWT_CACHE_WAYS < entries)
        c->sets *= 2;
    c->entries = calloc(c->sets, JWT_CACHE_WAYS * sizeof *c->entries);
    return c->entries != NULL;
}

void jwt_cache_deinit(struct jwt_cache *c)
{
    free(c->entries);
    c->entries = NULL;
}

struct hash128 jwt_cache_tag(const struct jwt_cache *c, struct str token)
{
    return hash_sip128(&c->key, token.ptr, token.len);
}

static struct jwt_cache_entry *set_of(const struct jwt_cache *c, struct hash128 tag)
{
    return c->entries + (tag.lo & (c->sets - 1)) * JWT_CACHE_WAYS;
}

const struct jwt_claims *jwt_cache_get(const struct jwt_cache *c, struct hash128 tag)
{
    if (!c->entries)
        return NULL;
    const struct jwt_cache_entry *e = set_of(c, tag);
    for (int i = 0; i < JWT_CACHE_WAYS; i++, e++) {
        if (((e->tag.lo ^ tag.lo) | (e->tag.hi ^ tag.hi)) == 0 && e->claims.user_id)
            return &e->claims;
    }
    return NULL;
}

void jwt_cache_put(struct jwt_cache *c, struct hash128 tag, const struct jwt_claims *claims,
                   int64_t expired_s)
{
    if (!c->entries)
        return;
    struct jwt_cache_entry *set = set_of(c, tag), *place = &set[c->turn++ % JWT_CACHE_WAYS];
    for (int i = 0; i < JWT_CACHE_WAYS; i++) {
        if (set[i].claims.user_id == 0 || set[i].claims.expires_s <= expired_s) {
            place = &set[i];
            break;
        }
    }
    *place = (struct jwt_cache_entry){.tag = tag, .claims = *claims};
}
