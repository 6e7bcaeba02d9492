/* What is to be written on a connection: one block, from a free list while it is of the usual size.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    HTTP_OUT_BLOCK = 16384,
    HTTP_OUT_HIGH =
        65536, /* more than this unwritten: no further request of the connection is begun */
    HTTP_OUT_MAX = 8 * 1024 * 1024, /* the largest answer */
    HTTP_POOL_KEEP = 256,           /* free blocks kept; the rest goes back to the heap */
};

struct http_out {
    struct http_out *next;
    uint32_t cap, len, sent;
    char bytes[];
};

struct http_out_pool {
    struct http_out *free;
    int n;
};

/* Room for n more bytes behind *out (which is taken if NULL, moved if it is too small). NULL
 * without memory or beyond HTTP_OUT_MAX. To be counted in (*out)->len by the caller. */
char *http_out_reserve(struct http_out_pool *p, struct http_out **out, size_t n);
void http_out_release(struct http_out_pool *p, struct http_out **out); /* harmless for NULL */
void http_out_pool_deinit(struct http_out_pool *p);
