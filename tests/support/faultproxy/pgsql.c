/* PostgreSQL's protocol 3. `match` is a part of the statement's text (simple query, or the one that
 * an Execute's portal was bound to) or of its prepared name: the reply of that Query, or of that
 * Execute, is dropped. "tag:COMMIT" is the beginning of a command's tag instead, as the server
 * tells it: from that CommandComplete on. Replies are ordered, so from there on nothing reaches the
 * client; the drop is complete with the ReadyForQuery that follows: by then the server has
 * committed what it commits. An Execute that is skipped after another's error is void.
 *
 *   client   Query … | Parse Bind Execute … Sync | FunctionCall      each Query, Execute, Sync asks
 *   server   … ReadyForQuery per Query, FunctionCall and Sync; CommandComplete, EmptyQueryResponse,
 *            PortalSuspended or ErrorResponse per Execute; after an error nothing until Sync */
#include "drop.h"
#include "protocol.h"

#include <stdlib.h>
#include <string.h>

enum { ASKED_MAX = 65536, NAME_MAX_BYTES = 128, KEEP_MAX = 8192, NAMED_MAX = 1024, TAG_MAX = 64 };
enum { CODE_SSL = 80877103, CODE_GSS = 80877104, CODE_CANCEL = 80877102 };

/* A prepared statement or a portal, and the text of its statement. */
struct named {
    struct named *next;
    char kind; /* 'S' or 'P' */
    char name[NAME_MAX_BYTES];
    size_t n_text;
    char text[];
};

struct asked {
    struct asked *next;
    char kind;        /* 'Q': until ReadyForQuery; 'E': until its completion; 'S': Sync */
    struct toxic *by; /* drops its reply, or NULL */
};

/* One message at a time: its type, length, and as much of its body as is of interest. */
struct message {
    unsigned char head[5];
    size_t n_head, n_body;
    uint32_t left;
    char type;
    bool held; /* passes when it is complete */
    char body[KEEP_MAX + 1];
};

struct pgsql {
    struct tracker *tracker;
    bool started;   /* the client's startup packet is over */
    bool raw_reply; /* one byte answers an encryption request */
    bool ready;     /* the server's first ReadyForQuery has come */
    bool skipping;  /* after an error: the server skips to a Sync that was not seen yet */
    struct message in, out;
    struct named *named;
    int n_named;
    struct asked *head, **tail;
    int n_asked;
    struct toxic *dropping; /* its reply is swallowed; complete with ReadyForQuery */
};

static void *pgsql_open(struct tracker *t)
{
    struct pgsql *p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    p->tracker = t;
    p->tail = &p->head;
    return p;
}

static struct asked take_asked(struct pgsql *p)
{
    struct asked *a = p->head, copy = *a;
    p->head = a->next;
    if (!p->head)
        p->tail = &p->head;
    p->n_asked--;
    free(a);
    return copy;
}

static void pgsql_close(void *state)
{
    struct pgsql *p = state;
    while (p->head)
        toxic_unref(take_asked(p).by);
    for (struct named *n = p->named, *next; n; n = next) {
        next = n->next;
        free(n);
    }
    toxic_unref(p->dropping);
    free(p);
}

/* --- statements and portals --- */

static struct named **find_named(struct pgsql *p, char kind, const char *name)
{
    struct named **at = &p->named;
    while (*at && ((*at)->kind != kind || strncmp((*at)->name, name, NAME_MAX_BYTES - 1)))
        at = &(*at)->next;
    return at;
}

static void forget(struct pgsql *p, char kind, const char *name)
{
    struct named **at = find_named(p, kind, name), *n = *at;
    if (!n)
        return;
    *at = n->next;
    p->n_named--;
    free(n);
}

/* Beyond the bound a statement stays unknown: it matches nothing. */
static void remember(struct pgsql *p, char kind, const char *name, struct str text)
{
    forget(p, kind, name);
    struct named *n = p->n_named < NAMED_MAX ? malloc(sizeof *n + text.len) : NULL;
    if (!n)
        return;
    n->kind = kind;
    str_copy(n->name, sizeof n->name, str_of(name));
    n->n_text = text.len;
    memcpy(n->text, text.ptr, text.len);
    n->next = p->named;
    p->named = n;
    p->n_named++;
}

static struct str text_of(struct pgsql *p, char kind, const char *name)
{
    struct named *n = *find_named(p, kind, name);
    return n ? (struct str){n->text, n->n_text} : STR("");
}

/* --- requests --- */

static bool statement_matches(const char *match, const void *request)
{
    return strncmp(match, "tag:", 4) && drop_contains(match, request);
}

static bool tag_matches(const char *match, const void *request)
{
    const struct str *tag = request;
    return strncmp(match, "tag:", 4) == 0 && str_starts(*tag, str_of(match + 4));
}

static void ask(struct pgsql *p, char kind, struct str text)
{
    struct asked *a = p->n_asked < ASKED_MAX ? malloc(sizeof *a) : NULL;
    if (!a) {
        tracker_lost(p->tracker, "too many requests under way");
        conn_kill(tracker_conn(p->tracker), true);
        return;
    }
    *a = (struct asked){.kind = kind};
    if (text.ptr)
        a->by = drop_choose(tracker_conn(p->tracker), "pgsql", statement_matches, &text, text);
    *p->tail = a;
    p->tail = &a->next;
    p->n_asked++;
}

static const char *second(const struct message *m)
{
    size_t n = strlen(m->body) + 1;
    return n < m->n_body ? m->body + n : "";
}

/* The prepared name is part of a statement's text: match may be either. */
static void on_parse(struct pgsql *p, const struct message *m)
{
    char text[KEEP_MAX + 2];
    const char *sql = second(m);
    size_t n_name = strnlen(m->body, NAME_MAX_BYTES), n = strlen(sql);
    memcpy(text, m->body, n_name);
    text[n_name] = ' ';
    if (n > sizeof text - n_name - 1)
        n = sizeof text - n_name - 1;
    memcpy(text + n_name + 1, sql, n);
    size_t skip = n_name ? 0 : 1;
    remember(p, 'S', m->body, (struct str){text + skip, n_name + 1 + n - skip});
}

static void on_frontend(struct pgsql *p, const struct message *m)
{
    switch (m->type) {
    case 'Q':
        ask(p, 'Q', (struct str){m->body, strlen(m->body)});
        break;
    case 'F':
        ask(p, 'Q', (struct str){NULL, 0});
        break;
    case 'P':
        on_parse(p, m);
        break;
    case 'B':
        remember(p, 'P', m->body, text_of(p, 'S', second(m)));
        break;
    case 'C':
        forget(p, m->body[0], m->n_body ? m->body + 1 : "");
        break;
    case 'E':
        if (!p->skipping)
            ask(p, 'E', text_of(p, 'P', m->body));
        break;
    case 'S':
        p->skipping = false;
        ask(p, 'S', (struct str){NULL, 0});
        break;
    default:
        break;
    }
}

/* The startup packet has no type. What is asked before it is answered with one byte. */
static void on_startup(struct pgsql *p, const struct message *m)
{
    const unsigned char *b = (const unsigned char *)m->body;
    uint32_t code = m->n_body < 4
                        ? 0
                        : (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
    if (code == CODE_SSL || code == CODE_GSS)
        p->raw_reply = true;
    else if (code >> 16 == 3)
        p->started = true;
    else
        tracker_lost(p->tracker, code == CODE_CANCEL ? "a cancel request" : "not protocol 3");
}

/* Takes bytes of the head. True: it is complete with this call. */
static bool head_feed(struct message *m, bool typed, const char **bytes, size_t *n)
{
    const unsigned char *h = m->head;
    if (!typed && m->n_head == 0)
        m->n_head = 1;
    while (*n && m->n_head < 5) {
        m->head[m->n_head++] = (unsigned char)*(*bytes)++;
        (*n)--;
    }
    if (m->n_head < 5)
        return false;
    uint32_t len = (uint32_t)h[1] << 24 | (uint32_t)h[2] << 16 | (uint32_t)h[3] << 8 | h[4];
    m->type = typed ? (char)h[0] : 0;
    m->left = len < 4 ? 0 : len - 4;
    m->n_body = 0;
    return true;
}

/* Consumes at most to the end of a message. True: it is complete. */
static bool message_feed(struct message *m, bool typed, const char **bytes, size_t *n)
{
    if (m->n_head < 5 && !head_feed(m, typed, bytes, n))
        return false;
    size_t take = *n < m->left ? *n : m->left, keep = KEEP_MAX - m->n_body;
    keep = take < keep ? take : keep;
    memcpy(m->body + m->n_body, *bytes, keep);
    m->n_body += keep;
    m->left -= (uint32_t)take;
    *bytes += take;
    *n -= take;
    if (m->left)
        return false;
    m->body[m->n_body] = 0;
    m->n_head = 0;
    return true;
}

static bool is_lost(struct pgsql *p)
{
    return tracker_is_lost(p->tracker);
}

static void pgsql_request(void *state, const char *bytes, size_t n)
{
    struct pgsql *p = state;
    while (n && !is_lost(p)) {
        bool started = p->started;
        if (!message_feed(&p->in, started, &bytes, &n))
            continue;
        if (started)
            on_frontend(p, &p->in);
        else
            on_startup(p, &p->in);
    }
}

/* --- replies --- */

/* Notices, notifications and parameters come at any time and answer nothing. */
static bool answers(char type)
{
    return type != 'N' && type != 'A' && type != 'S';
}

static void begin_dropping(struct pgsql *p, struct toxic *by /* taken */)
{
    if (p->dropping) { /* already lost with an earlier one */
        drop_void(tracker_conn(p->tracker), by);
        return;
    }
    tracker_swallow(p->tracker, by);
    p->dropping = by;
}

/* Before the message of this type passes. */
static void before(struct pgsql *p, char type)
{
    struct asked *a = p->head;
    if (!p->ready || !a || !a->by || !answers(type))
        return;
    begin_dropping(p, a->by);
    a->by = NULL;
}

/* The rest of the batch is skipped: it was not executed. */
static void on_error(struct pgsql *p)
{
    while (p->head && p->head->kind == 'E') {
        struct asked a = take_asked(p);
        if (a.by)
            drop_void(tracker_conn(p->tracker), a.by);
    }
    if (!p->head)
        p->skipping = true;
}

/* Its reply was not dropped, or it would have none to drop it any more: a server that talks before
 * it is ready. */
static void answered(struct pgsql *p)
{
    struct asked a = take_asked(p);
    if (a.by)
        drop_void(tracker_conn(p->tracker), a.by);
}

static void on_ready(struct pgsql *p)
{
    if (!p->ready) {
        p->ready = true;
        return;
    }
    if (!p->head || p->head->kind == 'E') {
        tracker_lost(p->tracker, "ready without a request");
        return;
    }
    answered(p);
    struct toxic *by = p->dropping;
    p->dropping = NULL;
    if (by)
        drop_done(tracker_conn(p->tracker), by);
    else if (tracker_swallower(p->tracker))
        tracker_swallower(p->tracker)->collateral++;
}

static void after(struct pgsql *p, char type)
{
    bool execute = p->head && p->head->kind == 'E';
    switch (type) {
    case 'C':
    case 'I':
    case 's':
        if (execute)
            answered(p);
        break;
    case 'E':
        if (p->ready && (execute || !p->head))
            on_error(p);
        break;
    case 'Z':
        on_ready(p);
        break;
    default:
        break;
    }
}

static void pass(struct pgsql *p, const char *bytes, size_t n)
{
    tracker_pass(p->tracker, STREAM_DOWNSTREAM, bytes, n);
}

static void pass_head(struct pgsql *p)
{
    pass(p, (const char *)p->out.head, 5);
}

/* A command's tag is short; it was held back until it was complete. */
static void on_tag(struct pgsql *p)
{
    struct message *m = &p->out;
    struct str tag = {m->body, strlen(m->body)};
    struct toxic *by =
        p->dropping ? NULL : drop_choose(tracker_conn(p->tracker), "pgsql", tag_matches, &tag, tag);
    if (by)
        begin_dropping(p, by);
    pass_head(p);
    pass(p, m->body, m->n_body);
}

/* Some bytes of one message. */
static void reply_some(struct pgsql *p, const char **bytes, size_t *n)
{
    struct message *m = &p->out;
    if (m->n_head < 5) {
        if (!head_feed(m, true, bytes, n))
            return;
        before(p, m->type);
        m->held = m->type == 'C' && m->left <= TAG_MAX;
        if (!m->held)
            pass_head(p);
    }
    size_t take = *n < m->left ? *n : m->left;
    if (m->held) {
        memcpy(m->body + m->n_body, *bytes, take);
        m->n_body += take;
        m->body[m->n_body] = 0;
    } else {
        pass(p, *bytes, take);
    }
    m->left -= (uint32_t)take;
    *bytes += take;
    *n -= take;
    if (m->left)
        return;
    if (m->held)
        on_tag(p);
    m->n_head = 0;
    after(p, m->type);
}

static void pgsql_reply(void *state, const char *bytes, size_t n)
{
    struct pgsql *p = state;
    if (p->raw_reply && n) {
        p->raw_reply = false;
        pass(p, bytes, 1);
        if (*bytes != 'N')
            tracker_lost(p->tracker, "it is encrypted");
        bytes++;
        n--;
    }
    while (n && !is_lost(p))
        reply_some(p, &bytes, &n);
    pass(p, bytes, n);
}

static void pgsql_flush(void *state)
{
    struct pgsql *p = state;
    struct message *m = &p->out;
    pass(p, (const char *)m->head, m->n_head < 5 || m->held ? m->n_head : 0);
    if (m->n_head == 5 && m->held)
        pass(p, m->body, m->n_body);
    m->n_head = 0;
}

const struct protocol protocol_pgsql = {.name = "pgsql",
                                        .open = pgsql_open,
                                        .close = pgsql_close,
                                        .on_request = pgsql_request,
                                        .on_reply = pgsql_reply,
                                        .flush = pgsql_flush};
