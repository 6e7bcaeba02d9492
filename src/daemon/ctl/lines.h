/* A file of lines, one after the other: of millions, none is in memory but one, and that is bounded
 * whatever the file is. */
#pragma once

#include "base/str.h"
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define LINES_MAX (1u << 20) /* bytes of a line */

struct lines {
    FILE *file;
    char *mem;
    int64_t number; /* of the last line, from 1 */
    bool whole;     /* it had its end: the last one of a file may have been cut */
};

/* 0, or ERR_UNAVAIL with errno. */
int lines_open(struct lines *l, const char *path);
/* 1: a line without its end, valid until the next call. 0: there are no more. ERR_INVALID: longer
 * than LINES_MAX. ERR_UNAVAIL: it cannot be read, errno says why. */
int lines_next(struct lines *l, struct str *line);
void lines_close(struct lines *l);
