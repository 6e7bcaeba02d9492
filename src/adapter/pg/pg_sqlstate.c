#include "adapter/pg/pg_sqlstate.h"

#include "base/err.h"
#include <string.h>

int pg_sqlstate_rc(const char *sqlstate)
{
    if (!sqlstate || strlen(sqlstate) != 5)
        return ERR_UNAVAIL;
    if (strcmp(sqlstate, "SK002") == 0) /* no such item */
        return ERR_NOTFOUND;
    if (strncmp(sqlstate, "22", 2) == 0 || strncmp(sqlstate, "23", 2) == 0 ||
        strncmp(sqlstate, "SK", 2) == 0)
        return ERR_INVALID;
    if (strcmp(sqlstate, "40001") == 0 || strcmp(sqlstate, "40P01") == 0)
        return ERR_CONFLICT;
    return ERR_UNAVAIL;
}
