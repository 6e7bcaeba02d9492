/* SHA-256 against FIPS 180-4's examples and Python's hashlib, in pieces of every size. */
#include "core/sha256.h"

#include "unit.h"
#include <stdlib.h>
#include <string.h>

static const char *hex(const unsigned char digest[SHA256_BYTES])
{
    static char text[2 * SHA256_BYTES + 1];
    for (int i = 0; i < SHA256_BYTES; i++)
        snprintf(text + 2 * i, 3, "%02x", digest[i]);
    return text;
}

static const char *of(const char *text, size_t n, size_t piece)
{
    unsigned char digest[SHA256_BYTES];
    struct sha256 s;
    sha256_init(&s);
    for (size_t at = 0; at < n; at += piece)
        sha256_add(&s, text + at, n - at < piece ? n - at : piece);
    sha256_end(&s, digest);
    return hex(digest);
}

static void test_the_standards_examples(void **state)
{
    (void)state;
    static const char *const text = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
    assert_string_equal(of("", 0, 1),
                        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    assert_string_equal(of("abc", 3, 3),
                        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert_string_equal(of(text, strlen(text), 7),
                        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    char *million = malloc(1000000);
    assert_non_null(million);
    memset(million, 'a', 1000000);
    assert_string_equal(of(million, 1000000, 4099),
                        "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    free(million);
}

/* Where the padding begins a block of its own, or does not. */
static void test_around_the_blocks_end(void **state)
{
    (void)state;
    static const struct {
        size_t n;
        const char *digest;
    } rows[] = {
        {55, "eb2c86e932179f4ba13fe8715a26124b77d6bad290b9b4c1cc140cf633300c19"},
        {56, "a5fc6e203a4c2b657d0d153885932414b2ffc6a93f0f8bf8b3183315e5a7212c"},
        {63, "94e419fabac7f930810f9636354042f8c1426d2f834d4ab65c93dc1e69326b13"},
        {64, "a0fab1377f49a759b57f63318262ebe89fabfc990e8e93ceac2984561482b9d4"},
        {65, "74b128f30cf83de43ddf4aafc40c7b50a7443d3c73a89a7cfca17e15e43d51ab"},
        {119, "68297a9eb141ce16bbc0847da1c0c48e2858704feaa13993bde29f87a198a6e1"},
        {120, "392add47fbaa8197a874ebe770a947a26dd6f2becce5f64688cc4d18c9da93bd"},
    };
    char text[120];
    memset(text, 'b', sizeof text);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        for (size_t piece = 1; piece <= rows[i].n; piece++)
            assert_string_equal(of(text, rows[i].n, piece), rows[i].digest);
    }
}

static void test_a_state_is_a_value(void **state)
{
    (void)state;
    unsigned char digest[SHA256_BYTES];
    struct sha256 begun, copy;
    sha256_init(&begun);
    sha256_add(&begun, "a", 1);
    copy = begun;
    sha256_add(&copy, "x", 1);
    sha256_add(&begun, "bc", 2);
    sha256_end(&begun, digest);
    assert_string_equal(hex(digest),
                        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_standards_examples),
        cmocka_unit_test(test_around_the_blocks_end),
        cmocka_unit_test(test_a_state_is_a_value),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
