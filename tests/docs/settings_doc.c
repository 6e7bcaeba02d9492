/* docs/configuration.md, made of the settings table. Without an argument it is printed; with the
 * file's name it is compared, and the first line that differs is told. */
#include "daemon/settings.h"

#include <stdio.h>
#include <stdlib.h>

static const char head[] =
    "# Configuration\n"
    "\n"
    "<!-- Made of src/daemon/settings.c by settings_doc; a test compares. Do not edit:\n"
    "     build/dev/bin/settings_doc >docs/configuration.md -->\n"
    "\n"
    "One table for all programs; each reads what concerns it, so one file serves all. The later "
    "wins:\n"
    "default, the YAML file of `--config FILE` (or `SECKILL_CONFIG`), the environment, flags.\n"
    "\n"
    "| where | `redis.reply_timeout` is written |\n"
    "|---|---|\n"
    "| file | `redis:` and, indented below it, `reply_timeout: 60ms` |\n"
    "| environment | `SECKILL_REDIS_REPLY_TIMEOUT=60ms` |\n"
    "| flag | `--redis.reply_timeout=60ms` or `--redis.reply_timeout 60ms` (`-` may stand for "
    "`_`) |\n"
    "\n"
    "A key of the file or a flag that is not in the table is an error (the file's with line and "
    "column), and so is a\n"
    "value out of bounds; an unknown `SECKILL_` variable is not. An empty variable counts as set.\n"
    "`PROGRAM --config FILE --check-config` reads everything, prints what is in force and where "
    "each\n"
    "value came from, and ends with 0, or with 2 and the error. `/config` of the admin port shows "
    "the same of a running\n"
    "process, without secrets. Settings are read once, at the start: a change needs a restart.\n"
    "\n"
    "A duration is a number with a unit (`us`, `ms`, `s`, `m`, `h`, `d`), or 0; a size a number of "
    "bytes, or one with\n"
    "`KiB`, `MiB`, `GiB`.\n"
    "\n";

static void make(struct strbuf *out)
{
    static struct settings settings;
    struct conf c;
    conf_init(&c, settings_table, settings_table_len, &settings);
    strbuf_add_str(out, str_of(head));
    conf_markdown(&c, out);
    conf_deinit(&c);
}

static int compare(struct str want, const char *path)
{
    static char is[1 << 20];
    FILE *f = fopen(path, "re");
    if (!f) {
        perror(path);
        return 1;
    }
    size_t n = fread(is, 1, sizeof is, f);
    fclose(f);
    if (str_eq((struct str){is, n}, want))
        return 0;
    int line = 1;
    for (size_t i = 0; i < n && i < want.len && is[i] == want.ptr[i]; i++)
        line += is[i] == '\n';
    fprintf(stderr,
            "%s differs from the settings table from line %d on: make it again with\n"
            "  settings_doc >docs/configuration.md\n",
            path, line);
    return 1;
}

int main(int argc, char **argv)
{
    struct strbuf b;
    strbuf_init(&b, 1 << 20);
    make(&b);
    int rc = 0;
    if (b.failed)
        rc = 1;
    else if (argc > 1)
        rc = compare(strbuf_str(&b), argv[1]);
    else
        printf(STR_FMT, STR_ARG(strbuf_str(&b)));
    strbuf_deinit(&b);
    return rc;
}
