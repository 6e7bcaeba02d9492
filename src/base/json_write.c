#include "base/json.h"
#include "base/utf8.h"

static bool is_plain(char c)
{
    unsigned char u = (unsigned char)c;
    return u >= 0x20 && u < 0x80 && u != '"' && u != '\\';
}

size_t json_escape_next(struct str s, size_t *at, char *dst)
{
    static const char hex[] = "0123456789abcdef";
    unsigned char c = (unsigned char)s.ptr[*at];
    if (c >= 0x80) {
        size_t n = utf8_len(s.ptr + *at, s.len - *at);
        if (n)
            memcpy(dst, s.ptr + *at, n);
        *at += n ? n : 1;
        return n ? n : utf8_put(dst, 0xfffd);
    }
    ++*at;
    if (is_plain((char)c)) {
        dst[0] = (char)c;
        return 1;
    }
    static const char names[] = "\"\\\b\f\n\r\t", letters[] = "\"\\bfnrt";
    const char *name = c ? memchr(names, c, sizeof names - 1) : NULL;
    dst[0] = '\\';
    if (name) {
        dst[1] = letters[name - names];
        return 2;
    }
    dst[1] = 'u';
    dst[2] = dst[3] = '0';
    dst[4] = hex[c >> 4];
    dst[5] = hex[c & 15];
    return 6;
}

void json_add_string(struct strbuf *b, struct str s)
{
    strbuf_add_char(b, '"');
    for (size_t at = 0; at < s.len;) {
        size_t run = at;
        while (run < s.len && is_plain(s.ptr[run]))
            run++;
        strbuf_add(b, s.ptr + at, run - at);
        at = run;
        if (at < s.len) {
            char escaped[JSON_ESCAPE_MAX];
            size_t n = json_escape_next(s, &at, escaped);
            strbuf_add(b, escaped, n);
        }
    }
    strbuf_add_char(b, '"');
}
