#include "core/uuid.h"

#include "base/err.h"
#include "core/sha1.h"
#include "unit.h"

static struct uuid parse(const char *text)
{
    struct uuid u;
    assert_int_equal(uuid_parse(str_of(text), &u), 0);
    return u;
}

static void test_round_trip(void **state)
{
    (void)state;
    static const char *const rows[] = {
        "00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff",
        "019f2db9-8af0-7a21-88e1-2df337730001", "01234567-89ab-cdef-0123-456789abcdef",
        "6ba7b810-9dad-11d1-80b4-00c04fd430c8",
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct uuid u = parse(rows[i]);
        char text[UUID_TEXT];
        uuid_format(&u, text);
        assert_memory_equal(text, rows[i], UUID_TEXT);
    }
}

static void test_either_case_is_written_in_lower_case(void **state)
{
    (void)state;
    struct uuid upper = parse("019F2DB9-8AF0-7A21-88E1-2DF33773ABCD");
    struct uuid lower = parse("019f2db9-8af0-7a21-88e1-2df33773abcd");
    assert_true(uuid_eq(&upper, &lower));
    char text[UUID_TEXT];
    uuid_format(&upper, text);
    assert_memory_equal(text, "019f2db9-8af0-7a21-88e1-2df33773abcd", UUID_TEXT);
}

static void test_every_wrong_character_is_refused(void **state)
{
    (void)state;
    const char good[] = "019f2db9-8af0-7a21-88e1-2df33773abcd";
    struct uuid untouched = {{7}}, u = untouched;
    for (size_t at = 0; at < UUID_TEXT; at++) {
        for (int c = 0; c < 256; c++) {
            char text[UUID_TEXT];
            memcpy(text, good, UUID_TEXT);
            text[at] = (char)c;
            bool hex = c < 128 && c && strchr("0123456789abcdefABCDEF", c);
            bool right = good[at] == '-' ? c == '-' : hex;
            int rc = uuid_parse((struct str){text, UUID_TEXT}, &u);
            assert_int_equal(rc, right ? 0 : ERR_INVALID);
            if (rc)
                assert_true(uuid_eq(&u, &untouched));
            u = untouched;
        }
    }
}

static void test_every_wrong_length_is_refused(void **state)
{
    (void)state;
    const char text[] = "019f2db9-8af0-7a21-88e1-2df33773abcd0123";
    struct uuid u;
    for (size_t n = 0; n < sizeof text; n++)
        assert_int_equal(uuid_parse((struct str){text, n}, &u), n == UUID_TEXT ? 0 : ERR_INVALID);
    assert_int_equal(uuid_parse((struct str){NULL, 0}, &u), ERR_INVALID);
    assert_int_equal(uuid_parse(STR("{019f2db9-8af0-7a21-88e1-2df33773ab}"), &u), ERR_INVALID);
}

static void test_v7(void **state)
{
    (void)state;
    struct rng rng;
    rng_init_seed(&rng, 1);
    struct uuid last = uuid_v7(INT64_C(1782388800123), &rng);
    assert_int_equal(uuid_v7_ms(&last), INT64_C(1782388800123));
    for (int i = 1; i < 1000; i++) {
        struct uuid u = uuid_v7(INT64_C(1782388800123) + i, &rng);
        assert_int_equal(u.b[6] >> 4, 7);
        assert_int_equal(u.b[8] >> 6, 2);
        assert_int_equal(uuid_v7_ms(&u), INT64_C(1782388800123) + i);
        assert_true(memcmp(u.b, last.b, 16) > 0); /* sorted by time */
        last = u;
    }
    struct uuid a = uuid_v7(5, &rng), b = uuid_v7(5, &rng);
    assert_false(uuid_eq(&a, &b));
}

static void test_v7_ms_of_others(void **state)
{
    (void)state;
    struct uuid v4 = parse("919108f7-52d1-4320-9bac-f847db4148a8");
    struct uuid nil = parse("00000000-0000-0000-0000-000000000000");
    struct uuid variant = parse("019f2db9-8af0-7a21-08e1-2df337730001");
    assert_int_equal(uuid_v7_ms(&v4), -1);
    assert_int_equal(uuid_v7_ms(&nil), -1);
    assert_int_equal(uuid_v7_ms(&variant), -1);
    assert_true(uuid_is_nil(&nil));
    assert_false(uuid_is_nil(&v4));
}

static void assert_sha1(const char *text, size_t times, const char *hex)
{
    struct sha1 s;
    unsigned char digest[SHA1_BYTES];
    char got[2 * SHA1_BYTES + 1];
    sha1_init(&s);
    for (size_t i = 0; i < times; i++)
        sha1_add(&s, text, strlen(text));
    sha1_end(&s, digest);
    for (int i = 0; i < SHA1_BYTES; i++)
        snprintf(got + 2 * i, 3, "%02x", digest[i]);
    assert_string_equal(got, hex);
}

/* FIPS 180's examples, and each length around a block's end (digests by Python's hashlib). */
static void test_sha1(void **state)
{
    (void)state;
    assert_sha1("", 1, "da39a3ee5e6b4b0d3255bfef95601890afd80709");
    assert_sha1("abc", 1, "a9993e364706816aba3e25717850c26c9cd0d89d");
    assert_sha1("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 1,
                "84983e441c3bd26ebaae4aa1f95129e5e54670f1");
    assert_sha1("aaaaaaaaaa", 100000, "34aa973cd4c4daa4f61eeb2bdbad27316534016f");
    static const struct {
        size_t n;
        const char *hex;
    } rows[] = {
        {1, "11f6ad8ec52a2984abaafd7c3b516503785c2072"},
        {54, "31045e7bb077ff8d188a776b196b980388735dbb"},
        {55, "cef734ba81a024479e09eb5a75b6ddae62e6abf1"},
        {56, "901305367c259952f4e7af8323f480d59f81335b"},
        {57, "025ecbd5d70f8fb3c5457cd96bab13fda305dc59"},
        {63, "0ddc4e0cccd9a12850deb5abb0853a4425559fec"},
        {64, "bb2fa3ee7afb9f54c6dfb5d021f14b1ffe40c163"},
        {65, "78c741ddc482e4cdf8c474a0876347a0905b6233"},
        {119, "4300320394f7ee239bcdce7d3b8bcee173a0cd5c"},
        {120, "ceb2821639c4b6dcb10bce0e522ca2e608ce056d"},
        {127, "e463484d274607e1897d4099497cbf2aedcf8206"},
        {128, "150fa3fbdc899bd0b8f95a9fb6027f564d953762"},
        {129, "2699b675922cc84a9b0dfd926eb7f8211c78693d"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_sha1("x", rows[i].n, rows[i].hex);
}

/* Rule 27: the same name, the same id, in every process and release (values by Python's
 * uuid.uuid5). */
static void test_rule_27_v5(void **state)
{
    (void)state;
    static const struct {
        struct str name;
        const char *text;
    } rows[] = {
        {STR(""), "c9aaa97a-bdc0-597c-97d0-73b1bc3829d2"},
        {STR("cancel019f2db9-8af0-7a21-88e1-2df337730002"), "c7ac69d4-47e2-5353-8dd8-4c2a91b02d42"},
        {STR("pay_1"), "e6b2bd6d-90e8-5ed3-9f0a-a7121f25e818"},
        {STR("xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
             "xxxxxxxxxxxxxxx"),
         "84703e2b-5402-5e75-be20-87a1963c4fa4"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct uuid u = uuid_v5(rows[i].name), expected = parse(rows[i].text);
        assert_true(uuid_eq(&u, &expected));
    }
}

static void test_text(void **state)
{
    (void)state;
    struct uuid u = parse("019F2DB9-8af0-7a21-88e1-2df337730002");
    assert_string_equal(uuid_text(&u).z, "019f2db9-8af0-7a21-88e1-2df337730002");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_either_case_is_written_in_lower_case),
        cmocka_unit_test(test_every_wrong_character_is_refused),
        cmocka_unit_test(test_every_wrong_length_is_refused),
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_v7),
        cmocka_unit_test(test_v7_ms_of_others),
        cmocka_unit_test(test_sha1),
        cmocka_unit_test(test_rule_27_v5),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
