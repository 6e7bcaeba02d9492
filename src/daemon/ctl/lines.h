/* The lines of a JSONL file, one at a time: of millions, none is in memory but one, and that is
 * bounded whatever the file is.
 *
 *   lines_open(&l, path);
 *   while (lines_next(&l)) { … l.text …: lines_refuse(&l, why) if it makes no sense }
 *   if (lines_close(&l) < 0) … l.why
 *
 * The first failure stands, and ends the lines. One thread. */
#pragma once

#include "base/str.h"
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define LINES_MAX (1u << 20) /* bytes of a line */

struct lines {
    struct str text; /* the line, without its end: until lines_next or lines_close */
    char why[300];   /* what failed, with the file's name; "" */
    /* internal */
    const char *path; /* borrowed */
    FILE *file;
    char *mem;
    int64_t number; /* of the line, from 1 */
    bool cut;       /* the line has no end: its writer died in it, or is in it */
    int rc;
};

void lines_open(struct lines *l, const char *path);
bool lines_next(struct lines *l);
/* The line is not what it should be. One that was cut off is the end, not a failure. */
void lines_refuse(struct lines *l, const char *why);
/* 0; ERR_UNAVAIL: the file cannot be read; ERR_INVALID: a line was refused, or is longer than
 * LINES_MAX. */
int lines_close(struct lines *l);
