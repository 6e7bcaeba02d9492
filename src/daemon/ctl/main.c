/* seckillctl: the operator's program. Finds the command, reads the settings, runs it. */
#include "base/streams.h"
#include "daemon/ctl/ctl.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] = "usage: seckillctl [--config FILE] COMMAND [OPTIONS]\n";

static void print_commands(FILE *to)
{
    fprintf(to, "%s\nCommands (each with --help):\n", usage);
    for (size_t i = 0; i < ctl_commands_len; i++) {
        const struct ctl_command *k = ctl_commands[i];
        char name[64];
        snprintf(name, sizeof(name), "%s%s%s%s%s", k->group, k->verb ? " " : "",
                 k->verb ? k->verb : "", *k->words ? " " : "", k->words);
        fprintf(to, "  %-24s %.*s\n", name, (int)strcspn(k->help, "\n"), k->help);
    }
    fprintf(to, "\nExit status: 0 done, 1 failed, 2 not understood; audit: 0 all holds, 1 broken, "
                "3 could not be checked.\n"
                "Settings are those of the other programs: seckillctl --help --all.\n");
}

static void print_help(const struct ctl_command *k)
{
    struct strbuf b;
    strbuf_init(&b, 1 << 16);
    args_help(k->options, k->n_options, &b);
    printf("usage: seckillctl [--config FILE] %s%s%s%s%s [OPTIONS]\n\n%s%s" STR_FMT, k->group,
           k->verb ? " " : "", k->verb ? k->verb : "", *k->words ? " " : "", k->words, k->help,
           b.len ? "\n" : "", STR_ARG(strbuf_str(&b)));
    strbuf_deinit(&b);
}

/* The command that argv[at] and the word behind it name; *used: how many words those are. */
static const struct ctl_command *find(int argc, char **argv, int at, int *used)
{
    for (size_t i = 0; at < argc && i < ctl_commands_len; i++) {
        const struct ctl_command *k = ctl_commands[i];
        if (strcmp(argv[at], k->group) != 0)
            continue;
        if (!k->verb) {
            *used = 1;
            return k;
        }
        if (at + 1 < argc && strcmp(argv[at + 1], k->verb) == 0) {
            *used = 2;
            return k;
        }
    }
    return NULL;
}

static bool is_group(const char *word)
{
    for (size_t i = 0; i < ctl_commands_len; i++) {
        if (strcmp(word, ctl_commands[i]->group) == 0)
            return true;
    }
    return false;
}

/* --help of a command, or of all: before the settings are read, which have a --help of their own.
 */
static bool help(int argc, char **argv)
{
    bool wanted = false, all = false;
    int used;
    for (int i = 1; i < argc; i++) {
        wanted |= strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0;
        all |= strcmp(argv[i], "--all") == 0;
    }
    if (!wanted || all)
        return false;
    for (int i = 1; i < argc; i++) {
        const struct ctl_command *k = find(argc, argv, i, &used);
        if (k) {
            print_help(k);
            return true;
        }
    }
    print_commands(stdout);
    return true;
}

/* What was done is done; but nobody has read how it ended. */
static int told(int rc)
{
    errno = 0;
    if (fflush(stdout) == 0 && !ferror(stdout))
        return rc;
    ctl_complain("what it had to say could not be written%s%s", errno ? ": " : "",
                 errno ? strerror(errno) : "");
    return rc == CTL_OK ? CTL_UNKNOWN : rc;
}

int main(int argc, char **argv)
{
    struct ctl c = {0};
    streams_hold();
    signal(SIGPIPE, SIG_IGN); /* a reader that leaves ends no command in its middle */
    if (help(argc, argv))
        return told(CTL_OK);
    ctl_sign();
    int rc = settings_load(&c.settings, &c.conf, &argc, argv, "seckillctl", usage);
    if (rc >= 0) {
        conf_deinit(&c.conf);
        return rc;
    }
    /* For people: what is no warning is not worth a line beside a command's answer. */
    if (c.settings.log_level < LOG_WARN)
        log_setup("seckillctl", c.settings.instance, LOG_WARN);

    int used = 0;
    const struct ctl_command *k = find(argc, argv, 1, &used);
    if (k) {
        rc = k->run(&c, k, argc - 1 - used, argv + 1 + used);
    } else {
        if (argc < 2)
            print_commands(stderr);
        else if (is_group(argv[1]))
            ctl_complain("%s: which? '%s' is none of its commands (see --help)", argv[1],
                         argc > 2 ? argv[2] : "");
        else
            ctl_complain("unknown command '%s' (see --help)", argv[1]);
        rc = CTL_USAGE;
    }
    ctl_deinit(&c);
    return told(rc);
}
