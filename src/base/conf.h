/* Configuration: one declared table drives parsing, --help, --check-config, /config and the
 * documentation. Order: default < YAML file < environment SECKILL_* < flags. The table itself is
 * daemon/settings.c; this file is the mechanism and knows no file format (adapter/yaml calls
 * conf_set for each leaf). Start-up only, one thread. */
#pragma once

#include "base/str.h"

enum conf_type { CONF_BOOL, CONF_INT, CONF_DURATION, CONF_SIZE, CONF_STRING, CONF_ENUM };

/* bool → bool; int, duration (µs), size (bytes) → int64_t; string → char[CONF_STRING_MAX]; enum →
 * int (its index). */
#define CONF_STRING_MAX 512

struct conf_option {
    const char *name; /* "redis.reply_timeout": in YAML nested, flag --redis.reply_timeout,
                         SECKILL_REDIS_REPLY_TIMEOUT */
    enum conf_type type;
    size_t offset;        /* into the settings struct */
    const char *fallback; /* default, as text */
    int64_t min, max; /* int, duration (µs), size; max = 0: no upper bound. String: length bounds */
    const char *choices; /* enum: "a|b|c" */
    bool secret;         /* /config shows *** */
    const char *help;
};

struct conf {
    const struct conf_option *options;
    size_t n;
    void *settings;
    unsigned char *source; /* [n]: enum conf_source */
};

enum conf_source { CONF_DEFAULT, CONF_FILE, CONF_ENV, CONF_FLAG };

/* Sets the defaults (a bad default is a bug: aborts). */
void conf_init(struct conf *c, const struct conf_option *options, size_t n, void *settings);
void conf_deinit(struct conf *c);
/* Sets one option by its name. 0, or ERR_NOTFOUND / ERR_INVALID with a message of what is wrong and
 * what is allowed in err; a file that sets an option twice is ERR_INVALID. A weaker source than the
 * one that has set the option is checked and changes nothing, so the order of the calls is free. */
int conf_set(struct conf *c, enum conf_source from, struct str name, struct str value, char *err,
             size_t err_cap);
/* Every SECKILL_* variable of the table; an unknown SECKILL_ variable is no error (others use the
 * prefix too), an ill value is. */
int conf_set_env(struct conf *c, char **environ_, char *err, size_t err_cap);
/* Takes every "--name=value" and "--name value" whose name has a dot and is in the table out of
 * argv (compacting it); an unknown dotted flag is ERR_NOTFOUND. In a flag's name '-' may stand for
 * '_'; "--" ends the flags. Words without a dot are left to the program. */
int conf_take_flags(struct conf *c, int *argc, char **argv, char *err, size_t err_cap);
/* Help text, "# name (type, default, bounds)\n…", for --help. */
void conf_help(const struct conf *c, struct strbuf *out);
/* As YAML with each value's source as a comment: /config and --check-config. */
void conf_dump(const struct conf *c, struct strbuf *out);
/* As a Markdown table: docs/configuration.md is made of it, and a test compares. */
void conf_markdown(const struct conf *c, struct strbuf *out);
