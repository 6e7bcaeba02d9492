/* The token as text: base64url, the three parts, each byte damaged. */
#include "adapter/jwt/jwt_base64.h"
#include "base/err.h"
#include "token.h"
#include "unit.h"
#include <stdlib.h>
#include <string.h>

static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

static void test_base64_one_spelling_each(void **state)
{
    (void)state;
    /* Every text of up to three characters: decoding what is accepted and encoding it is the
     * identity. */
    int accepted = 0;
    for (int n = 0; n <= 3; n++) {
        for (int i = 0; i < (n == 0 ? 1 : n == 1 ? 64 : n == 2 ? 4096 : 262144); i++) {
            char s[3] = {letters[i & 63], letters[i >> 6 & 63], letters[i >> 12]}, again[4];
            unsigned char bytes[3];
            int len = jwt_base64_decode((struct str){s, (size_t)n}, bytes, sizeof bytes);
            if (len < 0)
                continue;
            accepted++;
            assert_int_equal(jwt_base64_encode(again, bytes, (size_t)len), n);
            assert_memory_equal(again, s, (size_t)n);
        }
    }
    assert_int_equal(accepted, 1 + 256 + 65536);
}

static void test_base64_refused(void **state)
{
    (void)state;
    unsigned char bytes[16];
    static const char *const rows[] = {"A",   "AAAAA", "AA==", "AAA=", "AB",   "AAB",
                                       "A A", "A+A/",  "AA\n", " AAA", "AAA.", "\xc3\xa9"};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_int_equal(jwt_base64_decode(str_of(rows[i]), bytes, sizeof bytes), ERR_INVALID);
    for (int c = 0; c < 256; c++) {
        char s[4] = {'A', (char)c, 'A', 'A'};
        bool known = c && strchr(letters, c);
        assert_int_equal(jwt_base64_decode((struct str){s, 4}, bytes, sizeof bytes),
                         known ? 3 : ERR_INVALID);
    }
    assert_int_equal(jwt_base64_decode(STR("AAAA"), bytes, 2), ERR_INVALID);
}

static struct auth *verifier(void)
{
    struct jwt_config c = {.keys = token_keys(), .issuer = "seckill", .audience = "seckill"};
    c.cache_entries = 16;
    struct auth *a = jwt_new(&c);
    assert_non_null(a);
    return a;
}

static const struct {
    enum signer signer;
    const char *header;
} kinds[] = {
    {SIGN_HS, "{\"alg\":\"HS256\",\"kid\":\"h\"}"},
    {SIGN_RS, "{\"alg\":\"RS256\",\"kid\":\"r\"}"},
    {SIGN_ES, "{\"alg\":\"ES256\",\"kid\":\"e\"}"},
};

static void assert_denied(struct auth *a, const char *token)
{
    int64_t user;
    assert_non_null(token_verify(a, token, NOW, &user));
}

/* Also after the good one is in the cache. */
static void test_every_character_changed(void **state)
{
    (void)state;
    for (int k = 0; k < 3; k++) {
        struct auth *a = verifier();
        char *token = token_make(kinds[k].signer, kinds[k].header, GOOD_CLAIMS);
        int64_t user;
        assert_null(token_verify(a, token, NOW, &user));
        for (char *at = token; *at; at++) {
            char was = *at;
            static const char others[] = "AQgw_-.= \n\"\x80";
            for (const char *o = others; *o; o++) {
                *at = *o;
                if (*o != was)
                    assert_denied(a, token);
            }
            *at = was;
        }
        assert_null(token_verify(a, token, NOW, &user));
        free(token);
        jwt_free(a);
    }
}

static void test_every_cut_and_every_insertion(void **state)
{
    (void)state;
    struct auth *a = verifier();
    char *token = token_make(kinds[0].signer, kinds[0].header, GOOD_CLAIMS);
    size_t n = strlen(token);
    char changed[2048];
    for (size_t at = 0; at <= n; at++) {
        if (at < n) {
            snprintf(changed, sizeof changed, "%.*s", (int)at, token);
            assert_denied(a, changed);
        }
        static const char *const inserts[] = {".", "A", "=", " ", "\n", "\t", "%2e", "..", "AAAA"};
        for (size_t i = 0; i < sizeof inserts / sizeof *inserts; i++) {
            snprintf(changed, sizeof changed, "%.*s%s%s", (int)at, token, inserts[i], token + at);
            assert_denied(a, changed);
        }
    }
    snprintf(changed, sizeof changed, "Bearer %s", token);
    assert_denied(a, changed);
    free(token);
    jwt_free(a);
}

static void test_parts(void **state)
{
    (void)state;
    struct auth *a = verifier();
    static const char *const rows[] = {"",     ".",    "..",   "...",     "a",         "a.b",
                                       "a.b.", ".b.c", "a..c", "a.b.c.d", "a.b.c.d.e", "..aaaa"};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_denied(a, rows[i]);
    int64_t user;
    const char *why = NULL;
    assert_int_equal(a->ops->verify(a, (struct str){NULL, 0}, NOW, &user, &why), ERR_DENIED);
    assert_string_equal(why, "no token");
    jwt_free(a);
}

static void test_the_bound(void **state)
{
    (void)state;
    struct auth *a = verifier();
    char claims[8192];
    /* Claims are padded with a long member, so that the whole is 4096 and 4097 bytes or so. */
    bool last_good = true;
    size_t longest = 0, shortest_refused = 0;
    for (int pad = 2850; pad < 3000; pad++) {
        int n = snprintf(claims, sizeof claims, "{\"pad\":\"%0*d\",%s", pad, 0, GOOD_CLAIMS + 1);
        assert_true(n > 0);
        char *token = token_make(SIGN_HS, kinds[0].header, claims);
        int64_t user;
        const char *why = token_verify(a, token, NOW, &user);
        if (!why)
            longest = strlen(token);
        else if (last_good)
            shortest_refused = strlen(token);
        assert_true(!why || strcmp(why, "too long") == 0);
        assert_true(last_good || why);
        last_good = !why;
        free(token);
    }
    assert_true(longest <= 4096 && longest >= 4095);
    assert_true(shortest_refused > 4096);
    jwt_free(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_base64_one_spelling_each),
        cmocka_unit_test(test_base64_refused),
        cmocka_unit_test(test_every_character_changed),
        cmocka_unit_test(test_every_cut_and_every_insertion),
        cmocka_unit_test(test_parts),
        cmocka_unit_test(test_the_bound),
    };
    return cmocka_run_group_tests(tests, token_setup, token_teardown);
}
