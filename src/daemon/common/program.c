#include "daemon/common/program.h"

#include "base/err.h"
#include "base/log.h"
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int program_fail(const char *what, const char *why)
{
    log_error(what, LOG_Z("why", why));
    return 1;
}

const char *program_take_option(int *argc, char **argv, const char *name)
{
    size_t len = strlen(name);
    for (int i = 1; i < *argc; i++) {
        int words;
        const char *value;
        if (strcmp(argv[i], name) == 0) {
            value = i + 1 < *argc ? argv[i + 1] : "";
            words = i + 1 < *argc ? 2 : 1;
        } else if (strncmp(argv[i], name, len) == 0 && argv[i][len] == '=') {
            value = argv[i] + len + 1;
            words = 1;
        } else {
            continue;
        }
        memmove(&argv[i], &argv[i + words], sizeof(argv[0]) * (size_t)(*argc - i - words + 1));
        *argc -= words;
        return value;
    }
    return NULL;
}

int program_no_more(int argc, char **argv, const char *program)
{
    if (argc <= 1)
        return 0;
    fprintf(stderr, "%s: %s is not understood; see --help\n", program, argv[1]);
    return 2;
}

int program_write_ports(const char *path, const struct program_port *ports, int n, char *err,
                        size_t err_cap)
{
    char temporary[4096];
    FILE *f = NULL;
    if ((size_t)snprintf(temporary, sizeof(temporary), "%s.%d", path, (int)getpid()) <
        sizeof(temporary))
        f = fopen(temporary, "we");
    if (!f) {
        snprintf(err, err_cap, "%s: %s", path, strerror(errno));
        return ERR_UNAVAIL;
    }
    for (int i = 0; i < n; i++)
        fprintf(f, "%s%s=%d", i ? " " : "", ports[i].name, ports[i].port);
    fputc('\n', f);
    if (fclose(f) != 0 || rename(temporary, path) != 0) {
        snprintf(err, err_cap, "%s: %s", path, strerror(errno));
        unlink(temporary);
        return ERR_UNAVAIL;
    }
    return 0;
}

int program_loops(int configured)
{
    cpu_set_t set;
    if (configured > 0)
        return configured;
    return sched_getaffinity(0, sizeof(set), &set) == 0 && CPU_COUNT(&set) > 0 ? CPU_COUNT(&set)
                                                                               : 1;
}

int program_with_port(char *dst, size_t cap, const char *listen, int port)
{
    const char *colon = strrchr(listen, ':');
    int host = colon ? (int)(colon - listen) : 0;
    int n = snprintf(dst, cap, "%.*s:%d", host, listen, port);
    return n > 0 && (size_t)n < cap ? 0 : ERR_INVALID;
}
