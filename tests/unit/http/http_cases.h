/* Requests that must be refused, and the status of the refusal. One list for the parser alone and
 * for the whole server. */
#pragma once

#include "base/str.h"

#include <stdlib.h>

struct http_case {
    const char *name;
    struct str bytes;
    int status;
};

#define LINE(x) x "\r\n"
#define HOST LINE("Host: a.example")
#define POST LINE("POST /v1/orders HTTP/1.1")
#define GET LINE("GET /v1/items HTTP/1.1")
#define END "\r\n"
#define CHUNKED LINE("Transfer-Encoding: chunked")
#define BAD(name_, status_, bytes_)                                                                \
    {                                                                                              \
        name_, {bytes_, sizeof(bytes_) - 1}, status_                                               \
    }

static const struct http_case http_bad_cases[] = {
    /* both ways of framing, and ill lengths */
    BAD("both lengths", 400, POST HOST LINE("Content-Length: 5") CHUNKED END "0\r\n\r\n"),
    BAD("both lengths, other order", 400,
        POST HOST CHUNKED LINE("Content-Length: 5") END "0\r\n\r\n"),
    BAD("differing lengths", 400,
        POST HOST LINE("Content-Length: 5") LINE("Content-Length: 6") END "hello!"),
    BAD("repeated length", 400,
        POST HOST LINE("Content-Length: 5") LINE("Content-Length: 5") END "hello"),
    BAD("list of lengths", 400, POST HOST LINE("Content-Length: 5, 5") END "hello"),
    BAD("plus sign", 400, POST HOST LINE("Content-Length: +5") END "hello"),
    BAD("minus sign", 400, POST HOST LINE("Content-Length: -5") END "hello"),
    BAD("minus zero", 400, POST HOST LINE("Content-Length: -0") END),
    BAD("hex length", 400, POST HOST LINE("Content-Length: 0x5") END "hello"),
    BAD("hex digits", 400, POST HOST LINE("Content-Length: a") END "hellohello"),
    BAD("underscore", 400, POST HOST LINE("Content-Length: 1_0") END "hellohello"),
    BAD("overflow by 2^64", 400,
        POST HOST LINE("Content-Length: 18446744073709551621") END "hello"),
    BAD("very long length", 400,
        POST HOST LINE("Content-Length: 99999999999999999999999999999") END),
    BAD("wraps at 2^32", 413, POST HOST LINE("Content-Length: 4294967301") END "hello"),
    BAD("empty length", 400, POST HOST LINE("Content-Length:") END),
    BAD("blank length", 400, POST HOST LINE("Content-Length:   ") END),
    BAD("leading zero", 400, POST HOST LINE("Content-Length: 05") END "hello"),
    BAD("space in length", 400, POST HOST LINE("Content-Length: 1 0") END "hellohello"),
    BAD("decimal point", 400, POST HOST LINE("Content-Length: 5.0") END "hello"),
    BAD("quoted length", 400, POST HOST LINE("Content-Length: \"5\"") END "hello"),
    BAD("length and garbage", 400, POST HOST LINE("Content-Length: 5 ;") END "hello"),
    BAD("no-break space in length", 400, POST HOST LINE("Content-Length: 5\xa0") END "hello"),
    /* transfer codings */
    BAD("xchunked", 501, POST HOST LINE("Transfer-Encoding: xchunked") END "0\r\n\r\n"),
    BAD("chunkedx", 501, POST HOST LINE("Transfer-Encoding: chunkedx") END "0\r\n\r\n"),
    BAD("gzip", 501, POST HOST LINE("Transfer-Encoding: gzip") END),
    BAD("identity", 501, POST HOST LINE("Transfer-Encoding: identity") END),
    BAD("gzip, chunked", 400, POST HOST LINE("Transfer-Encoding: gzip, chunked") END "0\r\n\r\n"),
    BAD("chunked, gzip", 400, POST HOST LINE("Transfer-Encoding: chunked, gzip") END "0\r\n\r\n"),
    BAD("chunked, chunked", 400,
        POST HOST LINE("Transfer-Encoding: chunked, chunked") END "0\r\n\r\n"),
    BAD("chunked twice", 400, POST HOST CHUNKED CHUNKED END "0\r\n\r\n"),
    BAD("chunked and identity", 400,
        POST HOST CHUNKED LINE("Transfer-Encoding: identity") END "0\r\n\r\n"),
    BAD("quoted chunked", 400, POST HOST LINE("Transfer-Encoding: \"chunked\"") END "0\r\n\r\n"),
    BAD("chunked with parameter", 400,
        POST HOST LINE("Transfer-Encoding: chunked;q=1") END "0\r\n\r\n"),
    BAD("chunked and comma", 400, POST HOST LINE("Transfer-Encoding: chunked,") END "0\r\n\r\n"),
    BAD("comma and chunked", 400, POST HOST LINE("Transfer-Encoding: ,chunked") END "0\r\n\r\n"),
    BAD("empty coding", 400, POST HOST LINE("Transfer-Encoding:") END),
    BAD("vertical tab before chunked", 400,
        POST HOST LINE("Transfer-Encoding: \x0b"
                       "chunked") END "0\r\n\r\n"),
    BAD("chunked in HTTP/1.0", 400, LINE("POST /v1/orders HTTP/1.0") HOST CHUNKED END "0\r\n\r\n"),
    BAD("coding name with a space", 400,
        POST HOST LINE("Transfer-Encoding : chunked") END "0\r\n\r\n"),
    BAD("coding name with a tab", 400,
        POST HOST LINE("Transfer-Encoding\t: chunked") END "0\r\n\r\n"),
    BAD("folded coding", 400, POST HOST "Transfer-Encoding:\r\n chunked\r\n" END "0\r\n\r\n"),
    /* chunks */
    BAD("chunk size with plus", 400, POST HOST CHUNKED END "+5\r\nhello\r\n0\r\n\r\n"),
    BAD("chunk size with minus", 400, POST HOST CHUNKED END "-5\r\nhello\r\n0\r\n\r\n"),
    BAD("chunk size 0x", 400, POST HOST CHUNKED END "0x5\r\nhello\r\n0\r\n\r\n"),
    BAD("chunk size with underscore", 400,
        POST HOST CHUNKED END "1_0\r\nhellohellohellohe\r\n0\r\n\r\n"),
    BAD("chunk size overflows 64 bit", 400,
        POST HOST CHUNKED END "10000000000000005\r\nhello\r\n0\r\n\r\n"),
    BAD("chunk size overflows 32 bit", 400,
        POST HOST CHUNKED END "100000005\r\nhello\r\n0\r\n\r\n"),
    BAD("chunk size near 2^32", 413, POST HOST CHUNKED END "ffffffff\r\nhello\r\n0\r\n\r\n"),
    BAD("chunk size empty", 400, POST HOST CHUNKED END "\r\nhello\r\n0\r\n\r\n"),
    BAD("chunk size not hex", 400, POST HOST CHUNKED END "g\r\nhello\r\n0\r\n\r\n"),
    BAD("space before chunk size", 400, POST HOST CHUNKED END " 5\r\nhello\r\n0\r\n\r\n"),
    BAD("space after chunk size", 400, POST HOST CHUNKED END "5 \r\nhello\r\n0\r\n\r\n"),
    BAD("space before extension", 400, POST HOST CHUNKED END "5 ;a=b\r\nhello\r\n0\r\n\r\n"),
    BAD("chunk size ended by LF", 400, POST HOST CHUNKED END "5\nhello\r\n0\r\n\r\n"),
    BAD("chunk size ended by CR", 400, POST HOST CHUNKED END "5\rhello\r\n0\r\n\r\n"),
    BAD("chunk longer than its size", 400, POST HOST CHUNKED END "5\r\nhello!\r\n0\r\n\r\n"),
    BAD("chunk shorter than its size", 400, POST HOST CHUNKED END "8\r\nhello\r\n0\r\n\r\n"),
    BAD("chunk ended by LF", 400, POST HOST CHUNKED END "5\r\nhello\n0\r\n\r\n"),
    BAD("control in extension", 400, POST HOST CHUNKED END "5;a=\x01\r\nhello\r\n0\r\n\r\n"),
    BAD("LF in extension", 400, POST HOST CHUNKED END "5;a=b\n5\r\nhello\r\n0\r\n\r\n"),
    BAD("NUL in extension", 400, POST HOST CHUNKED END "5;a=\0\r\nhello\r\n0\r\n\r\n"),
    BAD("trailer", 400, POST HOST CHUNKED END "5\r\nhello\r\n0\r\nX-A: b\r\n\r\n"),
    BAD("trailer that frames", 400, POST HOST CHUNKED END "0\r\nContent-Length: 5\r\n\r\n"),
    BAD("last chunk ended by LF", 400, POST HOST CHUNKED END "0\r\n\n"),
    /* bytes of the head */
    BAD("folded header", 400, GET HOST "X-A: b\r\n c\r\n" END),
    BAD("folded with tab", 400, GET HOST "X-A: b\r\n\tc\r\n" END),
    BAD("folded first header", 400, GET " Host: a.example\r\n" END),
    BAD("bare CR in a value", 400, GET HOST "X-A: b\rc\r\n" END),
    BAD("bare CR before a header", 400, GET HOST "X-A: b\r\rX-B: c\r\n" END),
    BAD("bare LF in a value", 400, GET HOST "X-A: b\nX-B: c\r\n" END),
    BAD("bare LF everywhere", 400, "GET /v1/items HTTP/1.1\nHost: a.example\n\n"),
    BAD("bare LF at the end", 400, GET HOST "\n"),
    BAD("CR LF LF", 400, GET "Host: a.example\r\n\n"),
    BAD("NUL in a value", 400, GET HOST "X-A: b\0c\r\n" END),
    BAD("NUL in a name", 400, GET HOST "X\0A: b\r\n" END),
    BAD("NUL in the target", 400, "GET /v1/\0items HTTP/1.1\r\n" HOST END),
    BAD("control in a value", 400, GET HOST "X-A: b\x01\r\n" END),
    BAD("escape in a value", 400, GET HOST "X-A: \x1b[0m\r\n" END),
    BAD("DEL in a value", 400, GET HOST "X-A: \x7f\r\n" END),
    BAD("backspace in a name", 400, GET HOST "X\x08: b\r\n" END),
    BAD("TLS hello", 400, "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"),
    /* Host */
    BAD("no Host", 400, GET END),
    BAD("two Hosts", 400, GET HOST LINE("Host: b.example") END),
    BAD("the same Host twice", 400, GET HOST HOST END),
    BAD("empty Host", 400, GET LINE("Host:") END),
    BAD("Host with a space", 400, GET LINE("Host: a b") END),
    BAD("Host with a comma", 400, GET LINE("Host: a.example, b.example") END),
    BAD("Host with a slash", 400, GET LINE("Host: a.example/x") END),
    BAD("Host with a user", 400, GET LINE("Host: u@a.example") END),
    BAD("Host with a bad port", 400, GET LINE("Host: a.example:8x") END),
    BAD("Host with an empty port", 400, GET LINE("Host: a.example:") END),
    BAD("Host with a large port", 400, GET LINE("Host: a.example:65536") END),
    BAD("Host with two ports", 400, GET LINE("Host: a.example:80:80") END),
    BAD("Host with an open bracket", 400, GET LINE("Host: [::1") END),
    BAD("Host with a query", 400, GET LINE("Host: a.example?x") END),
    BAD("Host not ASCII", 400, GET LINE("Host: caf\xc3\xa9.example") END),
    BAD("only a port", 400, GET LINE("Host: :80") END),
    BAD("two Hosts in HTTP/1.0", 400,
        LINE("GET /v1/items HTTP/1.0") HOST LINE("Host: b.example") END),
    /* request line */
    BAD("lower-case method", 501, LINE("get /v1/items HTTP/1.1") HOST END),
    BAD("unknown method", 501, LINE("FETCH /v1/items HTTP/1.1") HOST END),
    BAD("method with a bad character", 400, LINE("G(T /v1/items HTTP/1.1") HOST END),
    BAD("method and tab", 400, LINE("GET\t/v1/items HTTP/1.1") HOST END),
    BAD("no method", 400, LINE("/v1/items HTTP/1.1") HOST END),
    BAD("two spaces after the method", 400, LINE("GET  /v1/items HTTP/1.1") HOST END),
    BAD("two spaces before the version", 400, LINE("GET /v1/items  HTTP/1.1") HOST END),
    BAD("space after the version", 400, LINE("GET /v1/items HTTP/1.1 ") HOST END),
    BAD("no version", 400, LINE("GET /v1/items") HOST END),
    BAD("HTTP/1.2", 505, LINE("GET /v1/items HTTP/1.2") HOST END),
    BAD("HTTP/2.0", 505, LINE("GET /v1/items HTTP/2.0") HOST END),
    BAD("HTTP/0.9", 505, LINE("GET /v1/items HTTP/0.9") HOST END),
    BAD("HTTP/3.0", 505, LINE("GET /v1/items HTTP/3.0") HOST END),
    BAD("HTTP/2 preface", 505, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    BAD("lower-case version", 400, LINE("GET /v1/items http/1.1") HOST END),
    BAD("version of one number", 400, LINE("GET /v1/items HTTP/1") HOST END),
    BAD("version with two digits", 400, LINE("GET /v1/items HTTP/1.10") HOST END),
    BAD("version with a leading zero", 400, LINE("GET /v1/items HTTP/01.1") HOST END),
    BAD("other protocol", 400, LINE("GET /v1/items RTSP/1.0") HOST END),
    BAD("leading space", 400, " " GET HOST END),
    BAD("two leading empty lines", 400, "\r\n\r\n" GET HOST END),
    BAD("leading LF", 400, "\n" GET HOST END),
    BAD("leading space line", 400, " \r\n" GET HOST END),
    /* target */
    BAD("asterisk", 400, LINE("GET * HTTP/1.1") HOST END),
    BAD("OPTIONS asterisk", 400, LINE("OPTIONS * HTTP/1.1") HOST END),
    BAD("authority", 400, LINE("GET a.example:80 HTTP/1.1") HOST END),
    BAD("CONNECT", 400, LINE("CONNECT a.example:80 HTTP/1.1") HOST END),
    BAD("CONNECT with a path", 400, LINE("CONNECT /v1/items HTTP/1.1") HOST END),
    BAD("absolute with another host", 400, LINE("GET http://b.example/v1/items HTTP/1.1") HOST END),
    BAD("absolute without a path", 400, LINE("GET http://a.example HTTP/1.1") HOST END),
    BAD("absolute with a query for a path", 400, LINE("GET http://a.example?x HTTP/1.1") HOST END),
    BAD("absolute with a user", 400, LINE("GET http://u@a.example/v1/items HTTP/1.1") HOST END),
    BAD("absolute https", 400, LINE("GET https://a.example/v1/items HTTP/1.1") HOST END),
    BAD("absolute file", 400, LINE("GET file:///etc/passwd HTTP/1.1") HOST END),
    BAD("absolute without Host", 400, LINE("GET http://a.example/v1/items HTTP/1.0") END),
    BAD("relative path", 400, LINE("GET v1/items HTTP/1.1") HOST END),
    BAD("fragment", 400, LINE("GET /v1/items#x HTTP/1.1") HOST END),
    BAD("not ASCII in the target", 400, LINE("GET /v1/caf\xc3\xa9 HTTP/1.1") HOST END),
    BAD("tab in the target", 400, LINE("GET /v1/\titems HTTP/1.1") HOST END),
    BAD("space in the target", 400, LINE("GET /v1/ items HTTP/1.1") HOST END),
    /* header names and counts */
    BAD("space before the colon", 400, GET HOST LINE("X-A : b") END),
    BAD("Host with a space before the colon", 400, GET LINE("Host : a.example") END),
    BAD("no colon", 400, GET HOST LINE("X-A") END),
    BAD("empty name", 400, GET HOST LINE(": b") END),
    BAD("bracket in a name", 400, GET HOST LINE("X[A]: b") END),
    BAD("space in a name", 400, GET HOST LINE("X A: b") END),
    BAD("not ASCII in a name", 400, GET HOST LINE("X\xc3\xa9: b") END),
    BAD("slash in a name", 400, GET HOST LINE("X/A: b") END),
    /* semantics */
    BAD("Expect something else", 400,
        POST HOST LINE("Expect: 200-ok") LINE("Content-Length: 5") END "hello"),
    BAD("Expect a list", 400,
        POST HOST LINE("Expect: 100-continue, x") LINE("Content-Length: 5") END "hello"),
    BAD("two Authorizations", 400, GET HOST LINE("Authorization: a") LINE("Authorization: a") END),
    BAD("two Idempotency-Keys", 400,
        GET HOST LINE("Idempotency-Key: a") LINE("idempotency-key: b") END),
    BAD("two Content-Types", 400, GET HOST LINE("Content-Type: a") LINE("Content-Type: b") END),
    BAD("body too large", 413, POST HOST LINE("Content-Length: 4097") END),
    BAD("chunk too large", 413, POST HOST CHUNKED END "1001\r\n"),
    BAD("second chunk too large", 413, POST HOST CHUNKED END "5\r\nhello\r\nffc\r\n"),
};
enum { HTTP_BAD_CASES = sizeof http_bad_cases / sizeof *http_bad_cases };

/* Those too long for a literal. n bytes of c between what stands before and after; to be freed. */
static inline struct str http_case_filled(const char *before, char c, size_t n, const char *after)
{
    size_t a = strlen(before), b = strlen(after);
    char *p = malloc(a + n + b);
    memcpy(p, before, a);
    memset(p + a, c, n);
    memcpy(p + a + n, after, b);
    return (struct str){p, a + n + b};
}
