#include "base/str.h"

#include "base/panic.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static unsigned char lower(char c)
{
    unsigned char u = (unsigned char)c;
    return u >= 'A' && u <= 'Z' ? u | 0x20 : u;
}

bool str_eq_nocase(struct str a, struct str b)
{
    if (a.len != b.len)
        return false;
    for (size_t i = 0; i < a.len; i++) {
        if (lower(a.ptr[i]) != lower(b.ptr[i]))
            return false;
    }
    return true;
}

bool str_starts(struct str s, struct str prefix)
{
    return s.len >= prefix.len && str_eq((struct str){s.ptr, prefix.len}, prefix);
}

struct str str_split(struct str s, char sep, struct str *head)
{
    const char *at = s.len ? memchr(s.ptr, sep, s.len) : NULL;
    if (!at) {
        *head = s;
        return (struct str){NULL, 0};
    }
    size_t n = (size_t)(at - s.ptr);
    *head = (struct str){s.ptr, n};
    return (struct str){at + 1, s.len - n - 1};
}

bool str_copy(char *dst, size_t cap, struct str s)
{
    if (cap == 0)
        return false;
    size_t n = s.len < cap ? s.len : cap - 1;
    if (n)
        memcpy(dst, s.ptr, n);
    dst[n] = 0;
    return n == s.len;
}

struct str str_keep(char *room, size_t cap, struct str s)
{
    if (s.len == 0 || s.len > cap)
        return STR("");
    memcpy(room, s.ptr, s.len);
    return (struct str){room, s.len};
}

void strbuf_init_fixed(struct strbuf *b, char *mem, size_t cap)
{
    *b = (struct strbuf){.ptr = mem, .cap = cap, .max = cap};
}

void strbuf_init(struct strbuf *b, size_t max)
{
    *b = (struct strbuf){.max = max};
}

void strbuf_deinit(struct strbuf *b)
{
    if (b->heap)
        free(b->ptr);
    *b = (struct strbuf){0};
}

void strbuf_clear(struct strbuf *b)
{
    b->len = 0;
    b->failed = false;
}

/* Doubles, so that building a text byte by byte stays linear. */
static bool grow(struct strbuf *b, size_t need)
{
    if (need > b->max)
        return false;
    size_t cap = b->cap < 64 ? 64 : b->cap;
    while (cap < need)
        cap = cap > b->max / 2 ? b->max : cap * 2;
    if (cap > b->max)
        cap = b->max;
    char *mem = realloc(b->heap ? b->ptr : NULL, cap);
    if (!mem)
        return false;
    if (!b->heap && b->len)
        memcpy(mem, b->ptr, b->len);
    b->ptr = mem;
    b->cap = cap;
    b->heap = true;
    return true;
}

char *strbuf_reserve(struct strbuf *b, size_t n)
{
    if (b->failed)
        return NULL;
    if (n > b->cap - b->len || !b->ptr) {
        if (n > SIZE_MAX - b->len || b->max == 0 || !grow(b, b->len + n)) {
            b->failed = true;
            return NULL;
        }
    }
    return b->ptr + b->len;
}

void strbuf_add(struct strbuf *b, const void *bytes, size_t n)
{
    if (n == 0)
        return;
    char *at = strbuf_reserve(b, n);
    if (at) {
        memcpy(at, bytes, n);
        b->len += n;
    }
}

void strbuf_add_str(struct strbuf *b, struct str s)
{
    strbuf_add(b, s.ptr, s.len);
}

void strbuf_add_char(struct strbuf *b, char c)
{
    strbuf_add(b, &c, 1);
}

void strbuf_add_i64(struct strbuf *b, int64_t v)
{
    char digits[20];
    strbuf_add(b, digits, str_from_i64(digits, v));
}

void strbuf_add_u64(struct strbuf *b, uint64_t v)
{
    char digits[20];
    strbuf_add(b, digits, str_from_u64(digits, v));
}

void strbuf_printf(struct strbuf *b, const char *fmt, ...)
{
    /* Not straight into the buffer: printf needs a byte for its zero, which an exactly filled
     * buffer has not. */
    char local[512];
    va_list args, again;
    va_start(args, fmt);
    va_copy(again, args);
    int n = vsnprintf(local, sizeof local, fmt, args);
    if (n < 0)
        panic("strbuf_printf: bad format \"%s\"", fmt);
    if ((size_t)n < sizeof local) {
        strbuf_add(b, local, (size_t)n);
    } else {
        char *text = NULL;
        if (!b->failed && vasprintf(&text, fmt, again) >= 0) {
            strbuf_add(b, text, (size_t)n);
            free(text);
        } else {
            b->failed = true;
        }
    }
    va_end(again);
    va_end(args);
}

size_t str_from_u64(char *dst, uint64_t v)
{
    char digits[20];
    size_t at = sizeof digits;
    do {
        digits[--at] = (char)('0' + v % 10);
        v /= 10;
    } while (v);
    memcpy(dst, digits + at, sizeof digits - at);
    return sizeof digits - at;
}

size_t str_from_i64(char *dst, int64_t v)
{
    if (v >= 0)
        return str_from_u64(dst, (uint64_t)v);
    dst[0] = '-';
    return 1 + str_from_u64(dst + 1, UINT64_C(0) - (uint64_t)v);
}
