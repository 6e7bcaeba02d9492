/* Parameters and results of a statement, both in libpq's binary format: no text is made of numbers
 * and ids, and none is parsed. Parameters live in one buffer of the connection that is used again
 * and again. One thread. */
#pragma once

#include "base/str.h"
#include "core/uuid.h"
#include <libpq-fe.h>

#define PG_ARGS_MAX 12

struct pg_args {
    struct strbuf *buf; /* borrowed; cleared by init */
    int n;
    Oid types[PG_ARGS_MAX];
    size_t offsets[PG_ARGS_MAX];
    int lengths[PG_ARGS_MAX], formats[PG_ARGS_MAX];
    const char *values[PG_ARGS_MAX]; /* set by finish, since the buffer moves while it grows */
};

void pg_args_init(struct pg_args *a, struct strbuf *buf);
void pg_add_i32(struct pg_args *a, int32_t v);
void pg_add_i64(struct pg_args *a, int64_t v);
void pg_add_bool(struct pg_args *a, bool v);
void pg_add_text(struct pg_args *a, struct str s);
void pg_add_uuid(struct pg_args *a, const struct uuid *u); /* NULL: SQL's NULL */
/* A column of an array of structs: the address of the first one's member, and the size of the
 * struct. */
void pg_add_i64s(struct pg_args *a, const int64_t *first, size_t stride, int n);
void pg_add_i32s(struct pg_args *a, const int32_t *first, size_t stride, int n);
void pg_add_uuids(struct pg_args *a, const struct uuid *first, size_t stride, int n);
void pg_add_byteas(struct pg_args *a, const struct str *first, size_t stride, int n);
/* Texts for people, from anywhere: PostgreSQL takes neither zero bytes nor broken UTF-8, and a dead
 * letter must not fail for its explanation. What is not printable becomes '?'; cut at
 * PG_TEXT_MAX. */
#define PG_TEXT_MAX 1024
void pg_add_texts(struct pg_args *a, const struct str *first, size_t stride, int n);
/* 0; ERR_OVERLOAD when they did not fit the buffer. */
int pg_args_finish(struct pg_args *a);

/* Whether the columns are of these types: i int4, q int8, t text or varchar, b bool, u uuid, y
 * bytea, Q int8[]. An answer of another shape is ERR_INTERNAL of whoever asked. */
bool pg_has_columns(const PGresult *r, const char *kinds);
/* NULL is 0, false, the nil UUID, {NULL, 0}. Only after pg_has_columns. */
int32_t pg_i32(const PGresult *r, int row, int col);
int64_t pg_i64(const PGresult *r, int row, int col);
bool pg_bool(const PGresult *r, int row, int col);
struct uuid pg_uuid(const PGresult *r, int row, int col);
struct str pg_str(const PGresult *r, int row, int col); /* borrowed from the result */
/* An int8[]'s elements from the first-th on; at most max, how many is returned. */
int pg_i64_array(const PGresult *r, int row, int col, int first, int64_t *out, int max);
