#include "core/verdict.h"

#include "unit.h"
#include <string.h>

#define N(a) (sizeof(a) / sizeof *(a))

/* Rule 1, all 25 pairs: from (row) RESERVED MQ_SENT MQ_PENDING ORDERED RELEASED to (column) the
 * same. */
static void test_rule_1_moves(void **state)
{
    (void)state;
    static const bool legal[5][5] = {
        {0, 1, 1, 1, 1}, /* RESERVED → MQ_SENT | MQ_PENDING | ORDERED | RELEASED */
        {0, 0, 1, 1, 1}, /* MQ_SENT → MQ_PENDING | ORDERED | RELEASED */
        {0, 1, 0, 1, 1}, /* MQ_PENDING → MQ_SENT | ORDERED | RELEASED */
        {0, 0, 0, 0, 1}, /* ORDERED → RELEASED */
        {0, 0, 0, 0, 0}, /* RELEASED is final */
    };
    assert_int_equal(RESERVATION_STATUSES, 5);
    for (int from = 0; from < 5; from++) {
        for (int to = 0; to < 5; to++)
            assert_int_equal(
                reservation_may_move((enum reservation_status)from, (enum reservation_status)to),
                legal[from][to]);
    }
}

static void test_status_names(void **state)
{
    (void)state;
    static const char *const names[] = {"RESERVED", "MQ_SENT", "MQ_PENDING", "ORDERED", "RELEASED"};
    enum reservation_status s = RESERVATION_RESERVED;
    for (int i = 0; i < RESERVATION_STATUSES; i++) {
        assert_true(str_eq(reservation_status_name((enum reservation_status)i), str_of(names[i])));
        assert_int_equal(reservation_status_parse(str_of(names[i]), &s), 0);
        assert_int_equal(s, i);
    }
    assert_int_equal(reservation_status_parse(STR("reserved"), &s), ERR_INVALID);
    assert_int_equal(reservation_status_parse(STR(""), &s), ERR_INVALID);
    assert_int_equal(reservation_status_parse(STR("RELEASED "), &s), ERR_INVALID);
    assert_int_equal(s, RESERVATION_RELEASED);
}

/* Rule 3: a state's rank is its version. */
static void test_rule_3_states_and_ranks(void **state)
{
    (void)state;
    static const struct {
        enum verdict_state state;
        const char *name;
        int rank;
        bool terminal;
    } rows[] = {
        {VERDICT_QUEUED, "QUEUED", 1, false},      {VERDICT_PROCESSING, "PROCESSING", 2, false},
        {VERDICT_SUCCEEDED, "SUCCEEDED", 3, true}, {VERDICT_SOLD_OUT, "SOLD_OUT", 3, true},
        {VERDICT_REJECTED, "REJECTED", 3, true},   {VERDICT_FAILED, "FAILED", 3, true},
        {VERDICT_CANCELLED, "CANCELLED", 4, true},
    };
    assert_int_equal(N(rows), VERDICT_STATES);
    for (size_t i = 0; i < N(rows); i++) {
        enum verdict_state s;
        assert_true(str_eq(verdict_state_name(rows[i].state), str_of(rows[i].name)));
        assert_int_equal(verdict_state_parse(str_of(rows[i].name), &s), 0);
        assert_int_equal(s, rows[i].state);
        assert_int_equal(verdict_rank(rows[i].state), rows[i].rank);
        assert_int_equal(verdict_terminal(rows[i].state), rows[i].terminal);
    }
    enum verdict_state s;
    assert_int_equal(verdict_state_parse(STR("CANCELED"), &s), ERR_INVALID);
    assert_int_equal(verdict_state_parse(STR(""), &s), ERR_INVALID);
}

/* Rule 4 in the last column: whose unit goes back into Redis's stock. */
static void test_rule_4_reasons_states_and_units(void **state)
{
    (void)state;
    static const struct {
        enum verdict_reason reason;
        const char *name;
        enum verdict_state state;
        bool unit;
    } rows[] = {
        {REASON_NONE, "", VERDICT_SUCCEEDED, false},
        {REASON_PG_STOCK_EXHAUSTED, "PG_STOCK_EXHAUSTED", VERDICT_SOLD_OUT, false},
        {REASON_ONE_USER_ONE_ORDER, "ONE_USER_ONE_ORDER", VERDICT_REJECTED, true},
        {REASON_IDEMPOTENCY_KEY_REUSED, "IDEMPOTENCY_KEY_REUSED", VERDICT_REJECTED, true},
        {REASON_ID_COLLISION, "ID_COLLISION", VERDICT_REJECTED, true},
        {REASON_VOID, "VOID", VERDICT_FAILED, true},
        {REASON_GIVEN_UP, "GIVEN_UP", VERDICT_FAILED, true},
        {REASON_LOST_RESERVATION, "LOST_RESERVATION", VERDICT_FAILED, true},
        {REASON_LOST_ORDER, "LOST_ORDER", VERDICT_FAILED, true},
        {REASON_CANCELLED, "CANCELLED", VERDICT_CANCELLED, true},
        {REASON_EXPIRED, "EXPIRED", VERDICT_CANCELLED, true},
        {REASON_CLOSED, "CLOSED", VERDICT_CANCELLED, true},
    };
    assert_int_equal(N(rows), REASONS);
    for (size_t i = 0; i < N(rows); i++) {
        enum verdict_reason r;
        struct verdict v = verdict_of_reason(rows[i].reason);
        assert_true(str_eq(verdict_reason_name(rows[i].reason), str_of(rows[i].name)));
        assert_int_equal(verdict_reason_parse(str_of(rows[i].name), &r), 0);
        assert_int_equal(r, rows[i].reason);
        assert_int_equal(v.state, rows[i].state);
        assert_int_equal(v.reason, rows[i].reason);
        assert_int_equal(verdict_returns_unit(v), rows[i].unit);
    }
    enum verdict_reason r;
    assert_int_equal(verdict_reason_parse(STR("void"), &r), ERR_INVALID);
    /* Not settled yet, or no matter what else is said: full is full. */
    assert_false(verdict_returns_unit((struct verdict){VERDICT_QUEUED, REASON_NONE}));
    assert_false(verdict_returns_unit((struct verdict){VERDICT_PROCESSING, REASON_NONE}));
    assert_false(
        verdict_returns_unit((struct verdict){VERDICT_REJECTED, REASON_PG_STOCK_EXHAUSTED}));
}

static const struct {
    enum answer answer;
    int status;
    const char *code;
} answers[] = {
    {ANSWER_ACCEPTED, 202, "ACCEPTED"},
    {ANSWER_OK, 200, "OK"},
    {ANSWER_BAD_REQUEST, 400, "BAD_REQUEST"},
    {ANSWER_INVALID_JSON, 400, "INVALID_JSON"},
    {ANSWER_INVALID_ARGUMENT, 400, "INVALID_ARGUMENT"},
    {ANSWER_UNAUTHENTICATED, 401, "UNAUTHENTICATED"},
    {ANSWER_FORBIDDEN, 403, "FORBIDDEN"},
    {ANSWER_NOT_FOUND, 404, "NOT_FOUND"},
    {ANSWER_METHOD_NOT_ALLOWED, 405, "METHOD_NOT_ALLOWED"},
    {ANSWER_REQUEST_TIMEOUT, 408, "REQUEST_TIMEOUT"},
    {ANSWER_SOLD_OUT, 409, "SOLD_OUT"},
    {ANSWER_DUPLICATE_ORDER, 409, "DUPLICATE_ORDER"},
    {ANSWER_NOT_OPEN, 409, "NOT_OPEN"},
    {ANSWER_ENDED, 409, "ENDED"},
    {ANSWER_REQUEST_CLOSED, 409, "REQUEST_CLOSED"},
    {ANSWER_CONTENT_TOO_LARGE, 413, "CONTENT_TOO_LARGE"},
    {ANSWER_URI_TOO_LONG, 414, "URI_TOO_LONG"},
    {ANSWER_UNSUPPORTED_MEDIA_TYPE, 415, "UNSUPPORTED_MEDIA_TYPE"},
    {ANSWER_IDEMPOTENCY_KEY_REUSED, 422, "IDEMPOTENCY_KEY_REUSED"},
    {ANSWER_RATE_LIMITED, 429, "RATE_LIMITED"},
    {ANSWER_OVERLOADED, 429, "OVERLOADED"},
    {ANSWER_HEADERS_TOO_LARGE, 431, "HEADERS_TOO_LARGE"},
    {ANSWER_INTERNAL_ERROR, 500, "INTERNAL_ERROR"},
    {ANSWER_NOT_IMPLEMENTED, 501, "NOT_IMPLEMENTED"},
    {ANSWER_DEPENDENCY_UNAVAILABLE, 503, "DEPENDENCY_UNAVAILABLE"},
    {ANSWER_PAUSED, 503, "PAUSED"},
    {ANSWER_DRAINING, 503, "DRAINING"},
    {ANSWER_TIMEOUT, 504, "TIMEOUT"},
    {ANSWER_VERSION_NOT_SUPPORTED, 505, "VERSION_NOT_SUPPORTED"},
};

/* Architecture, section 2. */
static void test_answers(void **state)
{
    (void)state;
    assert_int_equal(N(answers), ANSWERS);
    for (size_t i = 0; i < N(answers); i++) {
        const struct answer_info *info = answer_info(answers[i].answer);
        assert_int_equal(info->status, answers[i].status);
        assert_string_equal(info->code, answers[i].code);
        assert_true(info->title && strlen(info->title) > 4);
        assert_int_equal(info->title[strlen(info->title) - 1], '.');
        /* Retry-After on 429 and 503, and nowhere else. */
        bool later = info->status == 429 || info->status == 503;
        assert_int_equal(info->retry_after_s > 0, later);
        assert_true(info->retryable || !later);
        /* What the request itself did wrong stays wrong. */
        if (info->status < 500 && info->status != 429 && info->status != 408)
            assert_false(info->retryable);
    }
}

static void test_errors(void **state)
{
    (void)state;
    static const struct {
        int rc;
        enum answer answer;
    } rows[] = {
        {ERR_CANCELED, ANSWER_DRAINING},
        {ERR_DEADLINE, ANSWER_TIMEOUT},
        {ERR_OVERLOAD, ANSWER_OVERLOADED},
        {ERR_UNAVAIL, ANSWER_DEPENDENCY_UNAVAILABLE},
        {ERR_UNCERTAIN, ANSWER_TIMEOUT},
        {ERR_INTERNAL, ANSWER_INTERNAL_ERROR},
        {ERR_CONFLICT, ANSWER_DEPENDENCY_UNAVAILABLE},
        {ERR_INVALID, ANSWER_INVALID_ARGUMENT},
        {ERR_NOTFOUND, ANSWER_NOT_FOUND},
        {ERR_DENIED, ANSWER_FORBIDDEN},
    };
    for (size_t i = 0; i < N(rows); i++) {
        assert_int_equal(answer_of_err(rows[i].rc), rows[i].answer);
        /* An unknown outcome is never told as a refusal: nobody may order again under a new key. */
        if (err_is_unknown(rows[i].rc))
            assert_true(answer_info(answer_of_err(rows[i].rc))->status >= 500 &&
                        answer_info(answer_of_err(rows[i].rc))->status != 503);
    }
    assert_int_equal(answer_of_err(-99), ANSWER_INTERNAL_ERROR);
    assert_int_equal(answer_of_err(1), ANSWER_INTERNAL_ERROR); /* an outcome nobody handled */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rule_1_moves),
        cmocka_unit_test(test_status_names),
        cmocka_unit_test(test_rule_3_states_and_ranks),
        cmocka_unit_test(test_rule_4_reasons_states_and_units),
        cmocka_unit_test(test_answers),
        cmocka_unit_test(test_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
