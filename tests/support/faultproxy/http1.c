/* HTTP/1. `match` is a part of the request line without its version: "POST /v1/orders". After an
 * upgrade (101) and CONNECT the protocol is lost. */
#include "drop.h"
#include "ordered.h"

#include <llhttp.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_MAX = 2048, HEADS_MAX = 4096 };

struct http1 {
    struct ordered ordered;
    llhttp_t request, reply;
    char text[TEXT_MAX];
    size_t n_text;
    /* Of each request under way, whether its reply has no body (HEAD). */
    bool heads[HEADS_MAX];
    size_t asked, answered;
    bool begun;
};

static int on_begin(llhttp_t *p)
{
    struct http1 *h = p->data;
    h->n_text = 0;
    return 0;
}

static void add_text(struct http1 *h, const char *at, size_t n)
{
    size_t room = TEXT_MAX - h->n_text;
    memcpy(h->text + h->n_text, at, n < room ? n : room);
    h->n_text += n < room ? n : room;
}

static int on_url(llhttp_t *p, const char *at, size_t n)
{
    struct http1 *h = p->data;
    if (h->n_text == 0) {
        const char *method = llhttp_method_name(p->method);
        add_text(h, method, strlen(method));
        add_text(h, " ", 1);
    }
    add_text(h, at, n);
    return 0;
}

static int on_request_headers(llhttp_t *p)
{
    struct http1 *h = p->data;
    struct str text = {h->text, h->n_text};
    if (h->asked - h->answered == HEADS_MAX) {
        tracker_lost(h->ordered.tracker, "too many requests under way");
        return 0;
    }
    h->heads[h->asked++ % HEADS_MAX] = p->method == HTTP_HEAD;
    ordered_ask(&h->ordered,
                drop_choose(tracker_conn(h->ordered.tracker), "http1", drop_contains, &text, text));
    return 0;
}

/* 1: there is no body, whatever the head says. */
static int on_reply_headers(llhttp_t *p)
{
    struct http1 *h = p->data;
    return p->status_code >= 200 && h->heads[h->answered % HEADS_MAX];
}

static int on_reply_complete(llhttp_t *p)
{
    (void)p;
    return HPE_PAUSED;
}

static const llhttp_settings_t request_callbacks = {
    .on_message_begin = on_begin, .on_url = on_url, .on_headers_complete = on_request_headers};
static const llhttp_settings_t reply_callbacks = {.on_headers_complete = on_reply_headers,
                                                  .on_message_complete = on_reply_complete};

static void *http1_open(struct tracker *t)
{
    struct http1 *h = calloc(1, sizeof *h);
    if (!h)
        return NULL;
    ordered_init(&h->ordered, t);
    llhttp_init(&h->request, HTTP_REQUEST, &request_callbacks);
    llhttp_init(&h->reply, HTTP_RESPONSE, &reply_callbacks);
    h->request.data = h->reply.data = h;
    return h;
}

static void http1_close(void *state)
{
    struct http1 *h = state;
    ordered_deinit(&h->ordered);
    free(h);
}

static void http1_request(void *state, const char *bytes, size_t n)
{
    struct http1 *h = state;
    if (llhttp_execute(&h->request, bytes, n) != HPE_OK)
        tracker_lost(h->ordered.tracker, llhttp_errno_name(llhttp_get_errno(&h->request)));
}

static size_t feed(void *parser, const char *bytes, size_t n, enum ordered_event *event)
{
    struct http1 *h = parser;
    if (!h->begun) {
        h->begun = true;
        *event = ORDERED_BEGIN;
        return 0;
    }
    llhttp_errno_t rc = llhttp_execute(&h->reply, bytes, n);
    if (rc == HPE_OK)
        return n;
    if (rc != HPE_PAUSED || h->reply.status_code == 101) {
        *event = ORDERED_LOST;
        return 0;
    }
    size_t used = (size_t)(llhttp_get_error_pos(&h->reply) - bytes);
    llhttp_resume(&h->reply);
    if (h->reply.status_code >= 200) { /* what is below announces the reply */
        *event = ORDERED_END;
        h->begun = false;
        h->answered++;
    }
    return used;
}

static void http1_reply(void *state, const char *bytes, size_t n)
{
    struct http1 *h = state;
    ordered_reply(&h->ordered, feed, h, bytes, n);
}

static void http1_reply_end(void *state)
{
    struct http1 *h = state;
    ordered_reply_end(&h->ordered);
}

const struct protocol protocol_http1 = {.name = "http1",
                                        .open = http1_open,
                                        .close = http1_close,
                                        .on_request = http1_request,
                                        .on_reply = http1_reply,
                                        .on_reply_end = http1_reply_end};
