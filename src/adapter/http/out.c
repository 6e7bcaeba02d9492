#include "adapter/http/out.h"

#include <stdlib.h>
#include <string.h>

static struct http_out *take(struct http_out_pool *p, size_t cap)
{
    struct http_out *o = p->free;
    if (cap <= HTTP_OUT_BLOCK && o) {
        p->free = o->next;
        p->n--;
    } else {
        cap = cap < HTTP_OUT_BLOCK ? HTTP_OUT_BLOCK : cap;
        o = malloc(sizeof *o + cap);
        if (!o)
            return NULL;
        o->cap = (uint32_t)cap;
    }
    o->next = NULL;
    o->len = o->sent = 0;
    return o;
}

char *http_out_reserve(struct http_out_pool *p, struct http_out **out, size_t n)
{
    struct http_out *o = *out;
    if (o && o->cap - o->len >= n)
        return o->bytes + o->len;
    size_t unsent = o ? o->len - o->sent : 0;
    if (n > HTTP_OUT_MAX || unsent + n > HTTP_OUT_MAX)
        return NULL;
    struct http_out *bigger = take(p, unsent ? (unsent + n) * 2 : n);
    if (!bigger)
        return NULL;
    if (unsent)
        memcpy(bigger->bytes, o->bytes + o->sent, unsent);
    bigger->len = (uint32_t)unsent;
    http_out_release(p, out);
    *out = bigger;
    return bigger->bytes + bigger->len;
}

void http_out_release(struct http_out_pool *p, struct http_out **out)
{
    struct http_out *o = *out;
    *out = NULL;
    if (!o)
        return;
    if (o->cap != HTTP_OUT_BLOCK || p->n >= HTTP_POOL_KEEP) {
        free(o);
        return;
    }
    o->next = p->free;
    p->free = o;
    p->n++;
}

void http_out_pool_deinit(struct http_out_pool *p)
{
    for (struct http_out *o = p->free, *next; o; o = next) {
        next = o->next;
        free(o);
    }
    *p = (struct http_out_pool){0};
}
