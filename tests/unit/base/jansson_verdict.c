#include "jansson_verdict.h"

#include <jansson.h>

bool jansson_accepts(const char *text, size_t n)
{
    json_error_t err;
    json_t *v =
        json_loadb(text, n, JSON_DECODE_ANY | JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, &err);
    json_decref(v);
    return v != NULL;
}
