#include "drop.h"

#include <ctype.h>
#include <string.h>

enum { TEXT_LOGGED = 200 };

static struct decide *decide_of(struct conn *c)
{
    return &c->proxy->of->decide;
}

bool drop_contains(const char *match, const void *request)
{
    const struct str *text = request;
    size_t n = strlen(match);
    return n == 0 || (text->len >= n && memmem(text->ptr, text->len, match, n));
}

static void log_choice(struct conn *c, const struct toxic *t, bool chosen, struct str text)
{
    char shown[TEXT_LOGGED + 1];
    size_t n = text.len < TEXT_LOGGED ? text.len : TEXT_LOGGED;
    for (size_t i = 0; i < n; i++)
        shown[i] = isprint((unsigned char)text.ptr[i]) ? text.ptr[i] : '?';
    shown[n] = 0;
    struct decide_about a = conn_about(c, "drop_reply", t, 0);
    decide_log(decide_of(c), "match", &a,
               json_pack("{s:I, s:b, s:s}", "n", (json_int_t)t->matched, "chosen", (int)chosen,
                         "request", shown));
}

static bool choose(struct conn *c, struct toxic *t)
{
    int64_t n = ++t->matched;
    if (n < t->v[DROP_NTH] || (t->v[DROP_COUNT] && t->chosen >= t->v[DROP_COUNT]))
        return false;
    struct decide_about a = conn_about(c, "drop_reply", t, (uint64_t)n);
    a.connection = 0; /* the match's number alone: which connection had it is a matter of timing */
    return decide_unit(decide_of(c), &a) * 100 < (double)t->v[DROP_PERCENT];
}

struct toxic *drop_choose(struct conn *c, const char *protocol, drop_matcher *matches,
                          const void *request, struct str text)
{
    if (c->dead)
        return NULL;
    list_for_each (it, &c->links[STREAM_DOWNSTREAM].stages) {
        struct stage *s = container_of(it, struct stage, link);
        struct toxic *t = s->toxic;
        if (!s->applied || t->kind != &toxic_drop_reply ||
            strcmp(t->text[DROP_PROTOCOL], protocol) || !matches(t->text[DROP_MATCH], request))
            continue;
        bool chosen = choose(c, t);
        log_choice(c, t, chosen, text);
        if (!chosen)
            continue;
        t->chosen++;
        return toxic_ref(t);
    }
    return NULL;
}

static void tell(struct conn *c, struct toxic *by, const char *event)
{
    struct decide_about a = conn_about(c, event, by, 0);
    if (!c->dead)
        decide_log(decide_of(c), event, &a, NULL);
}

void drop_count(struct conn *c, struct toxic *by)
{
    by->dropped++;
    tell(c, by, "dropped");
    toxic_unref(by);
}

void drop_done(struct conn *c, struct toxic *by)
{
    const char *then = by->text[DROP_THEN];
    if (strcmp(then, "swallow"))
        link_emit_kind(&c->links[STREAM_DOWNSTREAM],
                       strcmp(then, "reset") ? CHUNK_CUT : CHUNK_RESET);
    drop_count(c, by);
}

void drop_void(struct conn *c, struct toxic *by)
{
    by->void_++;
    tell(c, by, "drop_void");
    toxic_unref(by);
}
