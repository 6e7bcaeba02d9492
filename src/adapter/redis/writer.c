#include "adapter/redis/writer.h"

#include "adapter/redis/slot.h"
#include "base/panic.h"
#include "core/sha1.h"

static void add_head(struct strbuf *out, char kind, size_t n)
{
    char *at = strbuf_reserve(out, 24);
    if (!at)
        return;
    size_t len = 1;
    at[0] = kind;
    len += str_from_u64(at + 1, n);
    at[len++] = '\r';
    at[len++] = '\n';
    strbuf_commit(out, len);
}

static void add_word(struct strbuf *out, struct str s)
{
    add_head(out, '$', s.len);
    char *at = strbuf_reserve(out, s.len + 2);
    if (!at)
        return;
    if (s.len)
        memcpy(at, s.ptr, s.len);
    at[s.len] = '\r';
    at[s.len + 1] = '\n';
    strbuf_commit(out, s.len + 2);
}

void redis_put(struct redis_writer *w, struct str arg)
{
    w->left--;
    if (w->out)
        add_word(w->out, arg);
    else if (w->slot_in-- == 0)
        w->slot = redis_slot(arg);
}

void redis_put_i64(struct redis_writer *w, int64_t arg)
{
    char digits[20];
    redis_put(w, (struct str){digits, str_from_i64(digits, arg)});
}

void writer_words(struct strbuf *out, const struct str *words, int n)
{
    add_head(out, '*', (size_t)n);
    for (int i = 0; i < n; i++)
        add_word(out, words[i]);
}

void writer_call(struct strbuf *out, struct redis_call *c, bool whole)
{
    struct redis_writer w = {.out = out, .left = c->args};
    add_head(out, '*', (size_t)c->args + (c->script ? 3 : 0));
    if (c->script) {
        add_word(out, whole ? STR("EVAL") : STR("EVALSHA"));
        add_word(out, whole ? str_of(c->script->body) : (struct str){c->script->sha1, 40});
        char digits[20];
        add_word(out, (struct str){digits, str_from_i64(digits, c->keys)});
    }
    c->on_encode(c, &w);
    if (w.left != 0)
        panic("redis: a call of %s wrote %d words instead of %d",
              c->script ? c->script->name : "a command", c->args - w.left, c->args);
}

int writer_slot(struct redis_call *c)
{
    if (c->script ? c->keys == 0 : c->key_at == 0)
        return -1;
    struct redis_writer w = {.left = c->args, .slot_in = c->script ? 0 : c->key_at, .slot = -1};
    c->on_encode(c, &w);
    return w.slot;
}

void redis_script_init(struct redis_script *s)
{
    unsigned char digest[SHA1_BYTES];
    struct sha1 h;
    sha1_init(&h);
    sha1_add(&h, s->body, strlen(s->body));
    sha1_end(&h, digest);
    for (int i = 0; i < SHA1_BYTES; i++) {
        s->sha1[2 * i] = "0123456789abcdef"[digest[i] >> 4];
        s->sha1[2 * i + 1] = "0123456789abcdef"[digest[i] & 15];
    }
    s->sha1[40] = 0;
}
