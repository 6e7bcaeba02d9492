#include "adapter/pg/pg_args.h"

#include "base/err.h"
#include "base/panic.h"
#include <endian.h>

/* From PostgreSQL's catalogue; they never change. */
enum {
    OID_BOOL = 16,
    OID_BYTEA = 17,
    OID_INT8 = 20,
    OID_INT4 = 23,
    OID_TEXT = 25,
    OID_BYTEA_ARRAY = 1001,
    OID_INT4_ARRAY = 1007,
    OID_TEXT_ARRAY = 1009,
    OID_INT8_ARRAY = 1016,
    OID_VARCHAR = 1043,
    OID_UUID = 2950,
    OID_UUID_ARRAY = 2951,
};

void pg_args_init(struct pg_args *a, struct strbuf *buf)
{
    strbuf_clear(buf);
    a->buf = buf;
    a->n = 0;
}

static void begin(struct pg_args *a, Oid type)
{
    if (a->n == PG_ARGS_MAX)
        panic("pg_args: more than %d parameters", PG_ARGS_MAX);
    a->types[a->n] = type;
    a->offsets[a->n] = a->buf->len;
    a->formats[a->n] = 1;
    a->lengths[a->n] = -1;
}

static void end(struct pg_args *a)
{
    a->lengths[a->n] = (int)(a->buf->len - a->offsets[a->n]);
    a->n++;
}

static char *put32(char *p, uint32_t v)
{
    v = htobe32(v);
    memcpy(p, &v, 4);
    return p + 4;
}

static char *put64(char *p, uint64_t v)
{
    v = htobe64(v);
    memcpy(p, &v, 8);
    return p + 8;
}

void pg_add_i32(struct pg_args *a, int32_t v)
{
    char b[4];
    begin(a, OID_INT4);
    put32(b, (uint32_t)v);
    strbuf_add(a->buf, b, sizeof b);
    end(a);
}

void pg_add_i64(struct pg_args *a, int64_t v)
{
    char b[8];
    begin(a, OID_INT8);
    put64(b, (uint64_t)v);
    strbuf_add(a->buf, b, sizeof b);
    end(a);
}

void pg_add_bool(struct pg_args *a, bool v)
{
    begin(a, OID_BOOL);
    strbuf_add_char(a->buf, v ? 1 : 0);
    end(a);
}

void pg_add_text(struct pg_args *a, struct str s)
{
    begin(a, OID_TEXT);
    strbuf_add(a->buf, s.ptr, s.len);
    end(a);
}

void pg_add_uuid(struct pg_args *a, const struct uuid *u)
{
    begin(a, OID_UUID);
    if (u) {
        strbuf_add(a->buf, u->b, sizeof u->b);
        end(a);
    } else {
        a->n++;
    }
}

/* The head of a one-dimensional array; its elements follow, each behind its length. NULL without
 * memory. */
static char *array_head(struct pg_args *a, Oid element, size_t elements_size, int n)
{
    size_t size = n > 0 ? 20 + (size_t)n * 4 + elements_size : 12;
    char *p = strbuf_reserve(a->buf, size);
    if (!p)
        return NULL;
    strbuf_commit(a->buf, size);
    p = put32(p, n > 0 ? 1 : 0); /* dimensions */
    p = put32(p, 0);             /* no NULLs */
    p = put32(p, element);
    if (n > 0) {
        p = put32(p, (uint32_t)n);
        p = put32(p, 1); /* lower bound */
    }
    return p;
}

void pg_add_i64s(struct pg_args *a, const int64_t *first, size_t stride, int n)
{
    begin(a, OID_INT8_ARRAY);
    char *p = array_head(a, OID_INT8, (size_t)n * 8, n);
    const char *at = (const char *)first;
    for (int i = 0; p && i < n; i++, at += stride) {
        int64_t v;
        memcpy(&v, at, sizeof v);
        p = put32(p, 8);
        p = put64(p, (uint64_t)v);
    }
    end(a);
}

void pg_add_i32s(struct pg_args *a, const int32_t *first, size_t stride, int n)
{
    begin(a, OID_INT4_ARRAY);
    char *p = array_head(a, OID_INT4, (size_t)n * 4, n);
    const char *at = (const char *)first;
    for (int i = 0; p && i < n; i++, at += stride) {
        int32_t v;
        memcpy(&v, at, sizeof v);
        p = put32(p, 4);
        p = put32(p, (uint32_t)v);
    }
    end(a);
}

static struct str nth(const struct str *first, size_t stride, int i, size_t max)
{
    struct str s;
    memcpy(&s, (const char *)first + (size_t)i * stride, sizeof s);
    s.len = s.len < max ? s.len : max;
    return s;
}

static void add_strs(struct pg_args *a, Oid element, const struct str *first, size_t stride, int n,
                     size_t max, bool printable)
{
    size_t size = 0;
    for (int i = 0; i < n; i++)
        size += nth(first, stride, i, max).len;
    char *p = array_head(a, element, size, n);
    for (int i = 0; p && i < n; i++) {
        struct str s = nth(first, stride, i, max);
        p = put32(p, (uint32_t)s.len);
        for (size_t at = 0; at < s.len; at++)
            *p++ = !printable || (s.ptr[at] >= 0x20 && s.ptr[at] < 0x7f) ? s.ptr[at] : '?';
    }
    end(a);
}

void pg_add_byteas(struct pg_args *a, const struct str *first, size_t stride, int n)
{
    begin(a, OID_BYTEA_ARRAY);
    add_strs(a, OID_BYTEA, first, stride, n, SIZE_MAX, false);
}

void pg_add_texts(struct pg_args *a, const struct str *first, size_t stride, int n)
{
    begin(a, OID_TEXT_ARRAY);
    add_strs(a, OID_TEXT, first, stride, n, PG_TEXT_MAX, true);
}

void pg_add_uuids(struct pg_args *a, const struct uuid *first, size_t stride, int n)
{
    begin(a, OID_UUID_ARRAY);
    char *p = array_head(a, OID_UUID, (size_t)n * 16, n);
    const char *at = (const char *)first;
    for (int i = 0; p && i < n; i++, at += stride) {
        p = put32(p, 16);
        memcpy(p, at, 16);
        p += 16;
    }
    end(a);
}

int pg_args_finish(struct pg_args *a)
{
    if (a->buf->failed)
        return ERR_OVERLOAD;
    for (int i = 0; i < a->n; i++)
        a->values[i] = a->lengths[i] < 0 ? NULL : a->lengths[i] ? a->buf->ptr + a->offsets[i] : "";
    return 0;
}

static bool is_kind(Oid type, char kind)
{
    switch (kind) {
    case 'i':
        return type == OID_INT4;
    case 'q':
        return type == OID_INT8;
    case 't':
        return type == OID_TEXT || type == OID_VARCHAR;
    case 'b':
        return type == OID_BOOL;
    case 'u':
        return type == OID_UUID;
    case 'y':
        return type == OID_BYTEA;
    case 'Q':
        return type == OID_INT8_ARRAY;
    default:
        panic("pg_args: no kind %c", kind);
    }
}

bool pg_has_columns(const PGresult *r, const char *kinds)
{
    int n = PQnfields(r);
    if (n != (int)strlen(kinds))
        return false;
    for (int i = 0; i < n; i++) {
        if (PQfformat(r, i) != 1 || !is_kind(PQftype(r, i), kinds[i]))
            return false;
    }
    return true;
}

int32_t pg_i32(const PGresult *r, int row, int col)
{
    uint32_t v = 0;
    if (PQgetlength(r, row, col) == 4)
        memcpy(&v, PQgetvalue(r, row, col), 4);
    return (int32_t)be32toh(v);
}

static int64_t read64(const char *p)
{
    uint64_t v;
    memcpy(&v, p, 8);
    return (int64_t)be64toh(v);
}

int64_t pg_i64(const PGresult *r, int row, int col)
{
    return PQgetlength(r, row, col) == 8 ? read64(PQgetvalue(r, row, col)) : 0;
}

bool pg_bool(const PGresult *r, int row, int col)
{
    return PQgetlength(r, row, col) == 1 && PQgetvalue(r, row, col)[0];
}

struct uuid pg_uuid(const PGresult *r, int row, int col)
{
    struct uuid u = {{0}};
    if (PQgetlength(r, row, col) == 16)
        memcpy(u.b, PQgetvalue(r, row, col), 16);
    return u;
}

struct str pg_str(const PGresult *r, int row, int col)
{
    if (PQgetisnull(r, row, col))
        return (struct str){NULL, 0};
    return (struct str){PQgetvalue(r, row, col), (size_t)PQgetlength(r, row, col)};
}

int pg_i64_array(const PGresult *r, int row, int col, int first, int64_t *out, int max)
{
    const char *p = PQgetvalue(r, row, col);
    int left = PQgetlength(r, row, col), n = 0;
    p += 20 + 12 * first;
    left -= 20 + 12 * first;
    for (; left >= 12 && n < max; p += 12, left -= 12)
        out[n++] = read64(p + 4);
    return n;
}
