#include "base/hash.h"
#include "unit.h"

static void hex_le(uint64_t v, char *dst)
{
    for (int i = 0; i < 8; i++)
        snprintf(dst + 2 * i, 3, "%02x", (unsigned)(v >> (8 * i) & 0xff));
}

/* Key 00..0f, data 00 01 02 …: the vectors of the reference implementation, as OpenSSL computes
 * them too. */
static void test_vectors(void **state)
{
    (void)state;
    static const struct {
        size_t n;
        const char *h64, *h128;
    } rows[] = {
        {0, "310e0edd47db6f72", "a3817f04ba25a8e66df67214c7550293"},
        {1, "fd67dc93c539f874", "da87c1d86b99af44347659119b22fc45"},
        {7, "37d1018bf50002ab", "a1f1ebbed8dbc153c0b84aa61ff08239"},
        {8, "6224939a79f5f593", "3b62a9ba6258f5610f83e264f31497b4"},
        {15, "e545be4961ca29a1", "5493e99933b0a8117e08ec0f97cfc3d9"},
        {16, "db9bc2577fcc2a3f", "6ee2a4ca67b054bbfd3315bf85230577"},
        {63, "724506eb4c328a95", "5150d1772f50834a503e069a973fbd7c"},
    };
    const struct hash_key key = {UINT64_C(0x0706050403020100), UINT64_C(0x0f0e0d0c0b0a0908)};
    unsigned char data[64];
    for (unsigned i = 0; i < sizeof data; i++)
        data[i] = (unsigned char)i;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[33];
        hex_le(hash_sip64(&key, data, rows[i].n), text);
        assert_string_equal(text, rows[i].h64);
        struct hash128 h = hash_sip128(&key, data, rows[i].n);
        hex_le(h.lo, text);
        hex_le(h.hi, text + 16);
        assert_string_equal(text, rows[i].h128);
    }
}

static void test_key_matters(void **state)
{
    (void)state;
    const struct hash_key a = {1, 2}, b = {1, 3};
    assert_true(hash_sip64(&a, "x", 1) != hash_sip64(&b, "x", 1));
    /* Where the bytes stand in memory does not. */
    char text[] = "__1234567890";
    assert_true(hash_sip64(&a, text + 2, 10) == hash_sip64(&a, "1234567890", 10));
    assert_true(hash_mix64(1) != hash_mix64(2));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vectors),
        cmocka_unit_test(test_key_matters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
