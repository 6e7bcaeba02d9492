#include "daemon/common/bearer.h"

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
