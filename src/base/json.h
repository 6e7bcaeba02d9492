/* JSON, strictly RFC 8259: a pull reader that allocates nothing, and a writer into a strbuf.
 *
 * Why our own: it stands on the hot path (order body, order event), see docs/decisions. The reader
 * refuses all of JSONTestSuite's n_ cases and takes all its y_ cases. Duplicate keys are the
 * caller's to refuse: it knows its keys, and a bit for each one seen is all it takes.
 * jansson.h names some of the same constants: no file can include both. */
#pragma once

#include "base/str.h"

enum json_type {
    JSON_ERROR,
    JSON_END,
    JSON_NULL,
    JSON_TRUE,
    JSON_FALSE,
    JSON_NUMBER,
    JSON_STRING,
    JSON_OBJECT,
    JSON_OBJECT_END,
    JSON_ARRAY,
    JSON_ARRAY_END,
    JSON_KEY
};

#define JSON_MAX_DEPTH 32

struct json {
    struct str text;
    size_t at; /* also the place of an error */
    int depth;
    uint64_t in_object;  /* bit per level */
    int expect;          /* internal */
    enum json_type last; /* the last token */
    /* Of the last token: a number's digits, a string's or key's bytes between the quotes. */
    struct str raw;
    bool escaped; /* raw has backslashes: use json_unescape */
};

void json_init(struct json *j, struct str text);
/* The next token. After the outermost value: JSON_END once, if nothing but white space follows;
 * only then is the text known to be JSON. JSON_ERROR stays. */
enum json_type json_next(struct json *j);
/* Skips the value whose first token was just returned (object and array to their end). False on an
 * error. */
bool json_skip(struct json *j, enum json_type first);
/* The last JSON_NUMBER as an integer: no fraction, no exponent, within the bounds. 0 or
 * ERR_INVALID, which any other token gets too; in the same way the two below refuse what is no
 * string and no key. */
int json_i64(const struct json *j, int64_t min, int64_t max, int64_t *out);
/* The last string or key, unescaped, valid UTF-8 (a \u0000 in it is a zero byte), into dst (raw.len
 * bytes always suffice); the length, or ERR_INVALID. */
int json_unescape(const struct json *j, char *dst, size_t cap);
/* Compares the last string or key with s after unescaping. */
bool json_is(const struct json *j, struct str s);

/* Writing. The caller takes care of the structure; these care for quoting. */
/* With quotes; invalid UTF-8 becomes U+FFFD. */
void json_add_string(struct strbuf *b, struct str s);
#define JSON_ESCAPE_MAX 6
/* The character at s.ptr[*at] as it stands inside quotes, into dst (JSON_ESCAPE_MAX bytes): its
 * length there. Moves *at on. For those that must cut a text to a length. */
size_t json_escape_next(struct str s, size_t *at, char *dst);
