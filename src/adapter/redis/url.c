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

static int parse_address(struct str s, struct redis_url *out)
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
    int64_t n = 6379;
    if (port.ptr && parse_i64(port, 1, 65535, &n))
        return ERR_INVALID;
    out->port = (int)n;
    return host.len && str_copy(out->host, sizeof out->host, host) ? 0 : ERR_INVALID;
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
    if (!str_starts(s, STR("redis://")))
        return ERR_INVALID;
    struct str where, db = str_split((struct str){s.ptr + 8, s.len - 8}, '/', &where);
    if (db.ptr && db.len) {
        int64_t n;
        if (parse_i64(db, 0, 65535, &n))
            return ERR_INVALID;
        out->db = (int)n;
    }
    /* A password may hold an '@' as it is: the last one ends it. */
    const char *at = where.len ? memrchr(where.ptr, '@', where.len) : NULL;
    if (at) {
        struct str login = {where.ptr, (size_t)(at - where.ptr)};
        if (parse_login(login, out))
            return ERR_INVALID;
        where = (struct str){at + 1, where.len - login.len - 1};
    }
    return parse_address(where, out);
}
