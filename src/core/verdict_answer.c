/* The one place where errors become HTTP answers. */
#include "base/panic.h"
#include "core/verdict.h"

/* Retryable: the same request, key included, may well end differently a little later. A replay of a
 * key is always safe, so 504 and 500 are retryable; a verdict about the sale (409) is not. */
static const struct answer_info answers[ANSWERS] = {
    [ANSWER_ACCEPTED] = {202, "ACCEPTED", "The order request is queued.", false, 0},
    [ANSWER_OK] = {200, "OK", "Done.", false, 0},
    [ANSWER_BAD_REQUEST] = {400, "BAD_REQUEST", "The request is not valid HTTP.", false, 0},
    [ANSWER_INVALID_JSON] = {400, "INVALID_JSON", "The body is not valid JSON.", false, 0},
    [ANSWER_INVALID_ARGUMENT] = {400, "INVALID_ARGUMENT", "A value is missing or not allowed.",
                                 false, 0},
    [ANSWER_UNAUTHENTICATED] = {401, "UNAUTHENTICATED", "A valid bearer token is required.", false,
                                0},
    [ANSWER_FORBIDDEN] = {403, "FORBIDDEN", "This is not allowed.", false, 0},
    [ANSWER_NOT_FOUND] = {404, "NOT_FOUND", "There is no such thing.", false, 0},
    [ANSWER_METHOD_NOT_ALLOWED] = {405, "METHOD_NOT_ALLOWED", "This method is not allowed here.",
                                   false, 0},
    [ANSWER_REQUEST_TIMEOUT] = {408, "REQUEST_TIMEOUT", "The request did not arrive in time.", true,
                                0},
    [ANSWER_SOLD_OUT] = {409, "SOLD_OUT", "The item is sold out.", false, 0},
    [ANSWER_DUPLICATE_ORDER] = {409, "DUPLICATE_ORDER", "You already hold a unit of this item.",
                                false, 0},
    [ANSWER_NOT_OPEN] = {409, "NOT_OPEN", "The sale has not started.", false, 0},
    [ANSWER_ENDED] = {409, "ENDED", "The sale is over.", false, 0},
    [ANSWER_REQUEST_CLOSED] = {409, "REQUEST_CLOSED",
                               "This request ended without an order; a new key may compete again.",
                               false, 0},
    [ANSWER_CONTENT_TOO_LARGE] = {413, "CONTENT_TOO_LARGE", "The body is too large.", false, 0},
    [ANSWER_URI_TOO_LONG] = {414, "URI_TOO_LONG", "The request target is too long.", false, 0},
    [ANSWER_UNSUPPORTED_MEDIA_TYPE] = {415, "UNSUPPORTED_MEDIA_TYPE",
                                       "The body must be application/json.", false, 0},
    [ANSWER_IDEMPOTENCY_KEY_REUSED] = {422, "IDEMPOTENCY_KEY_REUSED",
                                       "This key was used for another request.", false, 0},
    [ANSWER_RATE_LIMITED] = {429, "RATE_LIMITED", "Too many requests.", true, 1},
    [ANSWER_OVERLOADED] = {429, "OVERLOADED", "This server is at its capacity.", true, 1},
    [ANSWER_HEADERS_TOO_LARGE] = {431, "HEADERS_TOO_LARGE", "The header fields are too large.",
                                  false, 0},
    [ANSWER_INTERNAL_ERROR] = {500, "INTERNAL_ERROR", "Something went wrong here.", true, 0},
    [ANSWER_NOT_IMPLEMENTED] = {501, "NOT_IMPLEMENTED", "This transfer coding is not supported.",
                                false, 0},
    [ANSWER_DEPENDENCY_UNAVAILABLE] = {503, "DEPENDENCY_UNAVAILABLE",
                                       "A service we need is not available.", true, 1},
    [ANSWER_PAUSED] = {503, "PAUSED", "The sale is paused.", true, 1},
    [ANSWER_DRAINING] = {503, "DRAINING", "This server is shutting down.", true, 1},
    [ANSWER_TIMEOUT] = {504, "TIMEOUT",
                        "The outcome is not known yet; ask again with the same key.", true, 0},
    [ANSWER_VERSION_NOT_SUPPORTED] = {505, "VERSION_NOT_SUPPORTED",
                                      "This HTTP version is not supported.", false, 0},
};

const struct answer_info *answer_info(enum answer a)
{
    if ((unsigned)a >= ANSWERS)
        panic("answer %u", (unsigned)a);
    return &answers[a];
}

enum answer answer_of_err(int rc)
{
    switch (rc) {
    case ERR_CANCELED: /* by a drain: a client that left reads no answer */
        return ANSWER_DRAINING;
    case ERR_OVERLOAD:
        return ANSWER_OVERLOADED;
    case ERR_UNAVAIL:
    case ERR_CONFLICT:
        return ANSWER_DEPENDENCY_UNAVAILABLE;
    case ERR_DEADLINE:
    case ERR_UNCERTAIN:
        return ANSWER_TIMEOUT;
    case ERR_INVALID:
        return ANSWER_INVALID_ARGUMENT;
    case ERR_NOTFOUND:
        return ANSWER_NOT_FOUND;
    case ERR_DENIED:
        return ANSWER_FORBIDDEN;
    default: /* ERR_INTERNAL, and an outcome that its caller did not handle */
        return ANSWER_INTERNAL_ERROR;
    }
}

enum answer answer_of_refused_publish(int rc)
{
    return rc == ERR_OVERLOAD || rc == ERR_CANCELED ? answer_of_err(rc)
                                                    : ANSWER_DEPENDENCY_UNAVAILABLE;
}
