/* One pass over libyaml's events; no tree is built. Where we stand is the dotted path of keys, and
 * which keys were seen is a list of such paths. */
#include "adapter/yaml/yaml_conf.h"

#include "base/err.h"
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <yaml.h>

#define FILE_MAX (256 * 1024)
#define PATH_MAX_LEN 256
#define DEPTH_MAX 8
#define KEYS_MAX 1024

struct reader {
    struct conf *conf;
    const char *path;
    char *err;
    size_t err_cap;
    yaml_parser_t parser;
    yaml_event_t event;
    char name[PATH_MAX_LEN]; /* the key in whose value we stand, dotted */
    size_t name_len[DEPTH_MAX + 1];
    int depth;
    char *seen[KEYS_MAX];
    int n_seen;
};

static int fail(struct reader *r, yaml_mark_t at, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

static int fail(struct reader *r, yaml_mark_t at, const char *fmt, ...)
{
    int n = snprintf(r->err, r->err_cap, "%s:%zu:%zu: ", r->path, at.line + 1, at.column + 1);
    va_list args;
    va_start(args, fmt);
    if (n >= 0 && (size_t)n < r->err_cap)
        vsnprintf(r->err + n, r->err_cap - (size_t)n, fmt, args);
    va_end(args);
    return ERR_INVALID;
}

static int next(struct reader *r)
{
    yaml_event_delete(&r->event);
    if (yaml_parser_parse(&r->parser, &r->event))
        return 0;
    const char *problem = r->parser.problem ? r->parser.problem : "out of memory";
    yaml_mark_t at = r->parser.problem_mark;
    if (r->parser.error == YAML_READER_ERROR) { /* it knows only the byte */
        const unsigned char *text = r->parser.input.string.start;
        at = (yaml_mark_t){0};
        for (size_t i = 0; i < r->parser.problem_offset && text + i < r->parser.input.string.end;
             i++) {
            at.column = text[i] == '\n' ? 0 : at.column + 1;
            at.line += text[i] == '\n';
        }
    }
    return fail(r, at, "%s", problem);
}

/* What YAML can do and a table of settings has no use for. */
static int check_plain(struct reader *r)
{
    const yaml_event_t *e = &r->event;
    const unsigned char *anchor = NULL, *tag = NULL;
    if (e->type == YAML_ALIAS_EVENT)
        return fail(r, e->start_mark, "aliases are not allowed");
    if (e->type == YAML_SEQUENCE_START_EVENT)
        return fail(r, e->start_mark, "lists are not allowed");
    if (e->type == YAML_SCALAR_EVENT) {
        anchor = e->data.scalar.anchor;
        tag = e->data.scalar.tag;
    } else if (e->type == YAML_MAPPING_START_EVENT) {
        anchor = e->data.mapping_start.anchor;
        tag = e->data.mapping_start.tag;
    }
    if (anchor)
        return fail(r, e->start_mark, "anchors are not allowed");
    return tag ? fail(r, e->start_mark, "tags are not allowed") : 0;
}

static struct str scalar(const struct reader *r)
{
    return (struct str){(const char *)r->event.data.scalar.value, r->event.data.scalar.length};
}

static struct str name_of(const struct reader *r)
{
    return (struct str){r->name, r->name_len[r->depth]};
}

/* Is the current name the first part of an option's, as "redis" is of "redis.reply_timeout"? */
static bool is_section(const struct reader *r)
{
    struct str name = name_of(r);
    for (size_t i = 0; i < r->conf->n; i++) {
        const char *option = r->conf->options[i].name;
        if (strncmp(option, name.ptr, name.len) == 0 && option[name.len] == '.')
            return true;
    }
    return false;
}

static int remember(struct reader *r, yaml_mark_t at)
{
    for (int i = 0; i < r->n_seen; i++) {
        if (str_eq(str_of(r->seen[i]), name_of(r)))
            return fail(r, at, "%s comes twice", r->seen[i]);
    }
    char *copy = r->n_seen < KEYS_MAX ? strndup(r->name, r->name_len[r->depth]) : NULL;
    if (!copy)
        return fail(r, at, "too many keys");
    r->seen[r->n_seen++] = copy;
    return 0;
}

/* The event is a key: one level down. */
static int enter(struct reader *r)
{
    yaml_mark_t at = r->event.start_mark;
    int rc = check_plain(r);
    if (rc)
        return rc;
    if (r->event.type != YAML_SCALAR_EVENT)
        return fail(r, at, "a key is a plain word");
    struct str key = scalar(r);
    if (key.len == 0 || memchr(key.ptr, '.', key.len) || memchr(key.ptr, 0, key.len))
        return fail(r, at, "a key is a plain word; dotted names are nested");
    size_t start = r->name_len[r->depth], need = key.len + (r->depth > 0);
    if (r->depth == DEPTH_MAX || start + need >= sizeof r->name)
        return fail(r, at, "nested too deeply");
    if (r->depth > 0)
        r->name[start++] = '.';
    memcpy(r->name + start, key.ptr, key.len);
    r->name_len[++r->depth] = start + key.len;
    return remember(r, at);
}

static int set(struct reader *r, yaml_mark_t key_at)
{
    yaml_mark_t at = r->event.start_mark;
    struct str value = scalar(r);
    /* "redis:" with nothing below, or all of it commented out. */
    if (is_section(r)) {
        if (value.len == 0 && r->event.data.scalar.style == YAML_PLAIN_SCALAR_STYLE)
            return 0;
        return fail(r, at, STR_FMT " is a section, not a value", STR_ARG(name_of(r)));
    }
    if (memchr(value.ptr, 0, value.len))
        return fail(r, at, "a zero byte");
    char what[512] = "";
    int rc = conf_set(r->conf, CONF_FILE, name_of(r), value, what, sizeof what);
    if (rc == 0)
        return 0;
    return fail(r, rc == ERR_NOTFOUND ? key_at : at, "%s", what);
}

/* The event is a mapping's start; reads to its end. Depth is bounded by enter. */
static int read_mapping(struct reader *r)
{
    for (;;) {
        int rc = next(r);
        if (rc || r->event.type == YAML_MAPPING_END_EVENT)
            return rc;
        yaml_mark_t key_at = r->event.start_mark;
        rc = enter(r);
        if (rc == 0)
            rc = next(r);
        if (rc == 0)
            rc = check_plain(r);
        if (rc)
            return rc;
        if (r->event.type == YAML_SCALAR_EVENT)
            rc = set(r, key_at);
        else if (is_section(r))
            rc = read_mapping(r);
        else
            rc = fail(r, key_at, "unknown section \"" STR_FMT "\"", STR_ARG(name_of(r)));
        if (rc)
            return rc;
        r->depth--;
    }
}

static int read_document(struct reader *r)
{
    int rc = next(r);
    if (rc == 0)
        rc = check_plain(r);
    if (rc)
        return rc;
    if (r->event.type == YAML_MAPPING_START_EVENT)
        rc = read_mapping(r);
    else if (r->event.type != YAML_SCALAR_EVENT || scalar(r).len)
        rc = fail(r, r->event.start_mark, "expected \"section:\" lines");
    return rc ? rc : next(r); /* the document's end */
}

static int read_stream(struct reader *r)
{
    int rc = next(r);
    for (int documents = 0; rc == 0;) {
        rc = next(r);
        if (rc || r->event.type == YAML_STREAM_END_EVENT)
            return rc;
        if (documents++)
            return fail(r, r->event.start_mark, "a second document is not allowed");
        rc = read_document(r);
    }
    return rc;
}

/* 0, or as yaml_conf_load. */
static int read_file(struct reader *r, unsigned char *text, size_t *n)
{
    int fd = open(r->path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? -1 : 0;
    *n = 0;
    if (fd >= 0) {
        while (*n < FILE_MAX && (got = read(fd, text + *n, FILE_MAX - *n)) > 0)
            *n += (size_t)got;
    }
    int error = errno;
    if (fd >= 0)
        close(fd);
    if (got < 0) {
        snprintf(r->err, r->err_cap, "%s: %s", r->path, strerror(error));
        return error == ENOENT ? ERR_NOTFOUND : ERR_INVALID;
    }
    if (*n < FILE_MAX)
        return 0;
    snprintf(r->err, r->err_cap, "%s: larger than %d bytes", r->path, FILE_MAX);
    return ERR_INVALID;
}

int yaml_conf_load(struct conf *c, const char *path, char *err, size_t err_cap)
{
    struct reader *r = calloc(1, sizeof *r);
    unsigned char *text = malloc(FILE_MAX);
    size_t n = 0;
    int rc = ERR_OVERLOAD;
    if (!r || !text) {
        snprintf(err, err_cap, "%s: out of memory", path);
        goto out;
    }
    *r = (struct reader){.conf = c, .path = path, .err = err, .err_cap = err_cap};
    rc = read_file(r, text, &n);
    if (rc)
        goto out;
    if (!yaml_parser_initialize(&r->parser)) {
        snprintf(err, err_cap, "%s: out of memory", path);
        rc = ERR_OVERLOAD;
        goto out;
    }
    yaml_parser_set_input_string(&r->parser, text, n);
    rc = read_stream(r);
    yaml_event_delete(&r->event);
    yaml_parser_delete(&r->parser);
out:
    for (int i = 0; r && i < r->n_seen; i++)
        free(r->seen[i]);
    free(text);
    free(r);
    return rc;
}
