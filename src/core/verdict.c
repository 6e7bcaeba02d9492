#include "core/verdict.h"

#include "base/panic.h"

static const struct {
    struct str name;
    int rank;
} states[VERDICT_STATES] = {
    [VERDICT_QUEUED] = {STR("QUEUED"), 1},       [VERDICT_PROCESSING] = {STR("PROCESSING"), 2},
    [VERDICT_SUCCEEDED] = {STR("SUCCEEDED"), 3}, [VERDICT_SOLD_OUT] = {STR("SOLD_OUT"), 3},
    [VERDICT_REJECTED] = {STR("REJECTED"), 3},   [VERDICT_FAILED] = {STR("FAILED"), 3},
    [VERDICT_CANCELLED] = {STR("CANCELLED"), 4},
};

static const struct {
    struct str name;
    enum verdict_state state;
} reasons[REASONS] = {
    [REASON_NONE] = {STR(""), VERDICT_SUCCEEDED},
    [REASON_PG_STOCK_EXHAUSTED] = {STR("PG_STOCK_EXHAUSTED"), VERDICT_SOLD_OUT},
    [REASON_ONE_USER_ONE_ORDER] = {STR("ONE_USER_ONE_ORDER"), VERDICT_REJECTED},
    [REASON_IDEMPOTENCY_KEY_REUSED] = {STR("IDEMPOTENCY_KEY_REUSED"), VERDICT_REJECTED},
    [REASON_ID_COLLISION] = {STR("ID_COLLISION"), VERDICT_REJECTED},
    [REASON_VOID] = {STR("VOID"), VERDICT_FAILED},
    [REASON_GIVEN_UP] = {STR("GIVEN_UP"), VERDICT_FAILED},
    [REASON_LOST_RESERVATION] = {STR("LOST_RESERVATION"), VERDICT_FAILED},
    [REASON_LOST_ORDER] = {STR("LOST_ORDER"), VERDICT_FAILED},
    [REASON_CANCELLED] = {STR("CANCELLED"), VERDICT_CANCELLED},
    [REASON_EXPIRED] = {STR("EXPIRED"), VERDICT_CANCELLED},
    [REASON_CLOSED] = {STR("CLOSED"), VERDICT_CANCELLED},
};

static void check(unsigned value, unsigned n, const char *what)
{
    if (value >= n)
        panic("verdict: no %s %u", what, value);
}

struct str verdict_state_name(enum verdict_state s)
{
    check(s, VERDICT_STATES, "state");
    return states[s].name;
}

struct str verdict_reason_name(enum verdict_reason r)
{
    check(r, REASONS, "reason");
    return reasons[r].name;
}

int verdict_state_parse(struct str s, enum verdict_state *out)
{
    for (int i = 0; i < VERDICT_STATES; i++) {
        if (str_eq(s, states[i].name)) {
            *out = (enum verdict_state)i;
            return 0;
        }
    }
    return ERR_INVALID;
}

int verdict_reason_parse(struct str s, enum verdict_reason *out)
{
    for (int i = 0; i < REASONS; i++) {
        if (str_eq(s, reasons[i].name)) {
            *out = (enum verdict_reason)i;
            return 0;
        }
    }
    return ERR_INVALID;
}

int verdict_rank(enum verdict_state s)
{
    check(s, VERDICT_STATES, "state");
    return states[s].rank;
}

bool verdict_terminal(enum verdict_state s)
{
    return verdict_rank(s) >= 3;
}

struct verdict verdict_of_reason(enum verdict_reason r)
{
    check(r, REASONS, "reason");
    return (struct verdict){reasons[r].state, r};
}

bool verdict_returns_unit(struct verdict v)
{
    switch (v.state) {
    case VERDICT_REJECTED:
    case VERDICT_FAILED:
    case VERDICT_CANCELLED:
        return v.reason != REASON_PG_STOCK_EXHAUSTED;
    case VERDICT_QUEUED:
    case VERDICT_PROCESSING:
    case VERDICT_SUCCEEDED:
    case VERDICT_SOLD_OUT: /* PostgreSQL is full: that unit never existed */
    case VERDICT_STATES:
        break;
    }
    return false;
}

#define TO(status) (1u << RESERVATION_##status)

static const struct {
    struct str name;
    unsigned moves;
} statuses[RESERVATION_STATUSES] = {
    [RESERVATION_RESERVED] = {STR("RESERVED"),
                              TO(MQ_SENT) | TO(MQ_PENDING) | TO(ORDERED) | TO(RELEASED)},
    [RESERVATION_MQ_SENT] = {STR("MQ_SENT"), TO(MQ_PENDING) | TO(ORDERED) | TO(RELEASED)},
    [RESERVATION_MQ_PENDING] = {STR("MQ_PENDING"), TO(MQ_SENT) | TO(ORDERED) | TO(RELEASED)},
    [RESERVATION_ORDERED] = {STR("ORDERED"), TO(RELEASED)},
    [RESERVATION_RELEASED] = {STR("RELEASED"), 0},
};

struct str reservation_status_name(enum reservation_status s)
{
    check(s, RESERVATION_STATUSES, "reservation status");
    return statuses[s].name;
}

int reservation_status_parse(struct str s, enum reservation_status *out)
{
    for (int i = 0; i < RESERVATION_STATUSES; i++) {
        if (str_eq(s, statuses[i].name)) {
            *out = (enum reservation_status)i;
            return 0;
        }
    }
    return ERR_INVALID;
}

bool reservation_may_move(enum reservation_status from, enum reservation_status to)
{
    check(from, RESERVATION_STATUSES, "reservation status");
    check(to, RESERVATION_STATUSES, "reservation status");
    return statuses[from].moves >> to & 1;
}
