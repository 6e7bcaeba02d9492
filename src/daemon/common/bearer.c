#include "daemon/common/bearer.h"

struct auth *bearer_verifier(const struct jwt_keys *keys, const struct settings *s)
{
    struct jwt_config config = {.keys = keys,
                                .issuer = s->auth.issuer,
                                .audience = s->auth.audience,
                                .leeway_s = s->auth.leeway_us / 1000000,
                                .cache_entries = (size_t)s->auth.token_cache};
    return jwt_new(&config);
}

bool bearer_authenticate(struct auth *auth, struct http_exchange *x, int64_t *user_id)
{
    struct str scheme, token = str_split(x->authorization, ' ', &scheme);
    const char *why = "a bearer token is required";
    int64_t wall_s = loop_wall_us(http_exchange_loop(x)) / 1000000;
    if (str_eq_nocase(scheme, STR("Bearer")) && token.len &&
        auth->ops->verify(auth, token, wall_s, user_id, &why) == 0)
        return true;
    http_problem_extra(x, ANSWER_UNAUTHENTICATED, NULL, why, (struct str){NULL, 0},
                       STR("WWW-Authenticate: Bearer\r\n"));
    return false;
}
