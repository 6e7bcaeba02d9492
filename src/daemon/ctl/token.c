#include "daemon/ctl/token.h"

#include "adapter/jwt/jwt.h"
#include "base/clock.h"
#include "base/err.h"
#include "daemon/ctl/ctl.h"
#include <stdio.h>

/* The kid of the first HS256 key in "kid=ALG:/path,…". */
static bool find_kid(const char *spec, char *kid, size_t cap)
{
    struct str rest = str_of(spec), entry;
    while (rest.ptr) {
        rest = str_split(rest, ',', &entry);
        struct str name, key = str_split(entry, '=', &name);
        if (key.ptr && str_starts(key, STR("HS256:")))
            return str_copy(kid, cap, name);
    }
    return false;
}

int token_mint_init(struct token_mint *m, const struct settings *s, char *err, size_t err_cap)
{
    memset(m, 0, sizeof(*m));
    m->issuer = s->auth.issuer;
    m->audience = s->auth.audience;
    if (!find_kid(s->auth.keys, m->kid, sizeof(m->kid))) {
        snprintf(err, err_cap,
                 "tokens are minted only with a development key: auth.keys has no HS256 key");
        return ERR_DENIED;
    }
    m->keys = jwt_keys_load(s->auth.keys, err, err_cap);
    return m->keys ? 0 : ERR_INVALID;
}

void token_mint_deinit(struct token_mint *m)
{
    if (m->keys)
        jwt_keys_free(m->keys);
    m->keys = NULL;
}

int token_mint(const struct token_mint *m, int64_t user, int64_t now_s, int64_t ttl_s, char *dst,
               size_t cap)
{
    return jwt_mint(m->keys, m->kid, m->issuer, m->audience, user, now_s, ttl_s, dst, cap);
}

#define COUNT_MAX 10000000

struct token_args {
    int64_t user, count, ttl_us;
    bool json;
};
static const struct args_option options[] = {
    {"user", ARGS_I64, offsetof(struct token_args, user), true, 1, INT64_MAX - COUNT_MAX,
     "the (first) user's id"},
    {"count", ARGS_I64, offsetof(struct token_args, count), false, 1, COUNT_MAX,
     "users, counting up (1)"},
    {"ttl", ARGS_DURATION, offsetof(struct token_args, ttl_us), false, 1000000,
     INT64_C(365) * 86400 * 1000000, "how long a token is valid (24h)"},
    ARGS_JSON(struct token_args, json),
};

static int run(struct ctl *c, const struct ctl_command *self, int argc, char **argv)
{
    struct token_args a = {.count = 1, .ttl_us = INT64_C(24) * 3600 * 1000000};
    struct token_mint mint;
    char err[512], token[TOKEN_MAX];
    int rc = ctl_args(self, &a, argc, argv, NULL, NULL);
    if (rc >= 0)
        return rc;
    if (token_mint_init(&mint, &c->settings, err, sizeof(err)) < 0) {
        ctl_complain("token: %s", err);
        return CTL_FAILED;
    }
    rc = CTL_OK;
    for (int64_t i = 0; i < a.count; i++) {
        int len = token_mint(&mint, a.user + i, clock_wall_us() / 1000000, a.ttl_us / 1000000,
                             token, sizeof(token));
        if (len < 0) {
            ctl_complain("token: issuer or audience is too long");
            rc = CTL_FAILED;
            break;
        }
        if (a.json)
            printf("{\"user\":%lld,\"token\":\"%.*s\"}\n", (long long)(a.user + i), len, token);
        else
            printf("%.*s\n", len, token);
        if (ferror(stdout))
            break;
    }
    token_mint_deinit(&mint);
    if (fflush(stdout) != 0)
        rc = CTL_FAILED;
    return rc;
}

const struct ctl_command token_command = {
    .group = "token",
    .options = options,
    .n_options = sizeof(options) / sizeof(options[0]),
    .words = "",
    .help = "mints JWTs of test buyers, one a line\n"
            "Only where an HS256 key is configured (auth.keys): that is a development system.\n",
    .run = run,
};
