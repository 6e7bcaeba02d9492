/* Which route a path belongs to. */
#pragma once

#include "adapter/http/request.h"
#include "adapter/http/server.h"

struct http_match {
    const struct http_route *route; /* NULL: none */
    const char *allow; /* not NULL: the path exists, for these methods only ("GET, HEAD") */
};

/* Aborts on a route that cannot be served (method, pattern): a programmer's error. */
void http_routes_check(const struct http_service *s);
struct http_match http_route_find(const struct http_service *s, enum http_method method,
                                  struct str path, struct str params[HTTP_MAX_PARAMS]);
