/* The errors of the whole system, and what each says about the world.
 *
 * A function returns int rc: 0 ok; > 0 an outcome of that very function, handled by its caller
 * ("sold out"); < 0 one of these, passed up unchanged. Each error says whether the world changed:
 * that decides whether it may be repeated. */
#pragma once

#include <stdbool.h>

enum {
    /* The world did not change: the thing was certainly not done. */
    ERR_CANCELED = -1, /* the caller gave up before it was sent */
    ERR_DEADLINE = -2, /* no time was left, before it was sent */
    ERR_OVERLOAD = -3, /* a bound of this process was reached */
    ERR_UNAVAIL = -4,  /* the dependency said no, or is not there */
    /* The world may have changed: never repeated blindly, never compensated; only asked again with
       the same ids. */
    ERR_UNCERTAIN = -5, /* sent, no answer */
    ERR_INTERNAL = -6,  /* our own fault, or an answer that makes no sense */
    /* Answers about the request itself; the world did not change. */
    ERR_CONFLICT = -7, /* lost a race: redo the whole unit of work */
    ERR_INVALID = -8,  /* the input is wrong and will stay wrong */
    ERR_NOTFOUND = -9,
    ERR_DENIED = -10,
};

/* "ERR_DEADLINE", for logs; "OK" for 0, "OUTCOME" above. Static string. */
const char *err_name(int rc);

/* True for the two that say "unknown", and for a number that is none of these. After any other
 * error the thing was certainly not done. */
bool err_is_unknown(int rc);
