#include "base/conf_text.h"

#include "base/json.h"

static const char *type_name(enum conf_type type)
{
    static const char *const names[] = {
        [CONF_BOOL] = "bool", [CONF_INT] = "int",       [CONF_DURATION] = "duration",
        [CONF_SIZE] = "size", [CONF_STRING] = "string", [CONF_ENUM] = "enum",
    };
    return names[type];
}

/* In the largest unit that says it exactly, so that it reads back as the same value. */
static void add_with_unit(struct strbuf *out, int64_t v, const int64_t *factors,
                          const char *const *units, size_t n)
{
    size_t i = 0;
    while (i + 1 < n && (v == 0 || v % factors[i] != 0))
        i++;
    strbuf_add_i64(out, v / factors[i]);
    if (v)
        strbuf_add_str(out, str_of(units[i]));
}

static void add_number(struct strbuf *out, enum conf_type type, int64_t v)
{
    static const int64_t us[] = {
        INT64_C(86400000000), INT64_C(3600000000), 60000000, 1000000, 1000, 1};
    static const char *const us_names[] = {"d", "h", "m", "s", "ms", "us"};
    static const int64_t bytes[] = {1 << 30, 1 << 20, 1 << 10, 1};
    static const char *const byte_names[] = {"GiB", "MiB", "KiB", ""};
    if (type == CONF_DURATION)
        add_with_unit(out, v, us, us_names, 6);
    else if (type == CONF_SIZE)
        add_with_unit(out, v, bytes, byte_names, 4);
    else
        strbuf_add_i64(out, v);
}

static void add_bounds(struct strbuf *out, const struct conf_option *o)
{
    enum conf_type shown = o->type == CONF_STRING ? CONF_INT : o->type;
    if (o->max) {
        add_number(out, shown, o->min);
        strbuf_add_str(out, STR(" to "));
        add_number(out, shown, o->max);
    } else {
        strbuf_add_str(out, STR("at least "));
        add_number(out, shown, o->min);
    }
}

static bool has_bounds(const struct conf_option *o)
{
    return o->type != CONF_BOOL && o->type != CONF_ENUM && (o->min || o->max);
}

/* "a|b|c" as "a, b, c". */
static void add_choices(struct strbuf *out, const struct conf_option *o)
{
    struct str rest = str_of(o->choices), choice;
    for (bool first = true; rest.ptr; first = false) {
        rest = str_split(rest, '|', &choice);
        if (!first)
            strbuf_add_str(out, STR(", "));
        strbuf_add_str(out, choice);
    }
}

void conf_text_allowed(const struct conf_option *o, struct strbuf *out)
{
    switch (o->type) {
    case CONF_BOOL:
        strbuf_add_str(out, STR("true or false"));
        return;
    case CONF_ENUM:
        strbuf_add_str(out, STR("one of "));
        add_choices(out, o);
        return;
    case CONF_INT:
        strbuf_add_str(out, STR("a whole number"));
        break;
    case CONF_DURATION:
        strbuf_add_str(out, STR("a duration such as 250ms, 2s, 15m"));
        break;
    case CONF_SIZE:
        strbuf_add_str(out, STR("a size such as 4096, 64KiB, 16MiB"));
        break;
    case CONF_STRING:
        strbuf_printf(out, "text of less than %d bytes", CONF_STRING_MAX);
        break;
    }
    if (has_bounds(o)) {
        strbuf_add_str(out, o->type == CONF_STRING ? STR(" and a length of ") : STR(", "));
        add_bounds(out, o);
    }
}

/* The value that is in force. */
static void add_value(struct strbuf *out, const struct conf *c, const struct conf_option *o)
{
    const char *at = (const char *)c->settings + o->offset;
    int64_t v;
    bool yes;
    int choice;
    struct str rest, word = {NULL, 0};
    switch (o->type) {
    case CONF_BOOL:
        memcpy(&yes, at, sizeof yes);
        strbuf_add_str(out, yes ? STR("true") : STR("false"));
        return;
    case CONF_INT:
    case CONF_DURATION:
    case CONF_SIZE:
        memcpy(&v, at, sizeof v);
        add_number(out, o->type, v);
        return;
    case CONF_STRING:
        /* A JSON string is a YAML double-quoted one. */
        json_add_string(out, str_of(at));
        return;
    case CONF_ENUM:
        memcpy(&choice, at, sizeof choice);
        rest = str_of(o->choices);
        for (int i = 0; i <= choice; i++)
            rest = str_split(rest, '|', &word);
        /* Quoted, since to YAML a bare "off" or "no" is no word. */
        json_add_string(out, word);
        return;
    }
}

static void add_signature(struct strbuf *out, const struct conf_option *o)
{
    strbuf_printf(out, "%s, default %s", type_name(o->type), *o->fallback ? o->fallback : "empty");
    if (o->type == CONF_ENUM) {
        strbuf_add_str(out, STR(", one of "));
        add_choices(out, o);
    } else if (has_bounds(o)) {
        strbuf_add_str(out, o->type == CONF_STRING ? STR(", length ") : STR(", "));
        add_bounds(out, o);
    }
}

void conf_help(const struct conf *c, struct strbuf *out)
{
    for (size_t i = 0; i < c->n; i++) {
        const struct conf_option *o = &c->options[i];
        strbuf_printf(out, "# %s (", o->name);
        add_signature(out, o);
        strbuf_printf(out, ")\n    %s\n", o->help);
    }
}

static void indent(struct strbuf *out, int depth)
{
    for (int i = 0; i < depth; i++)
        strbuf_add_str(out, STR("  "));
}

static void dump_leaf(const struct conf *c, size_t i, struct str name, int depth,
                      struct strbuf *out)
{
    static const char *const sources[] = {"default", "file", "environment", "flag"};
    const struct conf_option *o = &c->options[i];
    indent(out, depth);
    strbuf_add_str(out, name);
    strbuf_add_str(out, STR(": "));
    const char *text = (const char *)c->settings + o->offset;
    if (o->secret && !(o->type == CONF_STRING && !*text))
        strbuf_add_str(out, STR("\"***\""));
    else
        add_value(out, c, o);
    strbuf_printf(out, " # %s\n", sources[c->source[i]]);
}

/* Everything whose name begins with prefix ("redis."). A section's options need not stand together
 * in the table, but in YAML they must. */
static void dump_section(const struct conf *c, struct str prefix, int depth, struct strbuf *out)
{
    for (size_t i = 0; i < c->n; i++) {
        struct str name = str_of(c->options[i].name), head;
        if (!str_starts(name, prefix))
            continue;
        struct str rest = {name.ptr + prefix.len, name.len - prefix.len};
        if (!str_split(rest, '.', &head).ptr) {
            dump_leaf(c, i, rest, depth, out);
            continue;
        }
        struct str section = {name.ptr, prefix.len + head.len + 1};
        size_t first = 0;
        while (!str_starts(str_of(c->options[first].name), section))
            first++;
        if (first != i)
            continue;
        indent(out, depth);
        strbuf_add_str(out, head);
        strbuf_add_str(out, STR(":\n"));
        dump_section(c, section, depth + 1, out);
    }
}

void conf_dump(const struct conf *c, struct strbuf *out)
{
    dump_section(c, STR(""), 0, out);
}

/* A bar would end the table's cell. */
static void add_cell(struct strbuf *out, struct str s)
{
    for (size_t i = 0; i < s.len; i++) {
        if (s.ptr[i] == '|')
            strbuf_add_char(out, '\\');
        strbuf_add_char(out, s.ptr[i]);
    }
}

void conf_markdown(const struct conf *c, struct strbuf *out)
{
    strbuf_add_str(out,
                   STR("| option | type | default | allowed | meaning |\n|---|---|---|---|---|\n"));
    for (size_t i = 0; i < c->n; i++) {
        const struct conf_option *o = &c->options[i];
        strbuf_printf(out, "| `%s` | %s | ", o->name, type_name(o->type));
        if (*o->fallback) {
            strbuf_add_char(out, '`');
            add_cell(out, str_of(o->fallback));
            strbuf_add_char(out, '`');
        }
        strbuf_add_str(out, STR(" | "));
        if (o->type == CONF_BOOL)
            strbuf_add_str(out, STR("true, false"));
        else if (o->type == CONF_ENUM)
            add_choices(out, o);
        else if (has_bounds(o)) {
            if (o->type == CONF_STRING)
                strbuf_add_str(out, STR("length "));
            add_bounds(out, o);
        }
        strbuf_add_str(out, STR(" | "));
        add_cell(out, str_of(o->help));
        if (o->secret)
            strbuf_add_str(out, STR(" (secret: not shown)"));
        strbuf_add_str(out, STR(" |\n"));
    }
}
