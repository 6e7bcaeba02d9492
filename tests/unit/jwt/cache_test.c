#include "adapter/jwt/jwt_cache.h"

#include "base/metric.h"
#include "token.h"
#include "unit.h"
#include <stdlib.h>

static uint64_t counted(const char *labels)
{
    return metric_value(metric_counter("seckill_token_verifications_total", "", labels));
}

static struct auth *verifier(size_t entries, int64_t leeway)
{
    struct jwt_config c = {.keys = token_keys(), .issuer = "seckill", .audience = "seckill"};
    c.cache_entries = entries;
    c.leeway_s = leeway;
    struct auth *a = jwt_new(&c);
    assert_non_null(a);
    return a;
}

#define WITH_NBF                                                                                   \
    "{\"iss\":\"seckill\",\"aud\":\"seckill\",\"sub\":\"7\",\"nbf\":1782388800,"                   \
    "\"exp\":1782388810}"

static void test_a_cached_token_expires(void **state)
{
    (void)state;
    for (int64_t leeway = 0; leeway <= 5; leeway += 5) {
        struct auth *a = verifier(16, leeway);
        char *token = token_make(SIGN_HS, "{\"alg\":\"HS256\",\"kid\":\"h\"}", WITH_NBF);
        int64_t user;
        uint64_t hits = counted("result=\"cached\""), misses = counted("result=\"verified\"");
        for (int64_t t = -20; t < 30; t++) {
            const char *why = token_verify(a, token, NOW + t, &user);
            if (t < -leeway)
                assert_string_equal(why, "not valid yet");
            else if (t >= 10 + leeway)
                assert_string_equal(why, "expired");
            else
                assert_null(why);
            assert_true(why || user == 7);
        }
        /* And the clock set back: too early again, though it is cached. */
        assert_string_equal(token_verify(a, token, NOW - leeway - 1, &user), "not valid yet");
        assert_int_equal(counted("result=\"verified\"") - misses, 1);
        assert_int_equal(counted("result=\"cached\"") - hits, 9 + 2 * leeway);
        free(token);
        jwt_free(a);
    }
}

static void test_refused_tokens_are_not_cached(void **state)
{
    (void)state;
    struct auth *a = verifier(16, 0);
    char *token = token_make(SIGN_HS, "{\"alg\":\"HS256\",\"kid\":\"h\"}", WITH_NBF);
    int64_t user;
    uint64_t misses = counted("result=\"verified\"");
    assert_non_null(token_verify(a, token, NOW - 1, &user)); /* too early: not stored */
    assert_null(token_verify(a, token, NOW, &user));
    assert_int_equal(counted("result=\"verified\"") - misses, 1);
    free(token);
    jwt_free(a);
}

static void test_without_a_cache(void **state)
{
    (void)state;
    struct auth *a = verifier(0, 0);
    char *token = token_make(SIGN_HS, "{\"alg\":\"HS256\",\"kid\":\"h\"}", WITH_NBF);
    int64_t user;
    uint64_t misses = counted("result=\"verified\"");
    for (int i = 0; i < 3; i++)
        assert_null(token_verify(a, token, NOW, &user));
    assert_int_equal(counted("result=\"verified\"") - misses, 3);
    free(token);
    jwt_free(a);
}

/* More tokens than places: each is still told right, and the memory stays what it was. */
static void test_far_more_tokens_than_places(void **state)
{
    (void)state;
    struct auth *a = verifier(8, 0);
    for (int round = 0; round < 2; round++) {
        for (int64_t u = 1; u <= 500; u++) {
            char token[512];
            int64_t user;
            int n = jwt_mint(token_keys(), "h", "seckill", "seckill", u, NOW, 60, token,
                             sizeof token - 1);
            assert_true(n > 0);
            token[n] = 0;
            assert_null(token_verify(a, token, NOW, &user));
            assert_int_equal(user, u);
            assert_null(token_verify(a, token, NOW, &user));
            assert_int_equal(user, u);
        }
    }
    jwt_free(a);
}

static struct hash128 tag_in_set(const struct jwt_cache *c, uint64_t i)
{
    return (struct hash128){.lo = i * c->sets, .hi = i};
}

static void test_who_makes_room(void **state)
{
    (void)state;
    struct jwt_cache c;
    assert_true(jwt_cache_init(&c, 9));
    assert_int_equal(c.sets, 4);
    struct jwt_claims claims = {.user_id = 1, .expires_s = NOW + 100};
    for (uint64_t i = 0; i < 4; i++) {
        claims.user_id = (int64_t)i + 1;
        claims.expires_s = NOW + (i == 2 ? 10 : 100);
        jwt_cache_put(&c, tag_in_set(&c, i), &claims, NOW);
    }
    for (uint64_t i = 0; i < 4; i++)
        assert_int_equal(jwt_cache_get(&c, tag_in_set(&c, i))->user_id, i + 1);
    /* The expired one goes first. */
    claims = (struct jwt_claims){.user_id = 9, .expires_s = NOW + 100};
    jwt_cache_put(&c, tag_in_set(&c, 9), &claims, NOW + 10);
    assert_null(jwt_cache_get(&c, tag_in_set(&c, 2)));
    assert_int_equal(jwt_cache_get(&c, tag_in_set(&c, 9))->user_id, 9);
    /* Then one in turn: four more replace all. */
    for (uint64_t i = 20; i < 24; i++)
        jwt_cache_put(&c, tag_in_set(&c, i), &claims, NOW);
    for (uint64_t i = 20; i < 24; i++)
        assert_non_null(jwt_cache_get(&c, tag_in_set(&c, i)));
    /* Both halves of the tag count. */
    assert_null(jwt_cache_get(&c, (struct hash128){.lo = 20 * c.sets, .hi = 21}));
    assert_null(jwt_cache_get(&c, (struct hash128){.lo = 0, .hi = 0}));
    jwt_cache_deinit(&c);
}

static void test_the_key_is_each_ones_own(void **state)
{
    (void)state;
    struct jwt_cache a, b;
    assert_true(jwt_cache_init(&a, 0) && jwt_cache_init(&b, 0));
    struct hash128 x = jwt_cache_tag(&a, STR("token")), y = jwt_cache_tag(&b, STR("token"));
    assert_true(x.lo != y.lo && x.hi != y.hi);
    jwt_cache_put(&a, x, &(struct jwt_claims){.user_id = 1, .expires_s = NOW}, 0);
    assert_null(jwt_cache_get(&a, x));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_cached_token_expires),
        cmocka_unit_test(test_refused_tokens_are_not_cached),
        cmocka_unit_test(test_without_a_cache),
        cmocka_unit_test(test_far_more_tokens_than_places),
        cmocka_unit_test(test_who_makes_room),
        cmocka_unit_test(test_the_key_is_each_ones_own),
    };
    return cmocka_run_group_tests(tests, token_setup, token_teardown);
}
