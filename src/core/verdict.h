/* What becomes of a request: the states a buyer sees, their ranks and reasons, a reservation's
 * status, the one table of legal moves, and the one place where errors become HTTP answers
 * (architecture 2, rules 1–4). */
#pragma once

#include "base/err.h"
#include "base/str.h"

/* A buyer's state. Its rank is its version: a lower one never overwrites a higher one. */
enum verdict_state {
    VERDICT_QUEUED,
    VERDICT_PROCESSING,
    VERDICT_SUCCEEDED,
    VERDICT_SOLD_OUT,
    VERDICT_REJECTED,
    VERDICT_FAILED,
    VERDICT_CANCELLED,
    VERDICT_STATES
};

enum verdict_reason {
    REASON_NONE,
    REASON_PG_STOCK_EXHAUSTED,
    REASON_ONE_USER_ONE_ORDER,
    REASON_IDEMPOTENCY_KEY_REUSED,
    REASON_ID_COLLISION,
    REASON_VOID,
    REASON_GIVEN_UP, /* a dead letter nobody replayed */
    REASON_LOST_RESERVATION,
    REASON_LOST_ORDER,
    REASON_CANCELLED, /* by the buyer */
    REASON_EXPIRED,
    REASON_CLOSED,
    REASONS
};

struct verdict {
    enum verdict_state state;
    enum verdict_reason reason;
};

struct str verdict_state_name(enum verdict_state s);
struct str verdict_reason_name(enum verdict_reason r); /* "" for REASON_NONE */
int verdict_state_parse(struct str s, enum verdict_state *out);
int verdict_reason_parse(struct str s, enum verdict_reason *out);
int verdict_rank(enum verdict_state s);      /* 1…4 */
bool verdict_terminal(enum verdict_state s); /* rank >= 3 */
struct verdict verdict_of_reason(
    enum verdict_reason r); /* which state a reason leads to; REASON_NONE: SUCCEEDED */
/* Whether the settled reservation's unit goes back into Redis's stock (rule 4). */
bool verdict_returns_unit(struct verdict v);

enum reservation_status {
    RESERVATION_RESERVED,
    RESERVATION_MQ_SENT,
    RESERVATION_MQ_PENDING,
    RESERVATION_ORDERED,
    RESERVATION_RELEASED,
    RESERVATION_STATUSES
};
struct str reservation_status_name(enum reservation_status s);
int reservation_status_parse(struct str s, enum reservation_status *out);
bool reservation_may_move(enum reservation_status from, enum reservation_status to); /* rule 1 */

/* Answers of the HTTP interface: one entry per (status, code). */
enum answer {
    ANSWER_ACCEPTED,               /* 202 */
    ANSWER_OK,                     /* 200 */
    ANSWER_BAD_REQUEST,            /* 400 */
    ANSWER_INVALID_JSON,           /* 400 */
    ANSWER_INVALID_ARGUMENT,       /* 400 */
    ANSWER_UNAUTHENTICATED,        /* 401 */
    ANSWER_FORBIDDEN,              /* 403 */
    ANSWER_NOT_FOUND,              /* 404 */
    ANSWER_METHOD_NOT_ALLOWED,     /* 405 */
    ANSWER_REQUEST_TIMEOUT,        /* 408 */
    ANSWER_SOLD_OUT,               /* 409 */
    ANSWER_DUPLICATE_ORDER,        /* 409 */
    ANSWER_NOT_OPEN,               /* 409 */
    ANSWER_ENDED,                  /* 409 */
    ANSWER_REQUEST_CLOSED,         /* 409: a replay of a request that ended without an order */
    ANSWER_CONTENT_TOO_LARGE,      /* 413 */
    ANSWER_URI_TOO_LONG,           /* 414 */
    ANSWER_UNSUPPORTED_MEDIA_TYPE, /* 415 */
    ANSWER_IDEMPOTENCY_KEY_REUSED, /* 422 */
    ANSWER_RATE_LIMITED,           /* 429: a quota; there is none yet */
    ANSWER_OVERLOADED,             /* 429 */
    ANSWER_HEADERS_TOO_LARGE,      /* 431 */
    ANSWER_INTERNAL_ERROR,         /* 500 */
    ANSWER_NOT_IMPLEMENTED,        /* 501: a transfer coding we do not know */
    ANSWER_DEPENDENCY_UNAVAILABLE, /* 503 */
    ANSWER_PAUSED,                 /* 503 */
    ANSWER_DRAINING,               /* 503 */
    ANSWER_TIMEOUT,                /* 504 */
    ANSWER_VERSION_NOT_SUPPORTED,  /* 505 */
    ANSWERS
};

struct answer_info {
    int status;
    const char *code;  /* "SOLD_OUT" */
    const char *title; /* one short sentence for people */
    bool retryable;
    int retry_after_s; /* 0: no Retry-After header */
};
const struct answer_info *answer_info(enum answer a);
/* How an error that no flow handled is told to the client. ERR_UNCERTAIN is 504, never a refusal.
 */
enum answer answer_of_err(int rc);
/* Of what was not done because the queue certainly refused it. What is wrong between us and the
 * queue is no fault of the request: its error is not the client's. */
enum answer answer_of_refused_publish(int rc);
