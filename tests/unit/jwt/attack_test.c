/* What a verifier is attacked with. Everything that can be is properly signed by a key of ours, so
 * that nothing but the thing tested can be the reason. */
#include "token.h"
#include "unit.h"
#include <stdlib.h>
#include <string.h>

#define H "{\"alg\":\"HS256\",\"kid\":\"h\"}"
#define R "{\"alg\":\"RS256\",\"kid\":\"r\"}"
#define E "{\"alg\":\"ES256\",\"kid\":\"e\"}"
#define G GOOD_CLAIMS
#define HEADER(more) "{\"alg\":\"HS256\",\"kid\":\"h\"," more "}"
#define ALG(alg) "{\"alg\":" alg ",\"kid\":\"h\"}"
#define CLAIMS(more) "{\"iss\":\"seckill\",\"aud\":\"seckill\"," more "}"
#define SUB(sub) CLAIMS("\"exp\":1782392400,\"sub\":" sub)
#define EXP(exp) CLAIMS("\"sub\":\"3001\",\"exp\":" exp)
#define DATE(more) CLAIMS("\"sub\":\"3001\",\"exp\":1782392400," more)
#define ISS(iss) "{\"aud\":\"seckill\",\"sub\":\"3001\",\"exp\":1782392400,\"iss\":" iss "}"
#define AUD(aud) "{\"iss\":\"seckill\",\"sub\":\"3001\",\"exp\":1782392400,\"aud\":" aud "}"

struct row {
    enum signer signer;
    const char *header, *claims, *why; /* why: NULL = accepted */
};

static const char alg_wrong[] = "not the key's algorithm";
static const char sig_wrong[] = "wrong signature";

static const struct row algorithms[] = {
    {SIGN_HS, H, G, NULL},
    {SIGN_RS, R, G, NULL},
    {SIGN_ES, E, G, NULL},
    /* none, in every spelling, with an empty signature and with a real one */
    {SIGN_NOTHING, ALG("\"none\""), G, "not three parts"},
    {SIGN_NOTHING, "{\"alg\":\"none\"}", G, "not three parts"},
    {SIGN_HS, ALG("\"none\""), G, alg_wrong},
    {SIGN_HS, ALG("\"None\""), G, alg_wrong},
    {SIGN_HS, ALG("\"NONE\""), G, alg_wrong},
    {SIGN_HS, ALG("\"nOnE\""), G, alg_wrong},
    {SIGN_HS, ALG("\"none \""), G, alg_wrong},
    {SIGN_HS, ALG("\"\""), G, alg_wrong},
    {SIGN_HS, "{\"kid\":\"h\"}", G, alg_wrong},
    {SIGN_HS, ALG("null"), G, "alg is no plain string"},
    {SIGN_HS, ALG("0"), G, "alg is no plain string"},
    {SIGN_HS, ALG("[\"HS256\"]"), G, "alg is no plain string"},
    {SIGN_HS, ALG("{\"a\":\"HS256\"}"), G, "alg is no plain string"},
    {SIGN_HS, ALG("\"\\u0048S256\""), G, "alg is no plain string"},
    {SIGN_HS, ALG("\"hs256\""), G, alg_wrong},
    {SIGN_HS, ALG("\"HS384\""), G, alg_wrong},
    {SIGN_HS, ALG("\"HS256\\u0000\""), G, "alg is no plain string"},
    /* the key decides: a token cannot choose another algorithm for it */
    {SIGN_RSA_AS_HMAC, "{\"alg\":\"HS256\",\"kid\":\"r\"}", G, alg_wrong},
    {SIGN_EC_AS_HMAC, "{\"alg\":\"HS256\",\"kid\":\"e\"}", G, alg_wrong},
    {SIGN_RSA_AS_HMAC, R, G, sig_wrong},
    {SIGN_EC_AS_HMAC, E, G, sig_wrong},
    {SIGN_RSA_AS_HMAC, H, G, sig_wrong},
    {SIGN_EMPTY_KEY, H, G, sig_wrong},
    {SIGN_RS, "{\"alg\":\"RS256\",\"kid\":\"h\"}", G, alg_wrong},
    {SIGN_RS, "{\"alg\":\"PS256\",\"kid\":\"r\"}", G, alg_wrong},
    {SIGN_RS_PSS, R, G, sig_wrong},
    {SIGN_RS_SHA512, R, G, sig_wrong},
    {SIGN_RS_SHA512, "{\"alg\":\"RS512\",\"kid\":\"r\"}", G, alg_wrong},
    {SIGN_HS, R, G, sig_wrong},
    {SIGN_ES, "{\"alg\":\"ES256\",\"kid\":\"r\"}", G, alg_wrong},
    {SIGN_ES_DER, E, G, sig_wrong},
    {SIGN_P384, E, G, sig_wrong},
    {SIGN_P384, "{\"alg\":\"ES384\",\"kid\":\"e\"}", G, alg_wrong},
    /* kid */
    {SIGN_HS, "{\"alg\":\"HS256\"}", G, "no kid"},
    {SIGN_HS, "{\"alg\":\"HS256\",\"kid\":\"x\"}", G, "unknown key"},
    {SIGN_HS, "{\"alg\":\"HS256\",\"kid\":\"\"}", G, "unknown key"},
    {SIGN_HS, "{\"alg\":\"HS256\",\"kid\":\"H\"}", G, "unknown key"},
    {SIGN_HS, "{\"alg\":\"HS256\",\"kid\":\"h\\u0000\"}", G, "unknown key"},
    {SIGN_HS, "{\"alg\":\"HS256\",\"kid\":null}", G, "unknown key"},
    {SIGN_HS, "{\"alg\":\"HS256\",\"kid\":0}", G, "unknown key"},
    {SIGN_HS, "{\"alg\":\"HS256\",\"kid\":[\"h\"]}", G, "unknown key"},
    {SIGN_HS, "{\"alg\":\"HS256\",\"kid\":\"../../../dev/null\"}", G, "unknown key"},
    {SIGN_HS, "{\"alg\":\"HS256\",\"kid\":\"h' OR '1'='1\"}", G, "unknown key"},
    {SIGN_HS, "{\"alg\":\"HS256\",\"kid\":\"e\"}", G, alg_wrong},
};

static const struct row headers[] = {
    {SIGN_HS, HEADER("\"typ\":\"JWT\""), G, NULL},
    {SIGN_HS, HEADER("\"typ\":\"jwt\""), G, NULL},
    {SIGN_HS, HEADER("\"typ\":\"AT+JWT\""), G, NULL},
    {SIGN_HS, HEADER("\"x\":[{\"jwk\":1}],\"cty\":null"), G, NULL},
    {SIGN_HS, HEADER("\"typ\":\"JWS\""), G, "typ is not JWT"},
    {SIGN_HS, HEADER("\"typ\":\"\""), G, "typ is not JWT"},
    {SIGN_HS, HEADER("\"typ\":null"), G, "typ is not JWT"},
    {SIGN_HS, HEADER("\"typ\":\"logout+jwt\""), G, "typ is not JWT"},
    /* keys that the token brings along */
    {SIGN_HS, HEADER("\"jwk\":{\"kty\":\"oct\",\"k\":\"AA\"}"), G, "a header that is not allowed"},
    {SIGN_HS, HEADER("\"jwk\":null"), G, "a header that is not allowed"},
    {SIGN_HS, HEADER("\"jku\":\"https://example.org/\""), G, "a header that is not allowed"},
    {SIGN_HS, HEADER("\"x5u\":\"https://example.org/\""), G, "a header that is not allowed"},
    {SIGN_HS, HEADER("\"x5c\":[\"MII\"]"), G, "a header that is not allowed"},
    {SIGN_HS, HEADER("\"crit\":[\"exp\"]"), G, "a header that is not allowed"},
    {SIGN_HS, HEADER("\"crit\":[]"), G, "a header that is not allowed"},
    {SIGN_HS, HEADER("\"b64\":false,\"crit\":[\"b64\"]"), G, "a header that is not allowed"},
    /* twice */
    {SIGN_HS, HEADER("\"alg\":\"HS256\""), G, "a member comes twice"},
    {SIGN_HS, "{\"alg\":\"none\",\"alg\":\"HS256\",\"kid\":\"h\"}", G, "a member comes twice"},
    {SIGN_HS, HEADER("\"kid\":\"e\""), G, "a member comes twice"},
    {SIGN_HS, HEADER("\"x\":1,\"x\":1"), G, "a member comes twice"},
    {SIGN_HS, HEADER("\"al\\u0067\":\"none\""), G, "an escaped member name"},
    {SIGN_HS, HEADER("\"j\\u0077k\":{}"), G, "an escaped member name"},
    /* not an object, or not JSON */
    {SIGN_HS, "[]", G, "not a JSON object"},
    {SIGN_HS, "\"HS256\"", G, "not a JSON object"},
    {SIGN_HS, "null", G, "not a JSON object"},
    {SIGN_HS, "{", G, "ill-formed JSON"},
    {SIGN_HS, H "{}", G, "ill-formed JSON"},
    {SIGN_HS, H " x", G, "ill-formed JSON"},
    {SIGN_HS, "{\"alg\":\"HS256\",\"kid\":\"h\",}", G, "ill-formed JSON"},
    {SIGN_HS, "{'alg':'HS256','kid':'h'}", G, "ill-formed JSON"},
    {SIGN_HS, "\xef\xbb\xbf" H, G, "not a JSON object"},
};

static const struct row claims[] = {
    {SIGN_HS, H, SUB("\"1\""), NULL},
    {SIGN_HS, H, SUB("\"9223372036854775807\""), NULL},
    {SIGN_HS, H, " " G "\n", NULL},
    /* sub */
    {SIGN_HS, H, SUB("3001"), "sub is no user"},
    {SIGN_HS, H, SUB("\"0\""), "sub is no user"},
    {SIGN_HS, H, SUB("\"-1\""), "sub is no user"},
    {SIGN_HS, H, SUB("\"+1\""), "sub is no user"},
    {SIGN_HS, H, SUB("\"01\""), "sub is no user"},
    {SIGN_HS, H, SUB("\" 1\""), "sub is no user"},
    {SIGN_HS, H, SUB("\"1 \""), "sub is no user"},
    {SIGN_HS, H, SUB("\"1.0\""), "sub is no user"},
    {SIGN_HS, H, SUB("\"1e3\""), "sub is no user"},
    {SIGN_HS, H, SUB("\"0x1f\""), "sub is no user"},
    {SIGN_HS, H, SUB("\"\""), "sub is no user"},
    {SIGN_HS, H, SUB("\"alice\""), "sub is no user"},
    {SIGN_HS, H, SUB("\"\\u0031\""), "sub is no user"},
    {SIGN_HS, H, SUB("\"1\\u0000\""), "sub is no user"},
    {SIGN_HS, H, SUB("\"9223372036854775808\""), "sub is no user"},
    {SIGN_HS, H, SUB("\"18446744073709551617\""), "sub is no user"},
    {SIGN_HS, H, SUB("null"), "sub is no user"},
    {SIGN_HS, H, SUB("[\"1\"]"), "sub is no user"},
    {SIGN_HS, H, SUB("{\"a\":\"1\"}"), "sub is no user"},
    /* exp */
    {SIGN_HS, H, EXP("1782388801"), NULL},
    {SIGN_HS, H, EXP("1782388801.999"), NULL},
    {SIGN_HS, H, EXP("1782388800"), "expired"},
    {SIGN_HS, H, EXP("1782388800.9"), "expired"}, /* rounded down */
    {SIGN_HS, H, EXP("0"), "expired"},
    {SIGN_HS, H, EXP("-1"), "exp is no time"},
    {SIGN_HS, H, EXP("1e12"), "exp is no time"},
    {SIGN_HS, H, EXP("1782392400.5e3"), "exp is no time"},
    {SIGN_HS, H, EXP("\"1782392400\""), "exp is no time"},
    {SIGN_HS, H, EXP("9007199254740993"), "exp is no time"},
    {SIGN_HS, H, EXP("99999999999999999999"), "exp is no time"},
    {SIGN_HS, H, EXP("null"), "exp is no time"},
    {SIGN_HS, H, EXP("true"), "exp is no time"},
    {SIGN_HS, H, EXP("[1782392400]"), "exp is no time"},
    {SIGN_HS, H, EXP("NaN"), "exp is no time"},
    {SIGN_HS, H, EXP("Infinity"), "exp is no time"},
    {SIGN_HS, H, EXP("01782392400"), "exp is no time"},
    /* nbf, iat */
    {SIGN_HS, H, DATE("\"nbf\":1782388800,\"iat\":1782388800"), NULL},
    {SIGN_HS, H, DATE("\"nbf\":1782388801"), "not valid yet"},
    {SIGN_HS, H, DATE("\"iat\":1782388801"), "not valid yet"},
    {SIGN_HS, H, DATE("\"iat\":1782388801,\"nbf\":0"), "not valid yet"},
    {SIGN_HS, H, DATE("\"nbf\":\"1782388800\""), "nbf is no time"},
    {SIGN_HS, H, DATE("\"iat\":null"), "iat is no time"},
    {SIGN_HS, H, DATE("\"nbf\":-1"), "nbf is no time"},
    /* iss, aud */
    {SIGN_HS, H, ISS("\"other\""), "another issuer"},
    {SIGN_HS, H, ISS("\"Seckill\""), "another issuer"},
    {SIGN_HS, H, ISS("\"seckill \""), "another issuer"},
    {SIGN_HS, H, ISS("\"\""), "another issuer"},
    {SIGN_HS, H, ISS("null"), "another issuer"},
    {SIGN_HS, H, ISS("[\"seckill\"]"), "another issuer"},
    {SIGN_HS, H, AUD("[\"seckill\"]"), NULL},
    {SIGN_HS, H, AUD("[\"a\",\"seckill\",\"b\"]"), NULL},
    {SIGN_HS, H, AUD("\"other\""), "another audience"},
    {SIGN_HS, H, AUD("\"seckill2\""), "another audience"},
    {SIGN_HS, H, AUD("\"seckil\""), "another audience"},
    {SIGN_HS, H, AUD("[]"), "another audience"},
    {SIGN_HS, H, AUD("[\"other\"]"), "another audience"},
    {SIGN_HS, H, AUD("[[\"seckill\"]]"), "another audience"},
    {SIGN_HS, H, AUD("[\"seckill\",1]"), "another audience"},
    {SIGN_HS, H, AUD("{\"seckill\":1}"), "another audience"},
    {SIGN_HS, H, AUD("null"), "another audience"},
    {SIGN_HS, H, AUD("true"), "another audience"},
    /* missing */
    {SIGN_HS, H, "{}", "iss, aud, sub or exp is missing"},
    {SIGN_HS, H, "{\"aud\":\"seckill\",\"sub\":\"1\",\"exp\":1782392400}",
     "iss, aud, sub or exp is missing"},
    {SIGN_HS, H, "{\"iss\":\"seckill\",\"sub\":\"1\",\"exp\":1782392400}",
     "iss, aud, sub or exp is missing"},
    {SIGN_HS, H, CLAIMS("\"exp\":1782392400"), "iss, aud, sub or exp is missing"},
    {SIGN_HS, H, CLAIMS("\"sub\":\"1\""), "iss, aud, sub or exp is missing"},
    {SIGN_HS, H, CLAIMS("\"a\":{\"sub\":\"1\",\"exp\":1782392400}"),
     "iss, aud, sub or exp is missing"},
    /* twice */
    {SIGN_HS, H, DATE("\"sub\":\"3002\""), "a member comes twice"},
    {SIGN_HS, H, DATE("\"exp\":1782392400"), "a member comes twice"},
    {SIGN_HS, H, DATE("\"iss\":\"seckill\""), "a member comes twice"},
    {SIGN_HS, H, DATE("\"aud\":\"seckill\""), "a member comes twice"},
    {SIGN_HS, H, DATE("\"x\":1,\"x\":2"), "a member comes twice"},
    {SIGN_HS, H, DATE("\"s\\u0075b\":\"3002\""), "an escaped member name"},
    /* not an object, or not JSON */
    {SIGN_HS, H, "[" G "]", "not a JSON object"},
    {SIGN_HS, H, "\"x\"", "not a JSON object"},
    {SIGN_HS, H, "x", "not a JSON object"},
    {SIGN_HS, H, G G, "ill-formed JSON"},
    {SIGN_HS, H, G "x", "ill-formed JSON"},
    {SIGN_HS, H, DATE("\"x\":\"\xff\""), "ill-formed JSON"},
    {SIGN_HS, H, DATE("\"x\":\"\\ud800\""), "ill-formed JSON"},
    {SIGN_HS, H, DATE("\"x\":tru"), "ill-formed JSON"},
};

static struct auth *verifier(const struct jwt_keys *keys)
{
    struct jwt_config c = {.keys = keys, .issuer = "seckill", .audience = "seckill"};
    c.cache_entries = 256;
    struct auth *a = jwt_new(&c);
    assert_non_null(a);
    return a;
}

static void run_rows(const struct row *rows, size_t n)
{
    struct auth *a = verifier(token_keys());
    for (size_t i = 0; i < n; i++) {
        char *token = token_make(rows[i].signer, rows[i].header, rows[i].claims);
        for (int again = 0; again < 2; again++) {
            int64_t user;
            const char *why = token_verify(a, token, NOW, &user), *expected = rows[i].why;
            if ((why == NULL) != (expected == NULL) || (why && strcmp(why, expected) != 0))
                print_error("row %zu: %s . %s: %s, not %s\n", i, rows[i].header, rows[i].claims,
                            why ? why : "accepted", expected ? expected : "accepted");
            assert_int_equal(why == NULL, expected == NULL);
            if (why)
                assert_string_equal(why, expected);
        }
        free(token);
    }
    jwt_free(a);
}

#define N(a) (sizeof(a) / sizeof *(a))

static void test_algorithms_and_keys(void **state)
{
    (void)state;
    run_rows(algorithms, N(algorithms));
}

static void test_headers(void **state)
{
    (void)state;
    run_rows(headers, N(headers));
}

static void test_claims(void **state)
{
    (void)state;
    run_rows(claims, N(claims));
}

static void assert_signature_denied(struct auth *a, const unsigned char *sig, size_t n)
{
    char *token = token_with(E, G, sig, n);
    int64_t user;
    assert_string_equal(token_verify(a, token, NOW, &user), n ? sig_wrong : "not three parts");
    free(token);
}

static void test_es256_signatures(void **state)
{
    (void)state;
    struct auth *a = verifier(token_keys());
    unsigned char good[64], sig[128] = {0};
    token_es256(E, G, good);
    assert_signature_denied(a, sig, 64); /* r = s = 0: CVE-2022-21449 */
    memcpy(sig, good, 32);
    assert_signature_denied(a, sig, 64); /* s = 0 */
    memset(sig, 0, 32);
    memcpy(sig + 32, good + 32, 32);
    assert_signature_denied(a, sig, 64); /* r = 0 */
    memset(sig, 0xff, 64);
    assert_signature_denied(a, sig, 64); /* both beyond the group's order */
    memset(sig, 0, 64);
    sig[31] = sig[63] = 1;
    assert_signature_denied(a, sig, 64);
    memcpy(sig, good + 32, 32);
    memcpy(sig + 32, good, 32);
    assert_signature_denied(a, sig, 64); /* swapped */
    for (size_t n = 0; n < 64; n++)
        assert_signature_denied(a, good, n); /* short */
    memset(sig, 0, sizeof sig);
    memcpy(sig, good, 64);
    for (size_t n = 65; n <= sizeof sig; n++)
        assert_signature_denied(a, sig, n); /* long */
    memset(sig, 0, sizeof sig);
    memcpy(sig + 16, good, 32);
    memcpy(sig + 64, good + 32, 32);
    assert_signature_denied(a, sig, 96); /* padded as another curve's */
    char *token = token_with(E, G, good, 64);
    int64_t user;
    assert_null(token_verify(a, token, NOW, &user));
    free(token);
    jwt_free(a);
}

static void test_without_kid_there_must_be_one_key(void **state)
{
    (void)state;
    char spec[128], err[128];
    snprintf(spec, sizeof spec, "h=HS256:%s/h.key", token_key_dir());
    struct jwt_keys *one = jwt_keys_load(spec, err, sizeof err);
    assert_non_null(one);
    struct auth *a = verifier(one);
    char *token = token_make(SIGN_HS, "{\"alg\":\"HS256\"}", G);
    int64_t user;
    assert_null(token_verify(a, token, NOW, &user));
    free(token);
    token = token_make(SIGN_HS, "{\"alg\":\"HS256\",\"kid\":\"x\"}", G);
    assert_string_equal(token_verify(a, token, NOW, &user), "unknown key");
    free(token);
    jwt_free(a);
    jwt_keys_free(one);
}

static void test_too_many_members(void **state)
{
    (void)state;
    struct auth *a = verifier(token_keys());
    for (int more = 50; more < 70; more++) {
        char text[2048];
        size_t n = (size_t)snprintf(text, sizeof text, "%s", G) - 1;
        for (int i = 0; i < more; i++)
            n += (size_t)snprintf(text + n, sizeof text - n, ",\"m%d\":%d", i, i);
        snprintf(text + n, sizeof text - n, "}");
        char *token = token_make(SIGN_HS, H, text);
        int64_t user;
        const char *why = token_verify(a, token, NOW, &user);
        assert_int_equal(why == NULL, more + 4 <= 64);
        free(token);
    }
    jwt_free(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_algorithms_and_keys),
        cmocka_unit_test(test_headers),
        cmocka_unit_test(test_claims),
        cmocka_unit_test(test_es256_signatures),
        cmocka_unit_test(test_without_kid_there_must_be_one_key),
        cmocka_unit_test(test_too_many_members),
    };
    return cmocka_run_group_tests(tests, token_setup, token_teardown);
}
