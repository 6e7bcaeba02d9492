#include "adapter/http/answer.h"

#include "base/json.h"
#include "base/panic.h"
#include <pthread.h>
#include <stdio.h>
#include <time.h>

static const struct status {
    int status;
    struct str line;
} statuses[HTTP_STATUSES - 1] = {
#define S(code, reason)                                                                            \
    {                                                                                              \
        code,                                                                                      \
        {                                                                                          \
            "HTTP/1.1 " #code " " reason "\r\n", sizeof("HTTP/1.1 " #code " " reason "\r\n") - 1   \
        }                                                                                          \
    }
    S(200, "OK"),
    S(201, "Created"),
    S(202, "Accepted"),
    S(204, "No Content"),
    S(304, "Not Modified"),
    S(400, "Bad Request"),
    S(401, "Unauthorized"),
    S(403, "Forbidden"),
    S(404, "Not Found"),
    S(405, "Method Not Allowed"),
    S(406, "Not Acceptable"),
    S(408, "Request Timeout"),
    S(409, "Conflict"),
    S(410, "Gone"),
    S(412, "Precondition Failed"),
    S(413, "Content Too Large"),
    S(414, "URI Too Long"),
    S(415, "Unsupported Media Type"),
    S(422, "Unprocessable Content"),
    S(425, "Too Early"),
    S(429, "Too Many Requests"),
    S(431, "Request Header Fields Too Large"),
    S(500, "Internal Server Error"),
    S(501, "Not Implemented"),
    S(503, "Service Unavailable"),
    S(504, "Gateway Timeout"),
    S(505, "HTTP Version Not Supported"),
#undef S
};

/* A problem's head and body up to where it varies. */
static struct form {
    char head[192], body[224];
    size_t head_len, body_len;
} forms[ANSWERS];
static unsigned char index_of[600]; /* status → index + 1 */

static void prepare(void)
{
    for (int i = 0; i < HTTP_STATUSES - 1; i++)
        index_of[statuses[i].status] = (unsigned char)(i + 1);
    for (int a = 0; a < ANSWERS; a++) {
        const struct answer_info *info = answer_info(a);
        struct form *f = &forms[a];
        int n =
            snprintf(f->head, sizeof f->head, "%sContent-Type: application/problem+json\r\n",
                     index_of[info->status] ? statuses[index_of[info->status] - 1].line.ptr : "");
        if (n > 0 && info->retry_after_s)
            n += snprintf(f->head + n, sizeof f->head - (size_t)n, "Retry-After: %d\r\n",
                          info->retry_after_s);
        int m = snprintf(f->body, sizeof f->body,
                         "{\"type\":\"about:blank\",\"title\":\"%s\",\"status\":%d,\"code\":\"%s\","
                         "\"retryable\":%s",
                         info->title, info->status, info->code, info->retryable ? "true" : "false");
        if (!index_of[info->status] || n < 0 || (size_t)n >= sizeof f->head || m < 0 ||
            (size_t)m >= sizeof f->body)
            panic("http: the answer %s does not fit its form", info->code);
        f->head_len = (size_t)n;
        f->body_len = (size_t)m;
    }
}

static void prepared(void)
{
    static pthread_once_t done = PTHREAD_ONCE_INIT;
    pthread_once(&done, prepare);
}

int http_status_index(int status)
{
    prepared();
    unsigned i = status >= 0 && status < 600 ? index_of[status] : 0;
    return i ? (int)i - 1 : HTTP_STATUSES - 1;
}

void http_date_refresh(struct http_date *d, int64_t now_us, int64_t wall_us)
{
    static const char days[] = "SunMonTueWedThuFriSat",
                      months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    time_t t = (time_t)(wall_us / 1000000);
    struct tm tm;
    gmtime_r(&t, &tm);
    snprintf(d->line, sizeof d->line, "Date: %.3s, %02u %.3s %04u %02u:%02u:%02u GMT\r\n",
             days + tm.tm_wday * 3, (unsigned)tm.tm_mday % 100, months + tm.tm_mon * 3,
             (unsigned)(tm.tm_year + 1900) % 10000, (unsigned)tm.tm_hour % 100,
             (unsigned)tm.tm_min % 100, (unsigned)tm.tm_sec % 100);
    d->until_us = now_us + 1000000 - wall_us % 1000000;
}

static char *put(char *at, const void *bytes, size_t n)
{
    memcpy(at, bytes, n);
    return at + n;
}

static char *put_str(char *at, struct str s)
{
    return s.len ? put(at, s.ptr, s.len) : at;
}

#define PUT(at, literal) put(at, literal, sizeof(literal) - 1)

/* Date, Content-Length, Connection: what follows the status line and ends the head. At most ENDING
 * bytes. */
enum { ENDING = HTTP_DATE_LINE + 64 + 32 };
#define NO_LENGTH SIZE_MAX /* 204 and 304 */
static char *put_ending(char *at, const struct http_frame *f, size_t body_len)
{
    at = put(at, f->date->line, HTTP_DATE_LINE);
    if (body_len != NO_LENGTH) {
        at = PUT(at, "Content-Length: ");
        at += str_from_u64(at, body_len);
        at = PUT(at, "\r\n");
    }
    if (f->ending == HTTP_CLOSE)
        at = PUT(at, "Connection: close\r\n");
    else if (f->ending == HTTP_KEEP_1_0)
        at = PUT(at, "Connection: keep-alive\r\n");
    return PUT(at, "\r\n");
}

bool http_answer_write(struct http_out_pool *p, struct http_out **out, const struct http_frame *f,
                       int status, struct str content_type, struct str extra, struct str body)
{
    char *start = http_out_reserve(p, out, 64 + content_type.len + extra.len + ENDING + body.len);
    if (!start)
        return false;
    int i = http_status_index(status);
    char *at = start;
    if (i < HTTP_STATUSES - 1)
        at = put_str(at, statuses[i].line);
    else
        at += snprintf(at, 64, "HTTP/1.1 %03u Other\r\n", (unsigned)status % 1000);
    if (content_type.len) {
        at = PUT(at, "Content-Type: ");
        at = put_str(at, content_type);
        at = PUT(at, "\r\n");
    }
    at = put_str(at, extra);
    bool bare = status == 204 || status == 304;
    at = put_ending(at, f, bare ? NO_LENGTH : body.len);
    if (!f->head_only && !bare)
        at = put_str(at, body);
    (*out)->len += (uint32_t)(at - start);
    return true;
}

bool http_problem_write(struct http_out_pool *p, struct http_out **out, const struct http_frame *f,
                        enum answer a, const struct uuid *request_id, const char *detail,
                        struct str members, struct str extra)
{
    prepared();
    const struct form *form = &forms[a];
    char quoted_mem[1024];
    struct strbuf quoted;
    strbuf_init_fixed(&quoted, quoted_mem, sizeof quoted_mem);
    if (detail)
        json_add_string(&quoted, str_of(detail));
    if (quoted.failed) /* too long: left out rather than cut */
        quoted.len = 0;

    static const char rid[] = ",\"request_id\":\"", det[] = ",\"detail\":";
    size_t body = form->body_len + 1;
    body += request_id ? sizeof rid - 1 + UUID_TEXT + 1 : 0;
    body += quoted.len ? sizeof det - 1 + quoted.len : 0;
    body += members.len ? 1 + members.len : 0;

    char *start = http_out_reserve(p, out, form->head_len + extra.len + ENDING + body);
    if (!start)
        return false;
    char *at = put(start, form->head, form->head_len);
    at = put_str(at, extra);
    at = put_ending(at, f, body);
    if (!f->head_only) {
        at = put(at, form->body, form->body_len);
        if (request_id) {
            at = put(at, rid, sizeof rid - 1);
            uuid_format(request_id, at);
            at += UUID_TEXT;
            *at++ = '"';
        }
        if (quoted.len) {
            at = put(at, det, sizeof det - 1);
            at = put(at, quoted.ptr, quoted.len);
        }
        if (members.len) {
            *at++ = ',';
            at = put_str(at, members);
        }
        *at++ = '}';
    }
    (*out)->len += (uint32_t)(at - start);
    return true;
}
