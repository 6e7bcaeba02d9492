/* A complete head, which the scan has found free of control characters, bare CR or LF and folded
 * lines. The request line is read here; the headers by llhttp, which calls back for each; then
 * llhttp's picture and ours must agree. */
#include "adapter/http/request.h"

#include <llhttp.h>

static const unsigned char token_chars[256] = {
    ['!'] = 1, ['#'] = 1, ['$'] = 1, ['%'] = 1, ['&'] = 1, ['\''] = 1, ['*'] = 1, ['+'] = 1,
    ['-'] = 1, ['.'] = 1, ['^'] = 1, ['_'] = 1, ['`'] = 1, ['|'] = 1,  ['~'] = 1, ['0'] = 1,
    ['1'] = 1, ['2'] = 1, ['3'] = 1, ['4'] = 1, ['5'] = 1, ['6'] = 1,  ['7'] = 1, ['8'] = 1,
    ['9'] = 1, ['A'] = 1, ['B'] = 1, ['C'] = 1, ['D'] = 1, ['E'] = 1,  ['F'] = 1, ['G'] = 1,
    ['H'] = 1, ['I'] = 1, ['J'] = 1, ['K'] = 1, ['L'] = 1, ['M'] = 1,  ['N'] = 1, ['O'] = 1,
    ['P'] = 1, ['Q'] = 1, ['R'] = 1, ['S'] = 1, ['T'] = 1, ['U'] = 1,  ['V'] = 1, ['W'] = 1,
    ['X'] = 1, ['Y'] = 1, ['Z'] = 1, ['a'] = 1, ['b'] = 1, ['c'] = 1,  ['d'] = 1, ['e'] = 1,
    ['f'] = 1, ['g'] = 1, ['h'] = 1, ['i'] = 1, ['j'] = 1, ['k'] = 1,  ['l'] = 1, ['m'] = 1,
    ['n'] = 1, ['o'] = 1, ['p'] = 1, ['q'] = 1, ['r'] = 1, ['s'] = 1,  ['t'] = 1, ['u'] = 1,
    ['v'] = 1, ['w'] = 1, ['x'] = 1, ['y'] = 1, ['z'] = 1,
};

bool http_is_token(struct str s)
{
    for (size_t i = 0; i < s.len; i++)
        if (!token_chars[(unsigned char)s.ptr[i]])
            return false;
    return s.len > 0;
}

static bool digits(struct str s)
{
    for (size_t i = 0; i < s.len; i++)
        if (s.ptr[i] < '0' || s.ptr[i] > '9')
            return false;
    return s.len > 0;
}

static bool port_ok(struct str s)
{
    unsigned v = 0;
    if (s.len > 5 || !digits(s))
        return false;
    for (size_t i = 0; i < s.len; i++)
        v = v * 10 + (unsigned)(s.ptr[i] - '0');
    return v <= 65535;
}

static bool in_address(char c) /* between the brackets of an IPv6 literal */
{
    return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'f') || c == ':' ||
           c == '.';
}

static bool in_name(char c)
{
    return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') || c == '.' ||
           c == '-' || c == '_' || c == '~';
}

bool http_host_ok(struct str h)
{
    size_t i = 0;
    if (h.len && h.ptr[0] == '[') {
        for (i = 1; i < h.len && in_address(h.ptr[i]); i++)
            ;
        if (i < 3 || i == h.len || h.ptr[i++] != ']')
            return false;
    } else {
        while (i < h.len && in_name(h.ptr[i]))
            i++;
    }
    if (i == 0)
        return false;
    return i == h.len || (h.ptr[i] == ':' && port_ok((struct str){h.ptr + i + 1, h.len - i - 1}));
}

/* State of one parse: on the stack, since a head is fed to llhttp once, whole. */
struct head {
    llhttp_t parser;
    struct http_request *r;
    const char *bytes;
    struct str name, value;
    uint32_t headers;
    enum answer refusal;
    bool length, coding, expect, connection_close, connection_keep_alive, two_traces;
};

static struct http_span span(const struct head *h, struct str s)
{
    return (struct http_span){(uint32_t)(s.ptr - h->bytes), (uint32_t)s.len};
}

static bool refuse(struct head *h, enum answer a)
{
    h->refusal = a;
    return false;
}

/* --- the request line --- */

static bool method_ok(struct head *h, struct str m)
{
    static const struct {
        struct str name;
        enum http_method method;
    } known[] = {
        {{"POST", 4}, HTTP_METHOD_POST},     {{"GET", 3}, HTTP_METHOD_GET},
        {{"HEAD", 4}, HTTP_METHOD_HEAD},     {{"PUT", 3}, HTTP_METHOD_OTHER},
        {{"DELETE", 6}, HTTP_METHOD_OTHER},  {{"PATCH", 5}, HTTP_METHOD_OTHER},
        {{"TRACE", 5}, HTTP_METHOD_OTHER},   {{"OPTIONS", 7}, HTTP_METHOD_OTHER},
        {{"CONNECT", 7}, HTTP_METHOD_OTHER},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (str_eq(m, known[i].name)) {
            h->r->method = known[i].method;
            /* CONNECT makes a tunnel of what follows, whatever its target looks like. */
            return m.ptr[0] != 'C' || refuse(h, ANSWER_BAD_REQUEST);
        }
    }
    return refuse(h, http_is_token(m) ? ANSWER_NOT_IMPLEMENTED : ANSWER_BAD_REQUEST);
}

static bool version_ok(struct head *h, struct str v)
{
    if (v.len != 8 || memcmp(v.ptr, "HTTP/", 5) != 0 || v.ptr[6] != '.' ||
        !digits((struct str){v.ptr + 5, 1}) || !digits((struct str){v.ptr + 7, 1}))
        return refuse(h, ANSWER_BAD_REQUEST);
    if (v.ptr[5] != '1' || v.ptr[7] > '1')
        return refuse(h, ANSWER_VERSION_NOT_SUPPORTED);
    h->r->http_1_0 = v.ptr[7] == '0';
    return true;
}

static bool request_line(struct head *h)
{
    struct http_request *r = h->r;
    struct str line = {h->bytes + r->first, r->first_len}, method, target;
    struct str rest = str_split(line, ' ', &method);
    struct str version = rest.ptr ? str_split(rest, ' ', &target) : rest;
    if (!version.ptr)
        return refuse(h, ANSWER_BAD_REQUEST);
    if (!version_ok(h, version) || !method_ok(h, method))
        return false;
    for (size_t i = 0; i < target.len; i++) {
        unsigned char c = (unsigned char)target.ptr[i];
        if (c <= 0x20 || c >= 0x7f || c == '#')
            return refuse(h, ANSWER_BAD_REQUEST);
    }
    r->method_name = span(h, method);
    r->target = span(h, target);
    return target.len > 0 || refuse(h, ANSWER_BAD_REQUEST);
}

/* Needs Host: an absolute target must name the same. */
static bool split_target(struct head *h)
{
    struct http_request *r = h->r;
    struct str path = http_span_str(r->target, h->bytes);
    static const struct str scheme = {"http://", 7};
    if (path.len > scheme.len && str_eq_nocase((struct str){path.ptr, scheme.len}, scheme)) {
        struct str host, from = {path.ptr + scheme.len, path.len - scheme.len};
        path = str_split(from, '/', &host);
        if (!path.ptr || !r->host.off || !str_eq_nocase(host, http_span_str(r->host, h->bytes)))
            return refuse(h, ANSWER_BAD_REQUEST);
        path.ptr--; /* with its slash */
        path.len++;
    }
    if (path.ptr[0] != '/') /* "*", host:port, another scheme */
        return refuse(h, ANSWER_BAD_REQUEST);
    struct str before, query = str_split(path, '?', &before);
    r->path = span(h, before);
    if (query.ptr)
        r->query = span(h, query);
    return true;
}

/* --- headers --- */

/* Digits without a leading zero that fit; more than max_body is another answer than nonsense. */
static bool content_length(struct head *h)
{
    uint64_t v = 0;
    if (h->length || h->coding || !digits(h->value) || h->value.len > 18 ||
        (h->value.ptr[0] == '0' && h->value.len > 1))
        return refuse(h, ANSWER_BAD_REQUEST);
    for (size_t i = 0; i < h->value.len; i++)
        v = v * 10 + (uint64_t)(h->value.ptr[i] - '0');
    h->length = true;
    h->r->length = v > UINT32_MAX ? UINT32_MAX : (uint32_t)v;
    return true;
}

static bool transfer_encoding(struct head *h)
{
    if (h->length || h->coding || h->r->http_1_0)
        return refuse(h, ANSWER_BAD_REQUEST);
    if (!str_eq_nocase(h->value, STR("chunked")))
        return refuse(h, http_is_token(h->value) ? ANSWER_NOT_IMPLEMENTED : ANSWER_BAD_REQUEST);
    h->coding = true;
    return true;
}

static bool once(struct head *h, struct http_span *to)
{
    if (to->off)
        return refuse(h, ANSWER_BAD_REQUEST);
    *to = span(h, h->value);
    return true;
}

static struct str trim(struct str s)
{
    while (s.len && (s.ptr[0] == ' ' || s.ptr[0] == '\t'))
        s.ptr++, s.len--;
    while (s.len && (s.ptr[s.len - 1] == ' ' || s.ptr[s.len - 1] == '\t'))
        s.len--;
    return s;
}

static bool connection(struct head *h)
{
    struct str rest = h->value, one;
    while (rest.ptr) {
        rest = str_split(rest, ',', &one);
        one = trim(one);
        if (str_eq_nocase(one, STR("close")))
            h->connection_close = true;
        else if (str_eq_nocase(one, STR("keep-alive")))
            h->connection_keep_alive = true;
    }
    return true;
}

static bool expect(struct head *h)
{
    if (h->expect || !str_eq_nocase(h->value, STR("100-continue")))
        return refuse(h, ANSWER_BAD_REQUEST);
    h->expect = true;
    return true;
}

static inline bool is(struct head *h, const char *lower)
{
    for (size_t i = 0; i < h->name.len; i++) {
        char c = h->name.ptr[i];
        if ((c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c) != lower[i])
            return false;
    }
    return true;
}

static bool header(struct head *h)
{
    struct http_request *r = h->r;
    h->headers++;
    h->value = trim(h->value);
    if (!http_is_token(h->name))
        return refuse(h, ANSWER_BAD_REQUEST);
    switch (h->name.len) {
    case 4:
        return !is(h, "host") || once(h, &r->host);
    case 6:
        return !is(h, "expect") || expect(h);
    case 10:
        if (is(h, "connection"))
            return connection(h);
        if (is(h, "tracestate") && !r->tracestate.off)
            r->tracestate = span(h, h->value);
        return true;
    case 11:
        if (is(h, "traceparent")) { /* two of them: none (W3C) */
            h->two_traces = r->traceparent.off;
            r->traceparent = span(h, h->value);
        }
        return true;
    case 12:
        return !is(h, "content-type") || once(h, &r->content_type);
    case 13:
        return !is(h, "authorization") || once(h, &r->authorization);
    case 14:
        return !is(h, "content-length") || content_length(h);
    case 15:
        return !is(h, "idempotency-key") || once(h, &r->idempotency_key);
    case 17:
        return !is(h, "transfer-encoding") || transfer_encoding(h);
    default:
        return true;
    }
}

/* --- llhttp --- */

static int on_name(llhttp_t *p, const char *at, size_t n)
{
    struct head *h = p->data;
    h->name = (struct str){at, n};
    h->value = (struct str){at + n, 0};
    return 0;
}

static int on_value(llhttp_t *p, const char *at, size_t n)
{
    struct head *h = p->data;
    h->value = (struct str){at, n};
    return 0;
}

static int on_header(llhttp_t *p)
{
    return header(p->data) ? 0 : HPE_USER;
}

static int on_head(llhttp_t *p)
{
    (void)p;
    return HPE_PAUSED; /* the body is ours */
}

static const llhttp_settings_t settings = {
    .on_header_field = on_name,
    .on_header_value = on_value,
    .on_header_value_complete = on_header,
    .on_headers_complete = on_head,
};

static bool headers(struct head *h)
{
    struct http_request *r = h->r;
    llhttp_init(&h->parser, HTTP_REQUEST, &settings);
    h->parser.data = h;
    llhttp_errno_t rc = llhttp_execute(&h->parser, h->bytes + r->first, r->head_len - r->first);
    /* Paused at the very end of what the scan took for the head, with as many headers as the scan
     * saw lines. */
    return rc == HPE_PAUSED && h->headers == r->lines - 1;
}

static bool conclude(struct head *h)
{
    struct http_request *r = h->r;
    if (r->host.off ? !http_host_ok(http_span_str(r->host, h->bytes)) : !r->http_1_0)
        return refuse(h, ANSWER_BAD_REQUEST);
    if (!split_target(h))
        return false;
    if (h->coding != ((h->parser.flags & F_CHUNKED) != 0) ||
        h->length != ((h->parser.flags & F_CONTENT_LENGTH) != 0) ||
        (h->length && r->length != UINT32_MAX && h->parser.content_length != r->length))
        return refuse(h, ANSWER_BAD_REQUEST);
    if (r->length > r->max_body)
        return refuse(h, ANSWER_CONTENT_TOO_LARGE);
    if (h->coding)
        r->phase = HTTP_PHASE_CHUNKED;
    if (h->two_traces)
        r->traceparent = r->tracestate = (struct http_span){0, 0};
    r->keep_alive = !h->connection_close && (!r->http_1_0 || h->connection_keep_alive);
    r->expects_continue = h->expect && !r->http_1_0 && (h->coding || r->length);
    return true;
}

bool http_head_parse(struct http_request *r, const char *bytes, enum answer *refusal)
{
    struct head h = {.r = r, .bytes = bytes, .refusal = ANSWER_BAD_REQUEST};
    if (request_line(&h) && headers(&h) && conclude(&h))
        return true;
    *refusal = h.refusal;
    return false;
}
