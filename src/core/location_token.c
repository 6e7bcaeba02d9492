#include "core/location_token.h"

#include "base/err.h"
#include "base/parse.h"

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
enum { MAC_CHARS = 22 };

void location_key_init(struct location_key *k, struct str secret)
{
    unsigned char key[SHA256_BLOCK] = {0}, pad[SHA256_BLOCK];
    if (secret.len > sizeof key) {
        struct sha256 s;
        sha256_init(&s);
        sha256_add(&s, secret.ptr, secret.len);
        sha256_end(&s, key);
    } else {
        memcpy(key, secret.ptr, secret.len);
    }
    for (size_t i = 0; i < sizeof key; i++)
        pad[i] = key[i] ^ 0x36;
    sha256_init(&k->inner);
    sha256_add(&k->inner, pad, sizeof pad);
    for (size_t i = 0; i < sizeof key; i++)
        pad[i] = key[i] ^ 0x5c;
    sha256_init(&k->outer);
    sha256_add(&k->outer, pad, sizeof pad);
    explicit_bzero(key, sizeof key);
    explicit_bzero(pad, sizeof pad);
}

static unsigned char *put_u64(unsigned char *at, int64_t v)
{
    for (int i = 0; i < 8; i++)
        *at++ = (unsigned char)((uint64_t)v >> (56 - 8 * i));
    return at;
}

/* 55 bytes: with SHA-256's own padding one block, so that a token costs two. */
static void mac_of(const struct location_key *k, const struct location_claim *c,
                   unsigned char mac[SHA256_BYTES])
{
    unsigned char text[55] = "loc-v1:", *at = text + 7;
    at = put_u64(at, c->user_id);
    at = put_u64(at, c->item.activity_id);
    at = put_u64(at, c->item.sku_id);
    at = put_u64(at, c->epoch);
    memcpy(at, c->request_id.b, sizeof c->request_id.b);
    struct sha256 s = k->inner;
    sha256_add(&s, text, sizeof text);
    sha256_end(&s, mac);
    s = k->outer;
    sha256_add(&s, mac, SHA256_BYTES);
    sha256_end(&s, mac);
}

size_t location_token_make(const struct location_keys *k, const struct location_claim *c,
                           char out[LOCATION_TOKEN_MAX])
{
    if (k->n == 0 || c->epoch < 1)
        return 0;
    unsigned char mac[SHA256_BYTES];
    mac_of(&k->keys[0], c, mac);
    mac[LOCATION_MAC_BYTES] = mac[LOCATION_MAC_BYTES + 1] = 0; /* what fills the last character */
    size_t n = str_from_i64(out, c->epoch);
    out[n++] = '.';
    for (int i = 0, bit = 0; i < MAC_CHARS; i++, bit += 6) {
        unsigned two = (unsigned)mac[bit / 8] << 8 | mac[bit / 8 + 1];
        out[n++] = alphabet[two >> (10 - bit % 8) & 63];
    }
    return n;
}

static int digit(char c)
{
    const char *at = c ? strchr(alphabet, c) : NULL;
    return at ? (int)(at - alphabet) : -1;
}

static int parse_mac(struct str text, unsigned char mac[LOCATION_MAC_BYTES])
{
    unsigned have = 0, bits = 0;
    size_t n = 0;
    if (text.len != MAC_CHARS)
        return ERR_INVALID;
    for (size_t i = 0; i < MAC_CHARS; i++) {
        int d = digit(text.ptr[i]);
        if (d < 0)
            return ERR_INVALID;
        have = have << 6 | (unsigned)d;
        bits += 6;
        if (bits >= 8) {
            bits -= 8;
            mac[n++] = (unsigned char)(have >> bits);
            have &= (1u << bits) - 1;
        }
    }
    return have == 0 ? 0 : ERR_INVALID;
}

int location_token_parse(struct str text, struct location_token *out)
{
    struct str epoch, mac = str_split(text, '.', &epoch);
    /* The number's own parser may be kinder than one spelling. */
    if (!mac.ptr || epoch.len == 0 || epoch.ptr[0] < '1' || epoch.ptr[0] > '9' ||
        parse_i64(epoch, 1, INT64_MAX, &out->epoch) < 0)
        return ERR_INVALID;
    return parse_mac(mac, out->mac);
}

static bool equal(const unsigned char *a, const unsigned char *b, size_t n)
{
    volatile unsigned char different = 0;
    for (size_t i = 0; i < n; i++)
        different |= a[i] ^ b[i];
    return different == 0;
}

bool location_token_check(const struct location_keys *k, const struct location_token *t,
                          struct location_claim *claim)
{
    bool good = false;
    claim->epoch = t->epoch;
    for (int i = 0; i < k->n; i++) {
        unsigned char mac[SHA256_BYTES];
        mac_of(&k->keys[i], claim, mac);
        good |= equal(mac, t->mac, LOCATION_MAC_BYTES);
    }
    return good;
}
