#include "adapter/h2grpc/target.h"

#include "base/parse.h"
#include <arpa/inet.h>

/* Splits at the last colon; the port is optional where `port` is NULL. */
static bool split(struct str s, char *host, size_t cap, int *port)
{
    struct str h = s;
    size_t end = s.len;
    bool brackets = s.len > 0 && s.ptr[0] == '[';
    if (brackets) {
        const char *close = memchr(s.ptr, ']', s.len);
        if (!close)
            return false;
        h = (struct str){s.ptr + 1, (size_t)(close - s.ptr) - 1};
        end = (size_t)(close - s.ptr) + 1;
    } else {
        const char *colon = memchr(s.ptr, ':', s.len);
        end = colon ? (size_t)(colon - s.ptr) : s.len;
        h.len = end;
    }
    if (h.len == 0 || !str_copy(host, cap, h))
        return false;
    if (end == s.len)
        return port == NULL;
    int64_t v;
    if (s.ptr[end] != ':' ||
        parse_i64((struct str){s.ptr + end + 1, s.len - end - 1}, 1, 65535, &v))
        return false;
    if (port)
        *port = (int)v;
    return true;
}

static bool plain(struct str s)
{
    for (size_t i = 0; i < s.len; i++) {
        if (s.ptr[i] <= ' ' || s.ptr[i] > '~' || s.ptr[i] == '/' || s.ptr[i] == '@')
            return false;
    }
    return true;
}

bool h2_target_parse(struct h2_target *t, const char *target, const char *authority)
{
    *t = (struct h2_target){0};
    struct str name = str_of(authority && *authority ? authority : target);
    if (!target || !plain(str_of(target)) || !plain(name) ||
        !split(str_of(target), t->host, sizeof t->host, &t->port) ||
        !str_copy(t->authority, sizeof t->authority, name) ||
        !split(name, t->server_name, sizeof t->server_name, NULL))
        return false;
    unsigned char address[16];
    t->server_is_address = inet_pton(AF_INET, t->server_name, address) == 1 ||
                           inet_pton(AF_INET6, t->server_name, address) == 1;
    return true;
}
