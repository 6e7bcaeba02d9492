#include "adapter/rocketmq/remoting_json.h"

#include "base/parse.h"

void remoting_json_init(struct remoting_json *j, struct str text)
{
    *j = (struct remoting_json){text.ptr, text.ptr + text.len, text.len == 0};
}

static void blank(struct remoting_json *j)
{
    while (j->at < j->end && (*j->at == ' ' || *j->at == '\t' || *j->at == '\n' || *j->at == '\r'))
        j->at++;
}

/* The next character that counts; 0 at the end. */
static char peek(struct remoting_json *j)
{
    if (j->bad)
        return 0;
    blank(j);
    return j->at < j->end ? *j->at : 0;
}

static bool take(struct remoting_json *j, char c)
{
    if (c && peek(j) == c) {
        j->at++;
        return true;
    }
    return false;
}

bool remoting_json_done(struct remoting_json *j)
{
    return !j->bad && !peek(j) && j->at == j->end;
}

bool remoting_json_enter(struct remoting_json *j, char open)
{
    if (!take(j, open))
        j->bad = true;
    return !j->bad;
}

bool remoting_json_more(struct remoting_json *j, char close, int n)
{
    if (j->bad || take(j, close))
        return false;
    if (n > 0 && !take(j, ','))
        j->bad = true;
    return !j->bad;
}

void remoting_json_colon(struct remoting_json *j)
{
    if (!take(j, ':'))
        j->bad = true;
}

static struct str quoted(struct remoting_json *j)
{
    const char *from = ++j->at;
    for (; j->at < j->end && *j->at != '"'; j->at++) {
        if (*j->at == '\\' && j->at + 1 < j->end)
            j->at++;
    }
    if (j->at >= j->end) {
        j->at = j->end;
        j->bad = true;
        return STR("");
    }
    return (struct str){from, (size_t)(j->at++ - from)};
}

static bool is_word(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' ||
           c == '+' || c == '.';
}

/* A number, true, false, null: whoever wants one of them looks closer. */
static struct str word(struct remoting_json *j)
{
    const char *from = j->at;
    while (j->at < j->end && is_word(*j->at))
        j->at++;
    if (j->at == from)
        j->bad = true;
    return (struct str){from, (size_t)(j->at - from)};
}

struct str remoting_json_text(struct remoting_json *j)
{
    char c = peek(j);
    if (!c) {
        j->bad = true;
        return STR("");
    }
    return c == '"' ? quoted(j) : word(j);
}

struct str remoting_json_key(struct remoting_json *j)
{
    struct str s = remoting_json_text(j);
    remoting_json_colon(j);
    return j->bad ? STR("") : s;
}

int64_t remoting_json_i64(struct remoting_json *j, int64_t min, int64_t max)
{
    int64_t v = 0;
    char c = peek(j);
    if (c == '"' || !c || parse_i64(word(j), min, max, &v))
        j->bad = true;
    return j->bad ? min : v;
}

static void skip(struct remoting_json *j, int depth)
{
    char c = peek(j);
    if (c != '{' && c != '[') {
        remoting_json_text(j);
        return;
    }
    if (depth == REMOTING_JSON_DEPTH) {
        j->bad = true;
        return;
    }
    j->at++;
    for (int n = 0; remoting_json_more(j, c == '{' ? '}' : ']', n); n++) {
        skip(j, depth + 1);
        if (c == '{') {
            remoting_json_colon(j);
            skip(j, depth + 1);
        }
    }
}

void remoting_json_skip(struct remoting_json *j)
{
    skip(j, 0);
}
