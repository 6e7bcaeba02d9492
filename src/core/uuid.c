#include "core/uuid.h"

#include "base/err.h"
#include "core/sha1.h"

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

/* Where in the text each byte's two digits stand. */
static const unsigned char place[16] = {0, 2, 4, 6, 9, 11, 14, 16, 19, 21, 24, 26, 28, 30, 32, 34};

int uuid_parse(struct str s, struct uuid *out)
{
    if (s.len != UUID_TEXT || s.ptr[8] != '-' || s.ptr[13] != '-' || s.ptr[18] != '-' ||
        s.ptr[23] != '-')
        return ERR_INVALID;
    struct uuid u;
    for (int i = 0; i < 16; i++) {
        int high = hex_value(s.ptr[place[i]]), low = hex_value(s.ptr[place[i] + 1]);
        if (high < 0 || low < 0)
            return ERR_INVALID;
        u.b[i] = (uint8_t)(high << 4 | low);
    }
    *out = u;
    return 0;
}

void uuid_format(const struct uuid *u, char dst[UUID_TEXT])
{
    static const char digits[] = "0123456789abcdef";
    for (int i = 0; i < 16; i++) {
        dst[place[i]] = digits[u->b[i] >> 4];
        dst[place[i] + 1] = digits[u->b[i] & 15];
    }
    dst[8] = dst[13] = dst[18] = dst[23] = '-';
}

void uuid_add(struct strbuf *b, const struct uuid *u)
{
    char *at = strbuf_reserve(b, UUID_TEXT);
    if (!at)
        return;
    uuid_format(u, at);
    strbuf_commit(b, UUID_TEXT);
}

struct uuid_text uuid_text(const struct uuid *u)
{
    struct uuid_text t;
    uuid_format(u, t.z);
    t.z[UUID_TEXT] = 0;
    return t;
}

static void set_version(struct uuid *u, int version)
{
    u->b[6] = (uint8_t)((u->b[6] & 0x0f) | version << 4);
    u->b[8] = (uint8_t)((u->b[8] & 0x3f) | 0x80);
}

struct uuid uuid_v7(int64_t wall_ms, struct rng *rng)
{
    struct uuid u;
    for (int i = 0; i < 6; i++)
        u.b[i] = (uint8_t)((uint64_t)wall_ms >> (40 - 8 * i));
    rng_fill(rng, u.b + 6, 10);
    set_version(&u, 7);
    return u;
}

struct uuid uuid_v5(struct str name)
{
    /* Made once at random; it only has to stay what it is. */
    static const unsigned char space[16] = {0x5b, 0x1d, 0x7e, 0x42, 0x93, 0xc6, 0x4f, 0x0a,
                                            0xb8, 0x2f, 0x61, 0xd4, 0x0c, 0xa7, 0x35, 0xe9};
    struct sha1 sha;
    unsigned char digest[SHA1_BYTES];
    sha1_init(&sha);
    sha1_add(&sha, space, sizeof space);
    sha1_add(&sha, name.ptr, name.len);
    sha1_end(&sha, digest);
    struct uuid u;
    memcpy(u.b, digest, sizeof u.b);
    set_version(&u, 5);
    return u;
}

bool uuid_eq(const struct uuid *a, const struct uuid *b)
{
    return memcmp(a->b, b->b, sizeof a->b) == 0;
}

bool uuid_is_nil(const struct uuid *u)
{
    static const struct uuid nil;
    return uuid_eq(u, &nil);
}

int64_t uuid_v7_ms(const struct uuid *u)
{
    if (u->b[6] >> 4 != 7 || u->b[8] >> 6 != 2)
        return -1;
    int64_t ms = 0;
    for (int i = 0; i < 6; i++)
        ms = ms << 8 | u->b[i];
    return ms;
}
