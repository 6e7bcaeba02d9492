#include "daemon/common/secrets.h"

#include "base/err.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define FILE_MAX (SECRETS_MAX * (SECRETS_MOST + 2))

static bool take_line(struct secrets *s, struct str line)
{
    if (line.len && line.ptr[line.len - 1] == '\r')
        line.len--;
    if (line.len == 0)
        return true;
    if (line.len < SECRETS_LEAST || line.len > SECRETS_MOST || s->n == SECRETS_MAX)
        return false;
    memcpy(s->text[s->n], line.ptr, line.len);
    s->lengths[s->n++] = line.len;
    return true;
}

int secrets_load(struct secrets *s, const char *setting, const char *path, char *err,
                 size_t err_cap)
{
    char text[FILE_MAX + 1];
    *s = (struct secrets){0};
    if (!path[0])
        return 0;
    FILE *f = fopen(path, "re");
    if (!f) {
        snprintf(err, err_cap, "%s: %s: %s", setting, path, strerror(errno));
        return ERR_INVALID;
    }
    size_t n = fread(text, 1, sizeof(text), f);
    bool failed = ferror(f) != 0;
    fclose(f);
    struct str rest = {text, n}, line;
    int rc = 0;
    if (failed || n > FILE_MAX) {
        snprintf(err, err_cap, "%s: %s: too long, or it cannot be read", setting, path);
        rc = ERR_INVALID;
    }
    while (rc == 0 && rest.len) {
        rest = str_split(rest, '\n', &line);
        if (take_line(s, line))
            continue;
        snprintf(err, err_cap,
                 "%s: %s: a secret has %d to %d characters, one a line, at most %d lines", setting,
                 path, SECRETS_LEAST, SECRETS_MOST, SECRETS_MAX);
        rc = ERR_INVALID;
    }
    explicit_bzero(text, sizeof(text));
    if (rc == 0 && s->n == 0) {
        snprintf(err, err_cap, "%s: %s: it is empty", setting, path);
        rc = ERR_INVALID;
    }
    return rc;
}

void secrets_wipe(struct secrets *s)
{
    explicit_bzero(s, sizeof(*s));
}
