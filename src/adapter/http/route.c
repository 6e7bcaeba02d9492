#include "adapter/http/route.h"

#include "base/panic.h"

/* A segment that names nothing by itself: percent escapes are not decoded here, so that they can
 * hide nothing; dots would be resolved by whatever stands in front of us. */
static bool plain_segment(struct str s)
{
    if (s.len == 0 || (s.ptr[0] == '.' && (s.len == 1 || (s.len == 2 && s.ptr[1] == '.'))))
        return false;
    return !memchr(s.ptr, '%', s.len);
}

static bool match(const char *pattern, struct str path, struct str params[HTTP_MAX_PARAMS])
{
    const char *p = pattern, *at = path.ptr, *end = path.ptr + path.len;
    int n = 0;
    while (*p) {
        if (*p != '{') {
            if (at == end || *at != *p)
                return false;
            at++, p++;
            continue;
        }
        const char *slash = memchr(at, '/', (size_t)(end - at));
        params[n] = (struct str){at, (size_t)((slash ? slash : end) - at)};
        if (!plain_segment(params[n++]))
            return false;
        at = slash ? slash : end;
        p += 2;
    }
    return at == end;
}

static bool serves(const struct http_route *r, enum http_method m)
{
    return r->method[0] == 'G' ? m == HTTP_METHOD_GET || m == HTTP_METHOD_HEAD
                               : m == HTTP_METHOD_POST;
}

struct http_match http_route_find(const struct http_service *s, enum http_method method,
                                  struct str path, struct str params[HTTP_MAX_PARAMS])
{
    bool get = false, post = false;
    for (int i = 0; i < s->n_routes; i++) {
        const struct http_route *r = &s->routes[i];
        if (!match(r->pattern, path, params))
            continue;
        if (serves(r, method))
            return (struct http_match){r, NULL};
        get |= r->method[0] == 'G';
        post |= r->method[0] == 'P';
    }
    const char *allow = get && post ? "GET, HEAD, POST" : get ? "GET, HEAD" : post ? "POST" : NULL;
    return (struct http_match){NULL, allow};
}

void http_routes_check(const struct http_service *s)
{
    for (int i = 0; i < s->n_routes; i++) {
        const struct http_route *r = &s->routes[i];
        int params = 0;
        for (const char *p = r->pattern; *p; p++)
            params += *p == '{';
        bool method = strcmp(r->method, "GET") == 0 || strcmp(r->method, "POST") == 0;
        if (!method || r->pattern[0] != '/' || params > HTTP_MAX_PARAMS || !r->on_request ||
            !r->name)
            panic("http: route %s %s cannot be served", r->method, r->pattern);
    }
}
