#include "base/conf.h"

#include "base/conf_text.h"
#include "base/err.h"
#include "base/panic.h"
#include "base/parse.h"
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static int complain(int rc, char *err, size_t cap, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
static int complain(int rc, char *err, size_t cap, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(err, cap, fmt, args);
    va_end(args);
    return rc;
}

static void *place(const struct conf *c, const struct conf_option *o)
{
    return (char *)c->settings + o->offset;
}

/* The index of the choice, or -1. */
static int find_choice(const struct conf_option *o, struct str value)
{
    struct str rest = str_of(o->choices), choice;
    for (int i = 0; rest.ptr; i++) {
        rest = str_split(rest, '|', &choice);
        if (str_eq(choice, value))
            return i;
    }
    return -1;
}

static bool in_bounds(const struct conf_option *o, int64_t v)
{
    return v >= o->min && (o->max == 0 || v <= o->max);
}

/* Parses and, if it is good, stores. */
static bool store(const struct conf_option *o, void *at, struct str value)
{
    int64_t v = 0;
    bool yes;
    int choice;
    switch (o->type) {
    case CONF_BOOL:
        if (parse_bool(value, &yes))
            return false;
        memcpy(at, &yes, sizeof yes);
        return true;
    case CONF_INT:
    case CONF_DURATION:
    case CONF_SIZE:
        if (o->type == CONF_INT        ? parse_i64(value, INT64_MIN, INT64_MAX, &v)
            : o->type == CONF_DURATION ? parse_duration_us(value, &v)
                                       : parse_size(value, &v))
            return false;
        if (!in_bounds(o, v))
            return false;
        memcpy(at, &v, sizeof v);
        return true;
    case CONF_STRING:
        if (!in_bounds(o, (int64_t)value.len) || (value.len && memchr(value.ptr, 0, value.len)))
            return false;
        return value.len < CONF_STRING_MAX && str_copy(at, CONF_STRING_MAX, value);
    case CONF_ENUM:
        choice = find_choice(o, value);
        if (choice >= 0)
            memcpy(at, &choice, sizeof choice);
        return choice >= 0;
    }
    panic("conf %s: no type %d", o->name, (int)o->type);
}

/* "must be …" with what is allowed; the value itself unless it is a secret. */
static int refuse(const struct conf_option *o, struct str value, char *err, size_t cap)
{
    char allowed[256];
    struct strbuf b;
    strbuf_init_fixed(&b, allowed, sizeof allowed - 1);
    conf_text_allowed(o, &b);
    allowed[b.len] = 0;
    if (o->secret)
        return complain(ERR_INVALID, err, cap, "%s must be %s", o->name, allowed);
    return complain(ERR_INVALID, err, cap, "%s must be %s, not \"%.*s\"", o->name, allowed,
                    value.len > 100 ? 100 : (int)value.len, value.ptr ? value.ptr : "");
}

/* A table that would make an ill YAML file or two options of one environment variable is a bug of
 * ours. */
static void check_table(const struct conf_option *options, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const char *a = options[i].name;
        if (!options[i].fallback || !options[i].help)
            panic("conf: \"%s\" lacks a default or a help text", a);
        if (!strchr(a, '.'))
            panic("conf: \"%s\" has no section", a);
        for (const char *p = a; *p; p++) {
            if (!islower((unsigned char)*p) && !isdigit((unsigned char)*p) && *p != '_' &&
                !(*p == '.' && p != a && p[-1] != '.' && p[1]))
                panic("conf: \"%s\" is no good name", a);
        }
        if (options[i].type == CONF_ENUM && !options[i].choices)
            panic("conf %s: no choices", a);
        for (size_t k = 0; k < i; k++) {
            const char *b = options[k].name, *p = a, *q = b;
            while (*p && (*p == *q || (*p == '.' && *q == '_') || (*p == '_' && *q == '.')))
                p++, q++;
            if (!*p && !*q)
                panic("conf: \"%s\" and \"%s\" are one environment variable", a, b);
            if ((!*p && *q == '.') || (!*q && *p == '.'))
                panic("conf: \"%s\" and \"%s\": an option cannot be a section", a, b);
        }
    }
}

void conf_init(struct conf *c, const struct conf_option *options, size_t n, void *settings)
{
    check_table(options, n);
    /* The second half remembers what a file has set, however often something later overrode it. */
    *c = (struct conf){options, n, settings, calloc(n ? n : 1, 2)};
    if (!c->source)
        panic("conf: no memory");
    for (size_t i = 0; i < n; i++) {
        if (!store(&options[i], place(c, &options[i]), str_of(options[i].fallback)))
            panic("conf %s: the default \"%s\" is not allowed", options[i].name,
                  options[i].fallback ? options[i].fallback : "");
    }
}

void conf_deinit(struct conf *c)
{
    free(c->source);
    *c = (struct conf){0};
}

static bool same_name(const char *name, struct str s, bool dashes)
{
    if (strlen(name) != s.len)
        return false;
    for (size_t i = 0; i < s.len; i++) {
        if (name[i] != s.ptr[i] && !(dashes && name[i] == '_' && s.ptr[i] == '-'))
            return false;
    }
    return true;
}

static const struct conf_option *find(const struct conf *c, struct str name, bool dashes)
{
    for (size_t i = 0; i < c->n; i++) {
        if (same_name(c->options[i].name, name, dashes))
            return &c->options[i];
    }
    return NULL;
}

static void add_word(struct strbuf *b, struct str word)
{
    if (b->len)
        strbuf_add_str(b, STR(", "));
    strbuf_add_str(b, word);
}

/* Names the options of the unknown one's section, or the sections if that is unknown too. */
static int not_found(const struct conf *c, struct str name, char *err, size_t cap)
{
    char options[400], sections[200];
    struct strbuf of_section, all;
    struct str wanted;
    strbuf_init_fixed(&of_section, options, sizeof options);
    strbuf_init_fixed(&all, sections, sizeof sections);
    str_split(name, '.', &wanted);
    for (size_t i = 0; i < c->n; i++) {
        struct str section, rest = str_split(str_of(c->options[i].name), '.', &section);
        if (str_eq(section, wanted))
            add_word(&of_section, rest);
        size_t first = 0;
        while (
            !str_starts(str_of(c->options[first].name), (struct str){section.ptr, section.len + 1}))
            first++;
        if (first == i)
            add_word(&all, section);
    }
    if (of_section.len)
        return complain(ERR_NOTFOUND, err, cap,
                        "unknown option " STR_FMT "; " STR_FMT " has: " STR_FMT "%s", STR_ARG(name),
                        STR_ARG(wanted), STR_ARG(strbuf_str(&of_section)),
                        of_section.failed ? ", …" : "");
    return complain(ERR_NOTFOUND, err, cap,
                    "unknown option " STR_FMT "; the sections are: " STR_FMT "%s", STR_ARG(name),
                    STR_ARG(strbuf_str(&all)), all.failed ? ", …" : "");
}

static int set(struct conf *c, enum conf_source from, const struct conf_option *o, struct str value,
               char *err, size_t cap)
{
    size_t i = (size_t)(o - c->options);
    unsigned char *in_file = &c->source[c->n + i];
    if (from == CONF_FILE && *in_file)
        return complain(ERR_INVALID, err, cap, "%s is set twice", o->name);
    /* What a stronger source has set stays, but a wrong value is wrong all the same. */
    bool wins = from >= c->source[i];
    char trial[CONF_STRING_MAX];
    if (!store(o, wins ? place(c, o) : trial, value))
        return refuse(o, value, err, cap);
    if (wins)
        c->source[i] = (unsigned char)from;
    if (from == CONF_FILE)
        *in_file = 1;
    return 0;
}

int conf_set(struct conf *c, enum conf_source from, struct str name, struct str value, char *err,
             size_t err_cap)
{
    const struct conf_option *o = find(c, name, from == CONF_FLAG);
    return o ? set(c, from, o, value, err, err_cap) : not_found(c, name, err, err_cap);
}

/* Whether a variable's name (behind the prefix) is the option's: REDIS_REPLY_TIMEOUT and
 * redis.reply_timeout. */
static bool same_variable(const char *name, struct str variable)
{
    if (strlen(name) != variable.len)
        return false;
    for (size_t i = 0; i < variable.len; i++) {
        char c = name[i] == '.' ? '_' : (char)toupper((unsigned char)name[i]);
        if (c != variable.ptr[i])
            return false;
    }
    return true;
}

int conf_set_env(struct conf *c, char **environ_, char *err, size_t err_cap)
{
    for (char **e = environ_; *e; e++) {
        struct str name, value = str_split(str_of(*e), '=', &name);
        if (!str_starts(name, STR("SECKILL_")) || !value.ptr)
            continue;
        struct str variable = {name.ptr + 8, name.len - 8};
        for (size_t i = 0; i < c->n; i++) {
            if (!same_variable(c->options[i].name, variable))
                continue;
            int rc = set(c, CONF_ENV, &c->options[i], value, err, err_cap);
            if (rc)
                return rc;
        }
    }
    return 0;
}

int conf_take_flags(struct conf *c, int *argc, char **argv, char *err, size_t err_cap)
{
    int kept = 0, rc = 0, i = 0;
    for (; i < *argc && rc == 0; i++) {
        struct str name, value = str_split(str_of(argv[i]), '=', &name);
        if (str_eq(name, STR("--")) && !value.ptr)
            break;
        if (i == 0 || !str_starts(name, STR("--")) || !memchr(name.ptr, '.', name.len)) {
            argv[kept++] = argv[i];
            continue;
        }
        name = (struct str){name.ptr + 2, name.len - 2};
        if (!value.ptr && i + 1 < *argc && !str_starts(str_of(argv[i + 1]), STR("--")))
            value = str_of(argv[++i]);
        /* The unknown name first: what looks like its missing value may be the consequence. */
        if (!value.ptr && find(c, name, true))
            rc = complain(ERR_INVALID, err, err_cap, "--" STR_FMT " needs a value", STR_ARG(name));
        else
            rc = conf_set(c, CONF_FLAG, name, value, err, err_cap);
    }
    while (i < *argc)
        argv[kept++] = argv[i++];
    argv[kept] = NULL;
    *argc = kept;
    return rc;
}
