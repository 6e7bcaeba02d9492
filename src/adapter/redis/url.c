#include "adapter/redis/url.h"

#include "base/err.h"
#include "base/parse.h"

static int hex(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static int decode(char *dst, size_t cap, struct str s)
{
    size_t n = 0;
    for (size_t i = 0; i < s.len; i++) {
        char c = s.ptr[i];
        if (c == '%') {
            if (i + 2 >= s.len || hex(s.ptr[i + 1]) < 0 || hex(s.ptr[i + 2]) < 0)
                return ERR_INVALID;
            c = (char)(hex(s.ptr[i + 1]) << 4 | hex(s.ptr[i + 2]));
            i += 2;
        }
        if (!c || n + 1 >= cap)
            return ERR_INVALID;
        dst[n++] = c;
    }
    dst[n] = 0;
    return 0;
}

static int parse_login(struct str login, struct redis_url *out)
{
    struct str user, password = str_split(login, ':', &user);
    if (!password.ptr)
        return ERR_INVALID;
    if (decode(out->user, sizeof out->user, user))
        return ERR_INVALID;
    return decode(out->password, sizeof out->password, password);
}

static int parse_address(struct str s, int default_port, struct redis_address *out)
{
    struct str host = s, port = {0};
    if (s.len && s.ptr[0] == '[') { /* an IPv6 address */
        struct str after = str_split((struct str){s.ptr + 1, s.len - 1}, ']', &host);
        if (!after.ptr)
            return ERR_INVALID;
        if (after.len) {
            if (after.ptr[0] != ':')
                return ERR_INVALID;
            port = (struct str){after.ptr + 1, after.len - 1};
        }
    } else {
        port = str_split(s, ':', &host);
    }
    int64_t n = default_port;
    if (port.ptr && parse_i64(port, 1, 65535, &n))
        return ERR_INVALID;
    out->port = (int)n;
    return host.len && str_copy(out->host, sizeof out->host, host) ? 0 : ERR_INVALID;
}

static int parse_addresses(struct str s, struct redis_url *out)
{
    int most = out->topology == REDIS_ALONE ? 1 : REDIS_ADDRESSES_MAX;
    int port = out->topology == REDIS_SENTINEL ? 26379 : 6379;
    do {
        struct str one, rest = str_split(s, ',', &one);
        if (out->n == most || parse_address(one, port, &out->at[out->n++]))
            return ERR_INVALID;
        s = rest;
    } while (s.ptr);
    return 0;
}

static int parse_path(struct str s, struct redis_url *out)
{
    if (out->topology == REDIS_SENTINEL) {
        struct str master;
        s = str_split(s, '/', &master);
        if (!master.len || !str_copy(out->master, sizeof out->master, master))
            return ERR_INVALID;
    }
    int64_t n = 0;
    if (s.len && parse_i64(s, 0, out->topology == REDIS_CLUSTER ? 0 : 65535, &n))
        return ERR_INVALID;
    out->db = (int)n;
    return 0;
}

static bool take_scheme(struct str *s, struct redis_url *out)
{
    static const char *const schemes[] = {[REDIS_ALONE] = "redis://",
                                          [REDIS_SENTINEL] = "redis+sentinel://",
                                          [REDIS_CLUSTER] = "redis+cluster://"};
    for (int i = REDIS_ALONE; i <= REDIS_CLUSTER; i++) {
        struct str scheme = str_of(schemes[i]);
        if (!str_starts(*s, scheme))
            continue;
        out->topology = (enum redis_topology)i;
        *s = (struct str){s->ptr + scheme.len, s->len - scheme.len};
        return true;
    }
    return false;
}

int redis_url_parse(const char *text, struct redis_url *out)
{
    *out = (struct redis_url){0};
    struct str s = str_of(text);
    if (str_starts(s, STR("unix://"))) {
        struct str path = {s.ptr + 7, s.len - 7};
        return path.len && path.ptr[0] == '/' && str_copy(out->path, sizeof out->path, path)
                   ? 0
                   : ERR_INVALID;
    }
    if (!take_scheme(&s, out))
        return ERR_INVALID;
    struct str where, path = str_split(s, '/', &where);
    if (parse_path(path, out))
        return ERR_INVALID;
    /* A password may hold an '@' as it is: the last one ends it. */
    const char *at = where.len ? memrchr(where.ptr, '@', where.len) : NULL;
    if (at) {
        struct str login = {where.ptr, (size_t)(at - where.ptr)};
        if (parse_login(login, out))
            return ERR_INVALID;
        where = (struct str){at + 1, where.len - login.len - 1};
    }
    return parse_addresses(where, out);
}

int redis_address_parse(struct str s, struct redis_address *out)
{
    const char *colon = s.len ? memrchr(s.ptr, ':', s.len) : NULL;
    if (!colon)
        return ERR_INVALID;
    struct str host = {s.ptr, (size_t)(colon - s.ptr)};
    struct str port = {colon + 1, s.len - host.len - 1};
    int64_t n;
    if (parse_i64(port, 1, 65535, &n) || !str_copy(out->host, sizeof out->host, host))
        return ERR_INVALID;
    out->port = (int)n;
    return 0;
}

bool redis_address_eq(const struct redis_address *a, const struct redis_address *b)
{
    return a->port == b->port && strcmp(a->host, b->host) == 0;
}
