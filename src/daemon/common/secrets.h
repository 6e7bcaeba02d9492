/* A file of secrets, one a line: several are valid at once, so that they can be changed without a
 * gap. The first one signs. Read at the start, then wiped or read-only: any thread. */
#pragma once

#include "base/str.h"

#define SECRETS_MAX 4
#define SECRETS_LEAST 32
#define SECRETS_MOST 256 /* characters of one */

struct secrets {
    int n;
    size_t lengths[SECRETS_MAX];
    char text[SECRETS_MAX][SECRETS_MOST];
};

/* setting: whose value the path is, for the message. Empty lines do not count. "": none. 0, or
 * ERR_INVALID with a message that names no secret. */
int secrets_load(struct secrets *s, const char *setting, const char *path, char *err,
                 size_t err_cap);
void secrets_wipe(struct secrets *s);
static inline struct str secrets_get(const struct secrets *s, int i)
{
    return (struct str){s->text[i], s->lengths[i]};
}
