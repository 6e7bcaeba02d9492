/* Borrowed text (str) and a bounded buffer to build text in (strbuf). Neither is zero-terminated by
 * contract. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* A view into somebody else's bytes; valid as long as they are. {NULL, 0} is "absent"; {"", 0} is
 * empty. */
struct str {
    const char *ptr;
    size_t len;
};

#define STR(literal) ((struct str){"" literal, sizeof(literal) - 1})
#define STR_FMT "%.*s"
#define STR_ARG(s) (int)(s).len, (s).ptr

static inline struct str str_of(const char *z)
{
    return (struct str){z, z ? strlen(z) : 0};
}
static inline bool str_eq(struct str a, struct str b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0);
}
/* ASCII only, as HTTP names are. */
bool str_eq_nocase(struct str a, struct str b);
bool str_starts(struct str s, struct str prefix);
/* Splits at the first `sep`: *head gets what stands before it, the rest (without sep) is returned;
 * without a sep *head is all of s and {NULL, 0} is returned. */
struct str str_split(struct str s, char sep, struct str *head);
/* Copies at most cap - 1 bytes and a zero. False if it did not fit (then the copy is cut). */
bool str_copy(char *dst, size_t cap, struct str s);
/* A copy in room, not terminated; "" if it does not fit into cap bytes. */
struct str str_keep(char *room, size_t cap, struct str s);

/* A buffer over memory of the caller's, or growing on the heap up to `max`. After the first append
 * that does not fit, `failed` stays true and nothing more is appended: check it once at the end. */
struct strbuf {
    char *ptr;
    size_t len, cap, max; /* max > cap: may grow; the heap is used from the first growth on */
    bool heap, failed;
};

void strbuf_init_fixed(struct strbuf *b, char *mem, size_t cap);
void strbuf_init(struct strbuf *b, size_t max); /* starts empty, on the heap */
void strbuf_deinit(struct strbuf *b);
void strbuf_clear(struct strbuf *b); /* keeps the memory, resets failed */
/* Room for n more bytes, to be written at the returned place and then counted with strbuf_commit;
 * NULL if there is none (and failed is set). */
char *strbuf_reserve(struct strbuf *b, size_t n);
static inline void strbuf_commit(struct strbuf *b, size_t n)
{
    b->len += n;
}
void strbuf_add(struct strbuf *b, const void *bytes, size_t n);
void strbuf_add_str(struct strbuf *b, struct str s);
void strbuf_add_char(struct strbuf *b, char c);
void strbuf_add_i64(struct strbuf *b, int64_t v);
void strbuf_add_u64(struct strbuf *b, uint64_t v);
void strbuf_printf(struct strbuf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static inline struct str strbuf_str(const struct strbuf *b)
{
    return (struct str){b->ptr, b->len};
}

/* Decimal digits of v at dst (at least 20 bytes), not terminated; the length is returned. */
size_t str_from_u64(char *dst, uint64_t v);
size_t str_from_i64(char *dst, int64_t v);
