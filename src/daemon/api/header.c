#include "daemon/api/header.h"

bool header_is_json(struct str type)
{
    struct str media, rest = str_split(type, ';', &media);
    while (media.len && media.ptr[media.len - 1] == ' ')
        media.len--;
    if (!str_eq_nocase(media, STR("application/json")))
        return false;
    if (!rest.ptr)
        return true;
    while (rest.len && rest.ptr[0] == ' ')
        rest = (struct str){rest.ptr + 1, rest.len - 1};
    return str_eq_nocase(rest, STR("charset=utf-8")) ||
           str_eq_nocase(rest, STR("charset=\"utf-8\""));
}

static bool is_hex(struct str s)
{
    for (size_t i = 0; i < s.len; i++) {
        if (!((s.ptr[i] >= '0' && s.ptr[i] <= '9') || (s.ptr[i] >= 'a' && s.ptr[i] <= 'f')))
            return false;
    }
    return true;
}

static struct str part(struct str s, size_t at, size_t n)
{
    return (struct str){s.ptr + at, n};
}

bool header_is_traceparent(struct str t)
{
    return t.len == 55 && str_eq(part(t, 0, 3), STR("00-")) && is_hex(part(t, 3, 32)) &&
           t.ptr[35] == '-' && is_hex(part(t, 36, 16)) && t.ptr[52] == '-' &&
           is_hex(part(t, 53, 2)) &&
           !str_eq(part(t, 3, 32), STR("00000000000000000000000000000000")) &&
           !str_eq(part(t, 36, 16), STR("0000000000000000"));
}
