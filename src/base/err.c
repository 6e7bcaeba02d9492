#include "base/err.h"

const char *err_name(int rc)
{
    if (rc == 0)
        return "OK";
    if (rc > 0)
        return "OUTCOME";
    switch (rc) {
    case ERR_CANCELED:
        return "ERR_CANCELED";
    case ERR_DEADLINE:
        return "ERR_DEADLINE";
    case ERR_OVERLOAD:
        return "ERR_OVERLOAD";
    case ERR_UNAVAIL:
        return "ERR_UNAVAIL";
    case ERR_UNCERTAIN:
        return "ERR_UNCERTAIN";
    case ERR_INTERNAL:
        return "ERR_INTERNAL";
    case ERR_CONFLICT:
        return "ERR_CONFLICT";
    case ERR_INVALID:
        return "ERR_INVALID";
    case ERR_NOTFOUND:
        return "ERR_NOTFOUND";
    case ERR_DENIED:
        return "ERR_DENIED";
    default:
        return "ERR_?";
    }
}

bool err_is_unknown(int rc)
{
    /* A number that is none of ours says nothing about the world: the careful answer is "unknown".
     */
    return rc == ERR_UNCERTAIN || rc == ERR_INTERNAL || rc < ERR_DENIED;
}
