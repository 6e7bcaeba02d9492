/* The reader: a state for what may come next, one bit per level for "this is an object", and no
 * memory. */
#include "base/json.h"

#include "base/err.h"
#include "base/parse.h"
#include "base/utf8.h"
#include <limits.h>

enum {
    WANT_VALUE,            /* outermost, after a key, or after a comma in an array */
    WANT_ELEMENT_OR_CLOSE, /* after '[' */
    WANT_KEY,              /* after a comma in an object */
    WANT_KEY_OR_CLOSE,     /* after '{' */
    WANT_MORE_OR_CLOSE,    /* after a value */
    ENDED,
    FAILED,
};

void json_init(struct json *j, struct str text)
{
    *j = (struct json){.text = text, .expect = WANT_VALUE};
}

static enum json_type fail(struct json *j)
{
    j->expect = FAILED;
    j->raw = (struct str){NULL, 0};
    return JSON_ERROR;
}

static bool at_end(const struct json *j)
{
    return j->at == j->text.len;
}

static void skip_space(struct json *j)
{
    const char *p = j->text.ptr;
    size_t at = j->at, n = j->text.len;
    while (at < n && (p[at] == ' ' || p[at] == '\n' || p[at] == '\r' || p[at] == '\t'))
        at++;
    j->at = at;
}

static bool in_object(const struct json *j)
{
    return j->depth && (j->in_object >> (j->depth - 1) & 1);
}

static enum json_type open(struct json *j, bool object)
{
    if (j->depth == JSON_MAX_DEPTH)
        return fail(j);
    uint64_t bit = UINT64_C(1) << j->depth++;
    j->in_object = object ? j->in_object | bit : j->in_object & ~bit;
    j->expect = object ? WANT_KEY_OR_CLOSE : WANT_ELEMENT_OR_CLOSE;
    j->at++;
    return object ? JSON_OBJECT : JSON_ARRAY;
}

static enum json_type close(struct json *j)
{
    enum json_type type = in_object(j) ? JSON_OBJECT_END : JSON_ARRAY_END;
    j->depth--;
    j->expect = WANT_MORE_OR_CLOSE;
    j->at++;
    return type;
}

static enum json_type literal(struct json *j, struct str word, enum json_type type)
{
    if (!str_starts((struct str){j->text.ptr + j->at, j->text.len - j->at}, word))
        return fail(j);
    j->at += word.len;
    j->expect = WANT_MORE_OR_CLOSE;
    return type;
}

static size_t count_digits(const struct json *j)
{
    size_t at = j->at;
    while (at < j->text.len && j->text.ptr[at] >= '0' && j->text.ptr[at] <= '9')
        at++;
    return at - j->at;
}

static enum json_type number(struct json *j)
{
    const char *p = j->text.ptr;
    size_t start = j->at;
    if (p[j->at] == '-')
        j->at++;
    size_t n = count_digits(j);
    if (n == 0 || (n > 1 && p[j->at] == '0'))
        return fail(j);
    j->at += n;
    if (!at_end(j) && p[j->at] == '.') {
        j->at++;
        n = count_digits(j);
        if (n == 0)
            return fail(j);
        j->at += n;
    }
    if (!at_end(j) && (p[j->at] == 'e' || p[j->at] == 'E')) {
        j->at++;
        if (!at_end(j) && (p[j->at] == '+' || p[j->at] == '-'))
            j->at++;
        n = count_digits(j);
        if (n == 0)
            return fail(j);
        j->at += n;
    }
    j->raw = (struct str){p + start, j->at - start};
    j->expect = WANT_MORE_OR_CLOSE;
    return JSON_NUMBER;
}

static int hex4(const char *p)
{
    int v = 0;
    for (int i = 0; i < 4; i++) {
        char c = p[i];
        int digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
        if (digit < 0)
            return -1;
        v = v << 4 | digit;
    }
    return v;
}

/* The escape at p, where a backslash stands and n bytes are left: its length and its code point; 0
 * if it is wrong. A surrogate counts only as half of a pair. */
static size_t escape(const char *p, size_t n, unsigned *code)
{
    if (n < 2)
        return 0;
    switch (p[1]) {
    case '"':
    case '\\':
    case '/':
        *code = (unsigned char)p[1];
        return 2;
    case 'b':
        *code = '\b';
        return 2;
    case 'f':
        *code = '\f';
        return 2;
    case 'n':
        *code = '\n';
        return 2;
    case 'r':
        *code = '\r';
        return 2;
    case 't':
        *code = '\t';
        return 2;
    case 'u':
        break;
    default:
        return 0;
    }
    int unit = n >= 6 ? hex4(p + 2) : -1;
    if (unit < 0 || (unit >= 0xdc00 && unit <= 0xdfff))
        return 0;
    if (unit < 0xd800 || unit > 0xdbff) {
        *code = (unsigned)unit;
        return 6;
    }
    int second = n >= 12 && p[6] == '\\' && p[7] == 'u' ? hex4(p + 8) : -1;
    if (second < 0xdc00 || second > 0xdfff)
        return 0;
    *code = 0x10000 + ((unsigned)(unit - 0xd800) << 10) + (unsigned)(second - 0xdc00);
    return 12;
}

/* Whether eight bytes are all plain: ASCII, not a control, a quote or a backslash. */
static bool plain8(const char *p)
{
    const uint64_t ones = UINT64_C(0x0101010101010101), high = ones << 7;
    uint64_t word;
    memcpy(&word, p, sizeof word);
    uint64_t quote = word ^ ones * '"', slash = word ^ ones * '\\';
    return !(((word - ones * 0x20) | (quote - ones) | (slash - ones) | word) & high);
}

/* At a quote: takes the string, with both quotes, and sets raw. */
static bool string(struct json *j)
{
    const char *p = j->text.ptr;
    size_t at = j->at + 1, n = j->text.len;
    for (;;) {
        while (n - at >= 8 && plain8(p + at))
            at += 8;
        if (at == n)
            break;
        unsigned char c = (unsigned char)p[at];
        size_t step = 1;
        if (c == '"') {
            j->raw = (struct str){p + j->at + 1, at - j->at - 1};
            j->at = at + 1;
            return true;
        }
        if (c == '\\') {
            unsigned code;
            step = escape(p + at, n - at, &code);
            j->escaped = true;
        } else if (c >= 0x80) {
            step = utf8_len(p + at, n - at);
        } else if (c < 0x20) {
            step = 0;
        }
        if (step == 0)
            break;
        at += step;
    }
    j->at = at;
    return false;
}

static enum json_type value(struct json *j)
{
    switch (j->text.ptr[j->at]) {
    case '{':
        return open(j, true);
    case '[':
        return open(j, false);
    case '"':
        if (!string(j))
            return fail(j);
        j->expect = WANT_MORE_OR_CLOSE;
        return JSON_STRING;
    case 't':
        return literal(j, STR("true"), JSON_TRUE);
    case 'f':
        return literal(j, STR("false"), JSON_FALSE);
    case 'n':
        return literal(j, STR("null"), JSON_NULL);
    default:
        return number(j);
    }
}

/* The colon is taken with the key, so that between the two tokens nothing is left to check. */
static enum json_type key(struct json *j)
{
    if (j->text.ptr[j->at] != '"' || !string(j))
        return fail(j);
    skip_space(j);
    if (at_end(j) || j->text.ptr[j->at] != ':')
        return fail(j);
    j->at++;
    j->expect = WANT_VALUE;
    return JSON_KEY;
}

static enum json_type next(struct json *j)
{
    if (j->expect == ENDED || j->expect == FAILED)
        return fail(j);
    skip_space(j);
    if (at_end(j)) {
        if (j->expect != WANT_MORE_OR_CLOSE || j->depth)
            return fail(j);
        j->expect = ENDED;
        return JSON_END;
    }
    char c = j->text.ptr[j->at];
    if (j->expect == WANT_MORE_OR_CLOSE) {
        if (j->depth == 0)
            return fail(j);
        if (c == (in_object(j) ? '}' : ']'))
            return close(j);
        if (c != ',')
            return fail(j);
        j->at++;
        skip_space(j);
        if (at_end(j))
            return fail(j);
        j->expect = in_object(j) ? WANT_KEY : WANT_VALUE;
    } else if ((j->expect == WANT_KEY_OR_CLOSE && c == '}') ||
               (j->expect == WANT_ELEMENT_OR_CLOSE && c == ']')) {
        return close(j);
    }
    return j->expect == WANT_KEY || j->expect == WANT_KEY_OR_CLOSE ? key(j) : value(j);
}

enum json_type json_next(struct json *j)
{
    j->raw = (struct str){NULL, 0};
    j->escaped = false;
    return j->last = next(j);
}

bool json_skip(struct json *j, enum json_type first)
{
    switch (first) {
    case JSON_NULL:
    case JSON_TRUE:
    case JSON_FALSE:
    case JSON_NUMBER:
    case JSON_STRING:
        return true;
    case JSON_OBJECT:
    case JSON_ARRAY:
        break;
    default:
        return false;
    }
    int outside = j->depth - 1;
    while (j->depth > outside) {
        if (json_next(j) == JSON_ERROR)
            return false;
    }
    return true;
}

int json_i64(const struct json *j, int64_t min, int64_t max, int64_t *out)
{
    if (j->last != JSON_NUMBER)
        return ERR_INVALID;
    /* JSON allows "-0"; as an integer it is zero. */
    return parse_i64(str_eq(j->raw, STR("-0")) ? STR("0") : j->raw, min, max, out);
}

static bool has_text(const struct json *j)
{
    return j->last == JSON_STRING || j->last == JSON_KEY;
}

/* The character at *at of a text that json_next has found good, unescaped, into dst (4 bytes); its
 * length. */
static size_t unescape_next(struct str raw, size_t *at, char *dst)
{
    if (raw.ptr[*at] != '\\') {
        *dst = raw.ptr[(*at)++];
        return 1;
    }
    unsigned code = 0;
    *at += escape(raw.ptr + *at, raw.len - *at, &code);
    return utf8_put(dst, code);
}

int json_unescape(const struct json *j, char *dst, size_t cap)
{
    if (!has_text(j) || j->raw.len > INT_MAX)
        return ERR_INVALID;
    if (!j->escaped) {
        if (j->raw.len > cap)
            return ERR_INVALID;
        if (j->raw.len)
            memcpy(dst, j->raw.ptr, j->raw.len);
        return (int)j->raw.len;
    }
    size_t len = 0;
    for (size_t at = 0; at < j->raw.len;) {
        char c[4];
        size_t n = unescape_next(j->raw, &at, c);
        if (n > cap - len)
            return ERR_INVALID;
        memcpy(dst + len, c, n);
        len += n;
    }
    return (int)len;
}

bool json_is(const struct json *j, struct str s)
{
    if (!has_text(j))
        return false;
    if (!j->escaped)
        return str_eq(j->raw, s);
    for (size_t at = 0; at < j->raw.len;) {
        char c[4];
        size_t n = unescape_next(j->raw, &at, c);
        if (n > s.len || memcmp(c, s.ptr, n) != 0)
            return false;
        s = (struct str){s.ptr + n, s.len - n};
    }
    return s.len == 0;
}
