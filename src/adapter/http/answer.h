/* The bytes of an answer: status lines, the Date header, problem bodies, prepared once. */
#pragma once

#include "adapter/http/out.h"
#include "base/str.h"
#include "core/uuid.h"
#include "core/verdict.h"

struct http_date {
    int64_t until_us; /* monotonic: when the text becomes wrong */
    char line[40];    /* "Date: Tue, 15 Nov 1994 08:12:31 GMT\r\n" */
};
enum { HTTP_DATE_LINE = 37 };

void http_date_refresh(struct http_date *d, int64_t now_us, int64_t wall_us);

/* How the connection goes on, as the answer's head says it. */
enum http_ending {
    HTTP_KEEP,
    HTTP_KEEP_1_0 /* said, since HTTP/1.0 expects otherwise */,
    HTTP_CLOSE
};

struct http_frame {
    const struct http_date *date;
    enum http_ending ending;
    bool head_only; /* HEAD: the body is measured but not sent */
};

/* Appends one answer to *out. False without memory or beyond HTTP_OUT_MAX: nothing was appended. */
bool http_answer_write(struct http_out_pool *p, struct http_out **out, const struct http_frame *f,
                       int status, struct str content_type, struct str extra, struct str body);
bool http_problem_write(struct http_out_pool *p, struct http_out **out, const struct http_frame *f,
                        enum answer a, const struct uuid *request_id, const char *detail,
                        struct str members, struct str extra);

/* Statuses by a small number, for tables; 0 … HTTP_STATUSES - 1, the last one is "any other". */
enum { HTTP_STATUSES = 28 };
int http_status_index(int status);
