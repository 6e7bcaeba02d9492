#include "drop.h"
#include "protocol.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { SNIFF_MAX = 16 };

struct tracker {
    struct conn *conn;
    const struct protocol *protocol; /* NULL: not known yet, or plain bytes */
    void *state;
    bool decided, lost;
    bool muted;            /* the sniffed bytes have passed already */
    char first[SNIFF_MAX]; /* the client's first bytes while it is undecided */
    size_t n_first;
    char tail[TOXIC_TEXT]; /* the client's last bytes: a match may be cut in two */
    size_t n_tail;
    struct toxic *swallower; /* nothing more reaches the client; its counters take it */
    struct toxic *plain_by;  /* protocol "bytes": drops the next that comes */
};

struct conn *tracker_conn(const struct tracker *t)
{
    return t->conn;
}

const char *tracker_protocol(const struct tracker *t)
{
    return t->protocol ? t->protocol->name : "bytes";
}

struct tracker *tracker_new(struct conn *c)
{
    struct tracker *t = calloc(1, sizeof *t);
    if (t)
        t->conn = c;
    return t;
}

void tracker_free(struct tracker *t)
{
    if (t && t->protocol)
        t->protocol->close(t->state);
    if (t) {
        toxic_unref(t->swallower);
        toxic_unref(t->plain_by);
    }
    free(t);
}

static void log_event(struct tracker *t, const char *event, const char *key, const char *value)
{
    struct decide_about a = conn_about(t->conn, event, NULL, 0);
    if (!t->conn->dead)
        decide_log(&t->conn->proxy->of->decide, event, &a, json_pack("{s:s}", key, value));
}

void tracker_lost(struct tracker *t, const char *why)
{
    if (t->lost)
        return;
    t->lost = true;
    log_event(t, "protocol_lost", "why", why);
    if (t->protocol && t->protocol->flush)
        t->protocol->flush(t->state);
}

bool tracker_is_lost(const struct tracker *t)
{
    return t->lost;
}

void tracker_pass(struct tracker *t, enum stream stream, const void *bytes, size_t n)
{
    if (stream == STREAM_UPSTREAM && t->muted)
        return;
    if (stream == STREAM_DOWNSTREAM && t->swallower) {
        t->swallower->swallowed += (int64_t)n;
        return;
    }
    link_emit(&t->conn->links[stream], bytes, n);
}

void tracker_swallow(struct tracker *t, struct toxic *by)
{
    if (!t->swallower)
        t->swallower = toxic_ref(by);
}

struct toxic *tracker_swallower(const struct tracker *t)
{
    return t->swallower;
}

/* --- which protocol it is --- */

static bool is_method(const char *b, size_t n)
{
    size_t i = 0;
    while (i < n && isupper((unsigned char)b[i]))
        i++;
    return i >= 3 && i + 1 < n && b[i] == ' ' &&
           (b[i + 1] == '/' || b[i + 1] == '*' || b[i + 1] == 'h');
}

/* NULL in *what: plain bytes. False: it takes more bytes to tell. */
static bool sniff(const char *b, size_t n, const struct protocol **what)
{
    static const char preface[] = "PRI * HTTP/2.0";
    *what = NULL;
    if (b[0] == '*' && n >= 2) {
        *what = isdigit((unsigned char)b[1]) ? &protocol_resp : NULL;
        return true;
    }
    if (n >= 8 && b[0] == 0 && b[1] == 0) {
        uint32_t code = (uint32_t)(unsigned char)b[4] << 24 | (uint32_t)(unsigned char)b[5] << 16 |
                        (uint32_t)(unsigned char)b[6] << 8 | (unsigned char)b[7];
        if (code >> 16 == 3 || (code >> 16 == 1234 && (code & 0xffff) >= 5678))
            *what = &protocol_pgsql;
        return true;
    }
    if (n >= sizeof preface - 1 && memcmp(b, preface, sizeof preface - 1) == 0) {
        *what = &protocol_http2;
        return true;
    }
    bool may_be_h2 = memcmp(b, preface, n < sizeof preface - 1 ? n : sizeof preface - 1) == 0;
    if (!may_be_h2 && is_method(b, n)) {
        *what = &protocol_http1;
        return true;
    }
    bool plain = b[0] != '*' && b[0] != 0 && !isupper((unsigned char)b[0]);
    return plain || n == SNIFF_MAX;
}

static void decide_protocol(struct tracker *t)
{
    const struct protocol *what;
    if (!sniff(t->first, t->n_first, &what))
        return;
    t->decided = true;
    if (!what)
        return;
    t->state = what->open(t);
    if (!t->state)
        return;
    t->protocol = what;
    log_event(t, "protocol", "protocol", what->name);
}

/* --- protocol "bytes": a text in the client's stream, at most one match a read --- */

struct plain {
    struct str text;
    size_t old; /* bytes of earlier reads at the start: a match ends behind them */
};

static bool plain_matches(const char *match, const void *request)
{
    const struct plain *p = request;
    size_t n = strlen(match), skip = n && p->old >= n ? p->old - n + 1 : 0;
    struct str text = {p->text.ptr + skip, p->text.len - skip};
    return drop_contains(match, &text);
}

static void on_plain_request(struct tracker *t, const char *bytes, size_t n)
{
    char both[sizeof t->tail + LINK_READ];
    if (t->plain_by || n > LINK_READ)
        return;
    memcpy(both, t->tail, t->n_tail);
    memcpy(both + t->n_tail, bytes, n);
    struct plain p = {.text = {both, t->n_tail + n}, .old = t->n_tail};
    t->plain_by = drop_choose(t->conn, "bytes", plain_matches, &p, (struct str){bytes, n});
    if (t->plain_by)
        tracker_swallow(t, t->plain_by);
    size_t keep = p.text.len < sizeof t->tail ? p.text.len : sizeof t->tail;
    memcpy(t->tail, both + p.text.len - keep, keep);
    t->n_tail = keep;
}

/* Where a reply of plain bytes ends nobody knows: what has come at once is taken for it. */
static void on_plain_reply(struct tracker *t)
{
    struct toxic *by = t->plain_by;
    t->plain_by = NULL;
    if (by)
        drop_done(t->conn, by);
}

/* --- bytes come in --- */

static void give_request(struct tracker *t, const char *bytes, size_t n)
{
    if (t->protocol && !t->lost)
        t->protocol->on_request(t->state, bytes, n);
}

static void on_request(struct tracker *t, const char *bytes, size_t n)
{
    on_plain_request(t, bytes, n);
    if (t->decided) {
        if (!t->protocol || t->lost || !t->protocol->passes_requests)
            tracker_pass(t, STREAM_UPSTREAM, bytes, n);
        give_request(t, bytes, n);
        return;
    }
    /* Passed on at once, whatever it will turn out to be. */
    tracker_pass(t, STREAM_UPSTREAM, bytes, n);
    size_t take = n < SNIFF_MAX - t->n_first ? n : SNIFF_MAX - t->n_first;
    memcpy(t->first + t->n_first, bytes, take);
    t->n_first += take;
    decide_protocol(t);
    t->muted = true;
    if (t->decided) {
        give_request(t, t->first, t->n_first);
        give_request(t, bytes + take, n - take);
    }
    t->muted = false;
}

void tracker_bytes(struct tracker *t, enum stream stream, const char *bytes, size_t n)
{
    if (stream == STREAM_UPSTREAM) {
        on_request(t, bytes, n);
        return;
    }
    if (t->protocol && !t->lost)
        t->protocol->on_reply(t->state, bytes, n);
    else
        tracker_pass(t, STREAM_DOWNSTREAM, bytes, n);
    on_plain_reply(t);
}

void tracker_end(struct tracker *t, enum stream stream)
{
    if (stream != STREAM_DOWNSTREAM || !t->protocol || t->lost)
        return;
    if (t->protocol->on_reply_end)
        t->protocol->on_reply_end(t->state);
    if (t->protocol->flush)
        t->protocol->flush(t->state);
}
