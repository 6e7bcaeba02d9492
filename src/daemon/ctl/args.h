/* The words of one command: declared in a table, filled into a struct, shown by --help. Pure. */
#pragma once

#include "base/str.h"
#include "core/item.h"

enum args_type {
    ARGS_FLAG,     /* bool: --name */
    ARGS_I64,      /* int64_t within min…max */
    ARGS_DURATION, /* int64_t, µs: "10m" */
    ARGS_TIME,     /* int64_t, ms since 1970: RFC 3339, or "+1h" and "-1s" from now on */
    ARGS_TEXT,     /* struct str, borrowed from argv, not empty */
};

struct args_option {
    const char *name; /* without the dashes */
    enum args_type type;
    size_t offset; /* into the command's struct, which starts as its defaults */
    bool required;
    int64_t min, max; /* I64, DURATION (µs) */
    const char *help;
};

/* Reads "--name VALUE" and "--name=VALUE" of argv[0…argc) into dst; words that are no flags go to
 * words[0…*n_words) (in: capacity). 0, or ERR_INVALID with what is wrong in err: an unknown flag,
 * one given twice, a missing or bad value, a word too many. */
int args_read(const struct args_option *options, size_t n, void *dst, int argc, char **argv,
              struct str *words, int *n_words, int64_t now_ms, char *err, size_t err_cap);
/* One line for each option. */
void args_help(const struct args_option *options, size_t n, struct strbuf *out);

/* Most commands are about one item and can answer in JSON. */
#define ARGS_ITEM(type_, member_)                                                                  \
    {"activity", ARGS_I64,  offsetof(type_, member_.activity_id), .required = true,                \
     1,          INT64_MAX, .help = "the activity's id"},                                          \
    {                                                                                              \
        "sku", ARGS_I64, offsetof(type_, member_.sku_id), .required = true, 1, INT64_MAX,          \
                                                          .help = "the SKU's id"                   \
    }
#define ARGS_JSON(type_, member_)                                                                  \
    {                                                                                              \
        "json", ARGS_FLAG, offsetof(type_, member_), .help = "answer in JSON"                      \
    }
