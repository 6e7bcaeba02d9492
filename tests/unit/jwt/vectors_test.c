/* Tokens made by PyJWT (make_vectors.py). */
#include "token.h"
#include "unit.h"
#include <stdlib.h>
#include <string.h>

#define V SECKILL_SOURCE_DIR "/tests/unit/jwt/vectors/"

static void test_vectors(void **state)
{
    (void)state;
    char err[256] = "";
    struct jwt_keys *k = jwt_keys_load("h=HS256:" V "h.key,r=RS256:" V "r.pem,r3=RS256:" V
                                       "r3.pem,e=ES256:" V "e.pem",
                                       err, sizeof err);
    assert_non_null(k);
    struct jwt_config c = {
        .keys = k, .issuer = "seckill", .audience = "seckill", .cache_entries = 64};
    struct auth *a = jwt_new(&c);
    FILE *f = fopen(V "tokens.txt", "r");
    assert_true(a && f);
    static char kid[8], expected[8], token[4200];
    int good = 0, bad = 0;
    while (fscanf(f, "%7s %7s %4199s", kid, expected, token) == 3) {
        bool is_good = strcmp(expected, "good") == 0;
        for (int again = 0; again < 3; again++) {
            int64_t user;
            const char *why = token_verify(a, token, NOW, &user);
            if ((why == NULL) != is_good)
                print_error("%s %s: %s: %s\n", kid, expected, why ? why : "accepted", token);
            assert_int_equal(why == NULL, is_good);
            assert_true(!is_good || user == 3001);
        }
        *(is_good ? &good : &bad) += 1;
    }
    assert_int_equal(good, 68);
    assert_int_equal(bad, 36);
    fclose(f);
    jwt_free(a);
    jwt_keys_free(k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_vectors)};
    return cmocka_run_group_tests(tests, token_setup, token_teardown);
}
