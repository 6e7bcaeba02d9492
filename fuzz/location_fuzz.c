/* Whatever comes as the token of a Location: refused, or one that has this one spelling; and only
 * the one that we made is believed. */
#include "base/panic.h"
#include "core/location_token.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct location_keys keys;
    static const struct location_claim asked = {
        .user_id = 7, .item = {1001, 2001}, .request_id = {{1, 2, 3}}};
    if (keys.n == 0)
        location_key_init(&keys.keys[keys.n++], STR("0123456789abcdef0123456789abcdef"));
    struct str text = {(const char *)data, size};
    struct location_token t;
    struct location_claim claim = asked;
    if (location_token_parse(text, &t) < 0)
        return 0;
    char ours[LOCATION_TOKEN_MAX];
    bool good = location_token_check(&keys, &t, &claim);
    size_t n = location_token_make(&keys, &claim, ours);
    if (good != str_eq(text, (struct str){ours, n}))
        panic("believed, but not ours; or ours, but not believed");
    return 0;
}
