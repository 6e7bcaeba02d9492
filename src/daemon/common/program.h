/* What every program does with its command line and its ports. Start-up, one thread. */
#pragma once

#include <stddef.h>

/* Takes "NAME VALUE" or "NAME=VALUE" out of argv. NULL: it is not there. "": without a value. */
const char *program_take_option(int *argc, char **argv, const char *name);
/* 0 when nothing is left in argv; else says on standard error what is not understood: 2. */
int program_no_more(int argc, char **argv, const char *program);

/* Writes "name=port" pairs as one line, "api=8080 admin=8081\n", so that a reader sees all of it or
 * nothing (a temporary file beside it, renamed). 0, or ERR_UNAVAIL with a message in err. */
struct program_port {
    const char *name;
    int port;
};
int program_write_ports(const char *path, const struct program_port *ports, int n, char *err,
                        size_t err_cap);

/* Says why the program cannot start: its exit status, 1. */
int program_fail(const char *what, const char *why);

/* Event loops to run: as configured, or one for each core this process may use. */
int program_loops(int configured);

/* The address of the loops after the first: `listen` with the port that the first one got. 0, or
 * ERR_INVALID if it does not fit. */
int program_with_port(char *dst, size_t cap, const char *listen, int port);
