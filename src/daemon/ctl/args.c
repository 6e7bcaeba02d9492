#include "daemon/ctl/args.h"

#include "base/err.h"
#include "base/parse.h"
#include <stdio.h>

#define OPTIONS_MAX 64

static const char *const metavars[] = {"", "N", "DURATION", "TIME", "TEXT"};

static int complain(char *err, size_t cap, const char *what, struct str name)
{
    snprintf(err, cap, "%s%s" STR_FMT, what, name.len ? " " : "", STR_ARG(name));
    return ERR_INVALID;
}

static int find(const struct args_option *options, size_t n, struct str name)
{
    for (size_t i = 0; i < n; i++) {
        if (str_eq(str_of(options[i].name), name))
            return (int)i;
    }
    return -1;
}

/* "+1h" and "-1s" count from now; anything else is RFC 3339. */
static int read_time(struct str value, int64_t now_ms, int64_t *ms)
{
    int64_t us;
    if (value.len > 1 && (value.ptr[0] == '+' || value.ptr[0] == '-')) {
        if (parse_duration_us((struct str){value.ptr + 1, value.len - 1}, &us) < 0)
            return ERR_INVALID;
        *ms = now_ms + (value.ptr[0] == '+' ? us : -us) / 1000;
        return 0;
    }
    return parse_time_ms(value, ms);
}

static int read_value(const struct args_option *o, struct str value, void *dst, int64_t now_ms,
                      char *err, size_t cap)
{
    char *at = (char *)dst + o->offset;
    int64_t v = 0;
    switch (o->type) {
    case ARGS_FLAG:
        break;
    case ARGS_TEXT:
        if (value.len == 0)
            return complain(err, cap, "an empty value for", str_of(o->name));
        memcpy(at, &value, sizeof(value));
        return 0;
    case ARGS_I64:
        if (parse_i64(value, o->min, o->max, &v) < 0) {
            snprintf(err, cap, "--%s wants a whole number from %lld to %lld, not '" STR_FMT "'",
                     o->name, (long long)o->min, (long long)o->max, STR_ARG(value));
            return ERR_INVALID;
        }
        memcpy(at, &v, sizeof(v));
        return 0;
    case ARGS_DURATION:
        if (parse_duration_us(value, &v) < 0 || v < o->min || (o->max && v > o->max)) {
            snprintf(err, cap, "--%s wants a duration such as 500ms, 60s or 10m, not '" STR_FMT "'",
                     o->name, STR_ARG(value));
            return ERR_INVALID;
        }
        memcpy(at, &v, sizeof(v));
        return 0;
    case ARGS_TIME:
        if (read_time(value, now_ms, &v) < 0) {
            snprintf(err, cap,
                     "--%s wants a time such as 2026-06-25T12:00:00Z, +1h or -1s, not '" STR_FMT
                     "'",
                     o->name, STR_ARG(value));
            return ERR_INVALID;
        }
        memcpy(at, &v, sizeof(v));
        return 0;
    }
    return ERR_INVALID;
}

int args_read(const struct args_option *options, size_t n, void *dst, int argc, char **argv,
              struct str *words, int *n_words, int64_t now_ms, char *err, size_t err_cap)
{
    uint64_t seen = 0;
    int room = *n_words;
    *n_words = 0;
    if (n > OPTIONS_MAX)
        return complain(err, err_cap, "too many options are declared", STR(""));
    for (int i = 0; i < argc; i++) {
        struct str word = str_of(argv[i]);
        if (!str_starts(word, STR("--"))) {
            if (*n_words == room)
                return complain(err, err_cap, "unexpected word", word);
            words[(*n_words)++] = word;
            continue;
        }
        struct str name, value = str_split(word, '=', &name);
        name = (struct str){name.ptr + 2, name.len - 2};
        int found = find(options, n, name);
        if (found < 0)
            return complain(err, err_cap, "unknown option", word);
        const struct args_option *o = &options[found];
        if (seen >> found & 1)
            return complain(err, err_cap, "given twice:", word);
        seen |= UINT64_C(1) << found;
        if (o->type == ARGS_FLAG) {
            if (value.ptr)
                return complain(err, err_cap, "takes no value:", word);
            *(bool *)(void *)((char *)dst + o->offset) = true;
            continue;
        }
        if (!value.ptr) {
            if (i + 1 == argc || str_starts(str_of(argv[i + 1]), STR("--")))
                return complain(err, err_cap, "a value is missing after", word);
            value = str_of(argv[++i]);
        }
        if (read_value(o, value, dst, now_ms, err, err_cap) < 0)
            return ERR_INVALID;
    }
    for (size_t i = 0; i < n; i++) {
        if (options[i].required && !(seen >> i & 1)) {
            snprintf(err, err_cap, "--%s is missing", options[i].name);
            return ERR_INVALID;
        }
    }
    return 0;
}

void args_help(const struct args_option *options, size_t n, struct strbuf *out)
{
    for (size_t i = 0; i < n; i++) {
        const struct args_option *o = &options[i];
        char left[64];
        snprintf(left, sizeof(left), "--%s %s", o->name, metavars[o->type]);
        strbuf_printf(out, "  %-24s %s%s\n", left, o->help, o->required ? " (required)" : "");
    }
}
