#include "adapter/jwt/jwt_keys.h"

#include "token.h"
#include "unit.h"
#include <string.h>
#include <unistd.h>

#define V SECKILL_SOURCE_DIR "/tests/unit/jwt/vectors/"

static void test_refused(void **state)
{
    (void)state;
    static const struct {
        const char *spec, *message;
    } rows[] = {
        {"", "expected kid=ALG:/path"},
        {"k", "expected kid=ALG:/path"},
        {"=HS256:" V "h.key", "expected kid=ALG:/path"},
        {"k=HS256", "expected kid=ALG:/path"},
        {"k=HS256:", "expected kid=ALG:/path"},
        {"k=none:" V "h.key", "algorithm"},
        {"k=HS512:" V "h.key", "algorithm"},
        {"k=hs256:" V "h.key", "algorithm"},
        {"k=RS512:" V "r.pem", "algorithm"},
        {"k=HS256:" V "missing", "No such file"},
        {"k=HS256:" V, "Is a directory"},
        {"k=HS256:/dev/null", "empty"},
        {"k=HS256:/dev/zero", "too large"},
        {"k=HS256:" V "short.key", "at least 32 bytes"},
        {"k=HS256:" V "r.pem", "no HS256 key"},
        {"k=RS256:" V "rsa1024.pem", "at least 2048"},
        {"k=RS256:" V "e.pem", "not an RSA key"},
        {"k=RS256:" V "h.key", "not a public key"},
        {"k=ES256:" V "r.pem", "not an EC key"},
        {"k=ES256:" V "p384.pem", "P-256"},
        {"k=ES256:" V "secp256k1.pem", "P-256"},
        {"k=ES256:" V "h.key", "not a public key"},
        {"k=HS256:" V "h.key,k=ES256:" V "e.pem", "twice"},
        {"k=HS256:" V "h.key,", "expected kid=ALG:/path"},
        {"k=HS256:" V "h.key,r=RS256:" V "rsa1024.pem", "at least 2048"},
        {"a23456789a123456789a123456789a123456789a123456789a123456789a1234=HS256:" V "h.key",
         "too long"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char err[512] = "";
        assert_null(jwt_keys_load(rows[i].spec, err, sizeof err));
        if (!strstr(err, rows[i].message))
            print_error("%s: %s\n", rows[i].spec, err);
        assert_non_null(strstr(err, rows[i].message));
    }
    char tiny[8];
    assert_null(jwt_keys_load("k=HS256:" V "missing", tiny, sizeof tiny));
    assert_true(memchr(tiny, 0, sizeof tiny) != NULL);
}

static void test_loaded(void **state)
{
    (void)state;
    char err[256] = "";
    struct jwt_keys *k =
        jwt_keys_load("h=HS256:" V "h.key,r=RS256:" V "r.pem,e=ES256:" V "e.pem", err, sizeof err);
    assert_non_null(k);
    assert_int_equal(k->n, 3);
    assert_int_equal(k->key[0].alg, JWT_HS256);
    assert_int_equal(k->key[0].secret_len, 48); /* raw bytes, nothing is trimmed */
    assert_int_equal(k->key[2].alg, JWT_ES256);
    jwt_keys_free(k);
    jwt_keys_free(NULL);
}

static void test_no_verifier_without_issuer_and_audience(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {NULL, "a"}, {"", "a"}, {"i", NULL}, {"i", ""}, {NULL, NULL}};
    for (size_t i = 0; i < 5; i++) {
        struct jwt_config c = {.keys = token_keys(), .issuer = rows[i][0], .audience = rows[i][1]};
        assert_null(jwt_new(&c));
    }
}

static void test_minted_tokens_verify(void **state)
{
    (void)state;
    static const int64_t users[] = {1, 3001, INT64_MAX};
    /* Names that need escaping in JSON. */
    struct jwt_config c = {.keys = token_keys(), .issuer = "a\"b\\c\n", .audience = "d\xc3\xa9"};
    struct auth *a = jwt_new(&c);
    assert_non_null(a);
    for (int i = 0; i < 3; i++) {
        char token[1024];
        int64_t user;
        int n = jwt_mint(token_keys(), "h", c.issuer, c.audience, users[i], NOW, 60, token,
                         sizeof token - 1);
        assert_true(n > 0);
        token[n] = 0;
        assert_null(token_verify(a, token, NOW, &user));
        assert_int_equal(user, users[i]);
        assert_null(token_verify(a, token, NOW + 59, &user));
        assert_string_equal(token_verify(a, token, NOW + 60, &user), "expired");
        assert_string_equal(token_verify(a, token, NOW - 1, &user), "not valid yet");
        for (int cap = 0; cap < n; cap++)
            assert_true(jwt_mint(token_keys(), "h", c.issuer, c.audience, users[i], NOW, 60, token,
                                 (size_t)cap) < 0);
    }
    char token[1024];
    assert_true(jwt_mint(token_keys(), "r", "i", "a", 1, NOW, 60, token, sizeof token) < 0);
    assert_true(jwt_mint(token_keys(), "x", "i", "a", 1, NOW, 60, token, sizeof token) < 0);
    assert_true(jwt_mint(token_keys(), "h", "i", "a", 0, NOW, 60, token, sizeof token) < 0);
    jwt_free(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_loaded),
        cmocka_unit_test(test_no_verifier_without_issuer_and_audience),
        cmocka_unit_test(test_minted_tokens_verify),
    };
    return cmocka_run_group_tests(tests, token_setup, token_teardown);
}
