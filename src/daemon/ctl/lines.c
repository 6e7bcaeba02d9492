#include "daemon/ctl/lines.h"

#include "base/err.h"
#include <errno.h>
#include <stdlib.h>

static void fail_errno(struct lines *l)
{
    snprintf(l->why, sizeof(l->why), "%s: %s", l->path, strerror(errno));
    l->rc = ERR_UNAVAIL;
}

void lines_open(struct lines *l, const char *path)
{
    *l = (struct lines){.path = path, .file = fopen(path, "re"), .mem = malloc(LINES_MAX)};
    if (!l->file || !l->mem)
        fail_errno(l);
}

bool lines_next(struct lines *l)
{
    size_t n = 0;
    int c = EOF;
    if (l->rc < 0 || l->cut)
        return false;
    while (n < LINES_MAX && (c = getc_unlocked(l->file)) != EOF && c != '\n')
        l->mem[n++] = (char)c;
    if (c == EOF && ferror(l->file)) {
        fail_errno(l);
        return false;
    }
    if (c == EOF && n == 0)
        return false;
    l->number++;
    if (n == LINES_MAX) {
        lines_refuse(l, "the line is too long");
        return false;
    }
    l->cut = c == EOF;
    l->text = (struct str){l->mem, n};
    return true;
}

void lines_refuse(struct lines *l, const char *why)
{
    if (l->cut || l->rc < 0)
        return;
    snprintf(l->why, sizeof(l->why), "%s:%lld: %s", l->path, (long long)l->number, why);
    l->rc = ERR_INVALID;
}

int lines_close(struct lines *l)
{
    free(l->mem);
    if (l->file)
        fclose(l->file);
    return l->rc;
}
