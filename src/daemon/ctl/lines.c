#include "daemon/ctl/lines.h"

#include "base/err.h"
#include <errno.h>
#include <stdlib.h>

int lines_open(struct lines *l, const char *path)
{
    *l = (struct lines){.file = fopen(path, "re")};
    if (l->file && (l->mem = malloc(LINES_MAX)))
        return 0;
    int why = l->file ? ENOMEM : errno;
    lines_close(l);
    errno = why;
    return ERR_UNAVAIL;
}

int lines_next(struct lines *l, struct str *line)
{
    size_t n = 0;
    int c;
    errno = 0;
    while ((c = getc_unlocked(l->file)) != EOF && c != '\n') {
        if (n == LINES_MAX)
            break;
        l->mem[n++] = (char)c;
    }
    if (c == EOF && ferror(l->file))
        return ERR_UNAVAIL;
    if (c == EOF && n == 0)
        return 0;
    l->number++;
    l->whole = c == '\n';
    *line = (struct str){l->mem, n};
    return c == EOF || c == '\n' ? 1 : ERR_INVALID;
}

void lines_close(struct lines *l)
{
    if (l->file)
        fclose(l->file);
    free(l->mem);
    *l = (struct lines){0};
}
