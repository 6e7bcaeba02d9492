/* What an audit knows of an item, by request (user and Idempotency-Key): what the history says was
 * asked and answered, what Redis has, what PostgreSQL has. Losers are in the history only, so what
 * the stores know is kept apart. One thread; grows up to a bound. */
#pragma once

#include "core/uuid.h"
#include "core/verdict.h"
#include <stdbool.h>
#include <stdint.h>

#define AUDIT_REQUESTS_MAX 40000000
#define AUDIT_NONE UINT32_MAX

struct audit_request {
    int64_t user;
    struct uuid key;
    /* History. */
    uint32_t asked; /* invocations */
    uint32_t open;  /* not answered yet, at this place of the history */
    uint32_t early; /* refusals that may still belong to invocations before the first acceptance */
    uint32_t refused; /* invocations that ended with a certain refusal */
    bool accepted, contradicts, refused_after;
    bool unasked;     /* more answers than invocations */
    int64_t order_id; /* of the first acceptance */
    struct uuid reservation_id;
    int64_t accepted_us;   /* when that was heard */
    int64_t told_order_id; /* a duplicate: of the order that the buyer was told to have; 0: none */
    uint32_t stored;       /* AUDIT_NONE: the stores know nothing */
    uint32_t told;         /* AUDIT_NONE: its state was never asked for */
};

/* What the status call told of a request. Two clients may have asked at once: a state is later than
 * another only if it was asked for after the other one was heard. */
#define AUDIT_RANKS 5 /* 1…4 */
struct audit_told {
    uint32_t request;
    unsigned states;                 /* those that were heard, as bits */
    bool lost_order;                 /* FAILED was LOST_ORDER (rule 3) */
    bool lost;                       /* FAILED was LOST_RESERVATION */
    int64_t first_us[AUDIT_RANKS];   /* this rank was first heard; 0: never */
    int64_t last_asked[AUDIT_RANKS]; /* when it was last asked for */
    int64_t missing_asked;           /* the last 404 */
};

enum audit_order { AUDIT_NO_ORDER, AUDIT_ACTIVE, AUDIT_INACTIVE };
enum audit_inbox { AUDIT_NO_INBOX, AUDIT_COMPLETED, AUDIT_REJECTED, AUDIT_QUARANTINED };

struct audit_stored {
    uint32_t request;
    /* Redis: the record, and who points at it. */
    bool record, pending, buyer;
    bool bad_record; /* there, but not readable */
    enum reservation_status status;
    struct verdict verdict;
    bool bad_rank; /* of the record: not its state's */
    int64_t epoch, seq, record_order_id, buyer_order_id;
    int64_t expires_ms; /* of the record; -1: never, 0: not known (gone meanwhile) */
    struct uuid record_reservation, record_message, buyer_reservation;
    /* PostgreSQL: the order of this key. */
    enum audit_order order;
    int64_t order_id;
    struct uuid order_reservation;
    /* The inbox row of the record's message; without a record, of one with an order. */
    enum audit_inbox inbox;
    struct uuid inbox_message, inbox_reservation;
    struct verdict inbox_verdict;
    bool unsettled, returning; /* Redis has not heard it yet; and the unit goes back */
};

/* A key with several messages: the reservations of the other inbox rows. */
struct audit_extra {
    uint32_t stored;
    struct uuid reservation;
};

struct audit_table { /* open addressing, of indices + 1 */
    uint32_t *slots;
    uint32_t cap;
};

struct audit_model {
    struct audit_request *requests;
    uint32_t n_requests, cap_requests;
    struct audit_stored *stored;
    uint32_t n_stored, cap_stored;
    struct audit_told *told;
    uint32_t n_told, cap_told;
    struct audit_extra *extras;
    uint32_t n_extras, cap_extras;
    struct audit_table by_request, by_order; /* by_order: of stored */
    bool full; /* no memory, or over the bound: the audit cannot be done */
};

void audit_model_deinit(struct audit_model *m);       /* starts zeroed */
void audit_model_clear_stores(struct audit_model *m); /* keeps the history */
/* Finds it, or makes it; NULL: full. The address is good until the next call that may make one. */
struct audit_request *audit_request(struct audit_model *m, int64_t user, const struct uuid *key);
struct audit_stored *audit_stored(struct audit_model *m, int64_t user, const struct uuid *key);
/* Of the history, as audit_request is. */
struct audit_told *audit_told(struct audit_model *m, struct audit_request *r);
/* Only finds; NULL: not there. */
struct audit_stored *audit_find_stored(struct audit_model *m, int64_t user, const struct uuid *key);
void audit_add_extra(struct audit_model *m, const struct audit_stored *s,
                     const struct uuid *reservation);
bool audit_has_reservation(const struct audit_model *m, const struct audit_stored *s,
                           const struct uuid *reservation);
/* Index of orders (PostgreSQL's and the records'), built when the stores are read. */
void audit_index_orders(struct audit_model *m);
/* Whether the user has, or had, a unit under this order id. */
bool audit_user_has_order(const struct audit_model *m, int64_t user, int64_t order_id);

static inline bool audit_holds(const struct audit_stored *s)
{
    return s->record && s->status != RESERVATION_RELEASED;
}
/* Unsettled: still on its way to PostgreSQL, as Redis sees it. */
static inline bool audit_waits(const struct audit_stored *s)
{
    return audit_holds(s) && s->status != RESERVATION_ORDERED;
}
