/* The token of a 202's Location: what it looks like, who makes one, and whoever tries without the
 * secret (rules 34c, 37). */
#include "core/location_token.h"

#include "base/err.h"
#include "unit.h"

#define SECRET "0123456789abcdef0123456789abcdef"
#define OTHER "fedcba9876543210fedcba9876543210"

static const struct location_claim CLAIM = {
    .user_id = 7,
    .item = {1001, 2001},
    .request_id = {{0x01, 0x9f, 0x2d, 0xb9, 0x8a, 0xf0, 0x7a, 0x21, 0x88, 0xe1, 0x2d, 0xf3, 0x37,
                    0x73, 0x00, 0x03}},
    .epoch = 1};

static struct location_keys keys_of(int n, const char *const *secrets)
{
    struct location_keys k = {.n = n};
    for (int i = 0; i < n; i++)
        location_key_init(&k.keys[i], str_of(secrets[i]));
    return k;
}

static struct location_keys one(const char *secret)
{
    return keys_of(1, &secret);
}

static const char *make(const struct location_keys *k, struct location_claim c)
{
    static char text[LOCATION_TOKEN_MAX + 1];
    text[location_token_make(k, &c, text)] = 0;
    return text;
}

/* Whether it is believed, for that request. */
static bool believed(const struct location_keys *k, const char *text, struct location_claim c)
{
    struct location_token t;
    c.epoch = 0; /* the token says it */
    return location_token_parse(str_of(text), &t) == 0 && location_token_check(k, &t, &c) &&
           c.epoch == t.epoch;
}

/* Python: hmac.new(secret, b"loc-v1:" + struct.pack(">qqqq", user, activity, sku, epoch) +
 * uuid.bytes, sha256).digest()[:16], base64url */
static void test_known_tokens(void **state)
{
    (void)state;
    char secret[257];
    struct location_keys k = one(SECRET);
    assert_string_equal(make(&k, CLAIM), "1.L58j4AUMB5jPm8_aLBHmbA");
    memset(secret, 'x', sizeof secret);
    secret[64] = 0;
    k = one(secret);
    assert_string_equal(make(&k, CLAIM), "1.98OLXHXVYgQnBXpX2AEBpQ");
    secret[64] = 'x';
    secret[65] = 0;
    struct location_claim c = CLAIM;
    c.epoch = 12;
    k = one(secret);
    assert_string_equal(make(&k, c), "12.z2eLytQfoBJuhE_0AIWmrw");
    memset(secret, 'k', 256);
    secret[256] = 0;
    memset(&c.request_id, 0xff, sizeof c.request_id);
    c.user_id = c.item.activity_id = c.item.sku_id = c.epoch = INT64_MAX;
    k = one(secret);
    assert_string_equal(make(&k, c), "9223372036854775807.Ns-Rt96E7EJf8FcEnZi7vQ");
    assert_int_equal(strlen(make(&k, c)), LOCATION_TOKEN_MAX);
    assert_true(believed(&k, make(&k, c), c));
}

static void test_no_key_no_token(void **state)
{
    (void)state;
    struct location_keys none = {0}, k = one(SECRET);
    struct location_claim c = CLAIM;
    assert_string_equal(make(&none, c), "");
    assert_false(believed(&none, "1.L58j4AUMB5jPm8_aLBHmbA", c));
    c.epoch = 0; /* of a record that does not say it */
    assert_string_equal(make(&k, c), "");
}

/* The new secret goes first; what the old one signed stays good until it is removed. */
static void test_rotation(void **state)
{
    (void)state;
    struct location_keys before = one(SECRET), after = one(OTHER);
    struct location_keys both = keys_of(2, (const char *const[]){OTHER, SECRET});
    char old[LOCATION_TOKEN_MAX + 1];
    strcpy(old, make(&before, CLAIM));
    assert_true(believed(&both, old, CLAIM));
    assert_string_not_equal(make(&both, CLAIM), old);
    assert_true(believed(&after, make(&both, CLAIM), CLAIM));
    assert_false(believed(&after, old, CLAIM));
    assert_false(believed(&before, make(&both, CLAIM), CLAIM));
}

/* A token is for one request of one user, and says one epoch. */
static void test_somebody_elses(void **state)
{
    (void)state;
    struct location_keys k = one(SECRET);
    char text[LOCATION_TOKEN_MAX + 1], other[LOCATION_TOKEN_MAX + 1];
    strcpy(text, make(&k, CLAIM));
    assert_true(believed(&k, text, CLAIM));
    struct location_claim c = CLAIM;
    c.user_id = 8;
    assert_false(believed(&k, text, c));
    c = CLAIM;
    c.item.activity_id++;
    assert_false(believed(&k, text, c));
    c = CLAIM;
    c.item.sku_id++;
    assert_false(believed(&k, text, c));
    c = CLAIM; /* the same bytes, otherwise divided */
    c.user_id = CLAIM.item.activity_id;
    c.item.activity_id = CLAIM.user_id;
    assert_false(believed(&k, text, c));
    for (int i = 0; i < 128; i++) {
        c = CLAIM;
        c.request_id.b[i / 8] ^= (uint8_t)(1 << i % 8);
        assert_false(believed(&k, text, c));
    }
    /* An older epoch would be told LOST_RESERVATION: it cannot be claimed. */
    snprintf(other, sizeof other, "2%s", text + 1);
    assert_false(believed(&k, other, CLAIM));
}

/* One spelling: whatever differs in any character is another token, or none. */
static void test_every_character_counts(void **state)
{
    (void)state;
    struct location_keys k = one(SECRET);
    char text[LOCATION_TOKEN_MAX + 8];
    strcpy(text, make(&k, CLAIM));
    for (size_t i = 0; text[i]; i++) {
        char was = text[i];
        for (int c = 1; c < 256; c++) {
            text[i] = (char)c;
            assert_int_equal(believed(&k, text, CLAIM), (char)c == was);
        }
        text[i] = was;
    }
}

static void test_what_is_no_token(void **state)
{
    (void)state;
    static const char *const rows[] = {
        "",
        ".",
        "1",
        "1.",
        ".L58j4AUMB5jPm8_aLBHmbA",
        "0.L58j4AUMB5jPm8_aLBHmbA",
        "01.L58j4AUMB5jPm8_aLBHmbA",
        "+1.L58j4AUMB5jPm8_aLBHmbA",
        "-1.L58j4AUMB5jPm8_aLBHmbA",
        " 1.L58j4AUMB5jPm8_aLBHmbA",
        "1 .L58j4AUMB5jPm8_aLBHmbA",
        "1,L58j4AUMB5jPm8_aLBHmbA",
        "1e0.L58j4AUMB5jPm8_aLBHmbA",
        "0x1.L58j4AUMB5jPm8_aLBHmbA",
        "9223372036854775808.L58j4AUMB5jPm8_aLBHmbA",
        "18446744073709551617.L58j4AUMB5jPm8_aLBHmbA",
        "99999999999999999999999999.L58j4AUMB5jPm8_aLBHmbA",
        "1.L58j4AUMB5jPm8_aLBHmb",    /* short */
        "1.L58j4AUMB5jPm8_aLBHmbAA",  /* long */
        "1.L58j4AUMB5jPm8_aLBHmbA=",  /* padded */
        "1.L58j4AUMB5jPm8_aLBHmbA==", /* … */
        "1.L58j4AUMB5jPm8_aLBHmbB",   /* a bit that means nothing is set */
        "1.L58j4AUMB5jPm8/aLBHmbA",   /* base64, not base64url */
        "1.L58j4AUMB5jPm8+aLBHmbA",
        "1.L58j4AUMB5jPm8%5FaLBHmA", /* percent-encoded */
        "1.L58j4AUMB5jPm8_aLBHmbA ",
        "1..L58j4AUMB5jPm8_aLBHmbA",
        "1.1.L58j4AUMB5jPm8_aLBHmbA",
    };
    struct location_token t;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (location_token_parse(str_of(rows[i]), &t) == 0)
            print_error("%s\n", rows[i]);
        assert_int_equal(location_token_parse(str_of(rows[i]), &t), ERR_INVALID);
    }
    assert_int_equal(location_token_parse((struct str){NULL, 0}, &t), ERR_INVALID);
    assert_int_equal(location_token_parse((struct str){"1.L58j4AUMB5jPm8_aLBHmb\0", 25}, &t),
                     ERR_INVALID);
}

/* Every MAC there is comes back as it was: all bits of each character mean something. */
static void test_there_and_back(void **state)
{
    (void)state;
    struct location_keys k = one(SECRET);
    struct location_claim c = CLAIM;
    for (int i = 0; i < 2000; i++) {
        c.user_id = i * INT64_C(7919) + 1;
        c.epoch = INT64_C(1) << i % 63;
        assert_true(believed(&k, make(&k, c), c));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_tokens),     cmocka_unit_test(test_no_key_no_token),
        cmocka_unit_test(test_rotation),         cmocka_unit_test(test_somebody_elses),
        cmocka_unit_test(test_what_is_no_token), cmocka_unit_test(test_every_character_counts),
        cmocka_unit_test(test_there_and_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
