/* RESP2 and RESP3, from the client arrays of bulk strings. `match` is words: the command's name,
 * and then the beginnings of its arguments ("SET key:", "EVALSHA 0123abcd"); one word alone is also
 * the beginning of a script's digest or a function's name, for EVALSHA, EVAL (whose script's digest
 * is taken), FCALL and their read-only forms. Pushed messages are no replies; after SUBSCRIBE,
 * MONITOR and CLIENT REPLY the replies cannot be counted, and the protocol is lost. */
#include "core/sha1.h"
#include "drop.h"
#include "ordered.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { WORDS = 4, WORD_MAX = 160, LINE_MAX_BYTES = 64, DEPTH_MAX = 32 };

/* One line or bulk string at a time, in either direction. */
enum item_state { ITEM_LINE, ITEM_BULK, ITEM_BULK_END };

struct request {
    enum item_state state;
    char line[LINE_MAX_BYTES];
    size_t n_line;
    int64_t args_left, arg; /* of the command that is being read; arg: the number of the next one */
    int64_t bulk_left;
    char word[WORDS][WORD_MAX];
    size_t n_word[WORDS];
    struct sha1 digest; /* of the second word */
};

struct reply {
    enum item_state state;
    char line[LINE_MAX_BYTES];
    size_t n_line;
    int64_t bulk_left;
    int64_t left[DEPTH_MAX]; /* values missing at each depth */
    int depth;
    char top;   /* the outermost value's kind; 0 between values */
    bool begun; /* BEGIN was told */
};

struct resp {
    struct ordered ordered;
    struct request request;
    struct reply reply;
};

static void *resp_open(struct tracker *t)
{
    struct resp *r = calloc(1, sizeof *r);
    if (r)
        ordered_init(&r->ordered, t);
    return r;
}

static void resp_close(void *state)
{
    struct resp *r = state;
    ordered_deinit(&r->ordered);
    free(r);
}

/* --- requests --- */

static bool word_is(const struct request *q, int i, const char *what)
{
    return strcasecmp(q->word[i], what) == 0;
}

static bool is_script(const struct request *q)
{
    static const char *const names[] = {"EVALSHA", "EVAL",  "EVALSHA_RO",
                                        "EVAL_RO", "FCALL", "FCALL_RO"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (word_is(q, 0, names[i]))
            return true;
    return false;
}

/* Whether the words of match stand at q's word `at` and behind; the first one complete if whole. */
static bool words_match(const struct request *q, int at, const char *match, bool whole)
{
    for (bool first = true; *match; first = false) {
        match += strspn(match, " ");
        size_t n = strcspn(match, " ");
        if (!n)
            break;
        if (at == WORDS || q->n_word[at] < n || strncasecmp(q->word[at], match, n) ||
            (first && whole && q->word[at][n]))
            return false;
        match += n;
        at++;
    }
    return true;
}

static bool matches(const char *match, const void *request)
{
    const struct request *q = request;
    return words_match(q, 0, match, true) || (is_script(q) && words_match(q, 1, match, false));
}

static bool uncountable(const struct request *q)
{
    static const char *const names[] = {"SUBSCRIBE",   "PSUBSCRIBE",   "SSUBSCRIBE",
                                        "UNSUBSCRIBE", "PUNSUBSCRIBE", "SUNSUBSCRIBE",
                                        "MONITOR",     "SYNC",         "PSYNC"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (word_is(q, 0, names[i]))
            return true;
    return word_is(q, 0, "CLIENT") && word_is(q, 1, "REPLY");
}

static void take_digest(struct request *q)
{
    unsigned char digest[SHA1_BYTES];
    sha1_end(&q->digest, digest);
    for (int i = 0; i < SHA1_BYTES; i++) {
        q->word[1][2 * i] = "0123456789abcdef"[digest[i] >> 4];
        q->word[1][2 * i + 1] = "0123456789abcdef"[digest[i] & 15];
    }
    q->word[1][2 * SHA1_BYTES] = 0;
    q->n_word[1] = 2 * SHA1_BYTES;
}

static void on_command(struct resp *r)
{
    struct request *q = &r->request;
    char text[WORDS * WORD_MAX];
    size_t n = 0;
    if (word_is(q, 0, "EVAL") || word_is(q, 0, "EVAL_RO"))
        take_digest(q);
    if (uncountable(q)) {
        tracker_lost(r->ordered.tracker, q->word[0]);
        return;
    }
    for (int i = 0; i < WORDS && q->n_word[i]; i++) {
        if (i)
            text[n++] = ' ';
        memcpy(text + n, q->word[i], q->n_word[i]);
        n += q->n_word[i];
    }
    ordered_ask(&r->ordered, drop_choose(tracker_conn(r->ordered.tracker), "resp", matches, q,
                                         (struct str){text, n}));
}

static void begin_command(struct request *q, int64_t args)
{
    q->args_left = args;
    q->arg = 0;
    memset(q->word, 0, sizeof q->word);
    memset(q->n_word, 0, sizeof q->n_word);
    sha1_init(&q->digest);
}

/* A line is complete. False: it is none of the protocol. */
static bool request_line(struct resp *r)
{
    struct request *q = &r->request;
    char *end;
    long long n = strtoll(q->line + 1, &end, 10);
    bool number = end != q->line + 1 && *end == 0;
    if (q->args_left == 0) {
        if (q->n_line == 0)
            return true;
        if (q->line[0] == '*' && number) {
            begin_command(q, n > 0 ? n : 0); /* an empty command has no reply */
            return true;
        }
        if (!isalpha((unsigned char)q->line[0])) /* or an inline command, for people */
            return false;
        begin_command(q, 0);
        q->n_word[0] = strcspn(q->line, " ");
        memcpy(q->word[0], q->line, q->n_word[0]);
        on_command(r);
        return true;
    }
    if (q->line[0] != '$' || !number || n < 0)
        return false;
    q->bulk_left = n;
    q->state = n ? ITEM_BULK : ITEM_BULK_END;
    return true;
}

static void request_bulk(struct request *q, const char *bytes, size_t n)
{
    if (q->arg < WORDS) {
        size_t *have = &q->n_word[q->arg], room = WORD_MAX - 1 - *have;
        size_t take = n < room ? n : room;
        memcpy(q->word[q->arg] + *have, bytes, take);
        *have += take;
    }
    if (q->arg == 1)
        sha1_add(&q->digest, bytes, n);
}

/* Collects a line without its end. 1: complete; 0: more is needed; -1: too long. */
static int line_char(char *line, size_t *n, char c)
{
    if (c == '\n') {
        if (*n && line[*n - 1] == '\r')
            (*n)--;
        line[*n] = 0;
        return 1;
    }
    if (*n + 1 == LINE_MAX_BYTES)
        return -1;
    line[(*n)++] = c;
    return 0;
}

static bool request_char(struct resp *r, char c)
{
    struct request *q = &r->request;
    if (q->state == ITEM_BULK_END) {
        if (c == '\n') {
            q->state = ITEM_LINE;
            q->arg++;
            if (--q->args_left == 0)
                on_command(r);
        }
        return c == '\r' || c == '\n';
    }
    int done = line_char(q->line, &q->n_line, c);
    if (done > 0) {
        bool ok = request_line(r);
        q->n_line = 0;
        return ok;
    }
    return done == 0;
}

static void resp_request(void *state, const char *bytes, size_t n)
{
    struct resp *r = state;
    struct request *q = &r->request;
    while (n) {
        size_t used = 1;
        if (q->state == ITEM_BULK) {
            used = (int64_t)n < q->bulk_left ? n : (size_t)q->bulk_left;
            request_bulk(q, bytes, used);
            q->bulk_left -= (int64_t)used;
            if (!q->bulk_left)
                q->state = ITEM_BULK_END;
        } else if (!request_char(r, *bytes)) {
            tracker_lost(r->ordered.tracker, "a request that is none");
            return;
        }
        bytes += used;
        n -= used;
    }
}

/* --- replies --- */

/* A value is complete: so may be those around it. True: the outermost one. */
static bool value_end(struct reply *p)
{
    while (p->depth && --p->left[p->depth - 1] == 0)
        p->depth--;
    return p->depth == 0;
}

static bool open_aggregate(struct reply *p, char kind, int64_t n, enum ordered_event *event)
{
    if (kind == '%' || kind == '|')
        n *= 2;
    if (n <= 0)
        return value_end(p);
    if (p->depth == DEPTH_MAX)
        *event = ORDERED_LOST;
    else
        p->left[p->depth++] = n;
    return false;
}

/* True: with this line the outermost value is complete. */
static bool reply_line(struct reply *p, enum ordered_event *event)
{
    char kind = p->line[0];
    int64_t n = strtoll(p->line + 1, NULL, 10);
    switch (kind) {
    case '+':
    case '-':
    case ':':
    case ',':
    case '(':
    case '#':
    case '_':
        return value_end(p);
    case '$':
    case '!':
    case '=':
        if (n < 0)
            return value_end(p);
        p->bulk_left = n;
        p->state = n ? ITEM_BULK : ITEM_BULK_END;
        return false;
    case '*':
    case '~':
    case '>':
    case '%':
    case '|':
        return open_aggregate(p, kind, n, event);
    default:
        *event = ORDERED_LOST;
        return false;
    }
}

/* Long lines (errors) are only needed by their beginning. */
static int reply_char(struct reply *p, char c)
{
    if (c != '\n' && p->n_line + 1 == LINE_MAX_BYTES)
        return 0;
    return line_char(p->line, &p->n_line, c);
}

/* The outermost value is complete. A push is no reply, an attribute belongs to the one behind it.
 */
static void top_end(struct reply *p, enum ordered_event *event)
{
    char top = p->top;
    p->top = 0;
    if (top == '>' || top == '|')
        return;
    p->begun = false;
    *event = ORDERED_END;
}

static size_t feed(void *parser, const char *bytes, size_t n, enum ordered_event *event)
{
    struct reply *p = parser;
    size_t at = 0;
    while (at < n && *event == ORDERED_NOTHING) {
        if (!p->top) {
            if (bytes[at] != '>' && !p->begun) {
                p->begun = true;
                *event = ORDERED_BEGIN;
                return at;
            }
            p->top = bytes[at];
        }
        bool over = false;
        if (p->state == ITEM_BULK) {
            size_t take = (int64_t)(n - at) < p->bulk_left ? n - at : (size_t)p->bulk_left;
            p->bulk_left -= (int64_t)take;
            at += take;
            if (!p->bulk_left)
                p->state = ITEM_BULK_END;
            continue;
        }
        char c = bytes[at++];
        if (p->state == ITEM_BULK_END) {
            if (c == '\n') {
                p->state = ITEM_LINE;
                over = value_end(p);
            }
        } else if (reply_char(p, c) > 0) {
            over = reply_line(p, event);
            p->n_line = 0;
        }
        if (over)
            top_end(p, event);
    }
    return at;
}

static void resp_reply(void *state, const char *bytes, size_t n)
{
    struct resp *r = state;
    ordered_reply(&r->ordered, feed, &r->reply, bytes, n);
}

const struct protocol protocol_resp = {.name = "resp",
                                       .open = resp_open,
                                       .close = resp_close,
                                       .on_request = resp_request,
                                       .on_reply = resp_reply};
