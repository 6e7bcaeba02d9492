#include "daemon/ctl/storm_answer.h"

#include "base/json.h"
#include "base/parse.h"

enum storm_says storm_answer_says(enum answer a)
{
    switch (answer_info(a)->status) {
    case 200:
    case 202:
        return STORM_ACCEPTED;
    case 408:
    case 500:
    case 501:
    case 504:
        return STORM_UNSAID;
    default:
        return STORM_REFUSED;
    }
}

enum member { CODE, STATE, REASON, REQUEST_ID, RESERVATION_ID, ORDER_ID, MEMBERS };
static const struct str members[MEMBERS] = {STR("code"),           STR("state"),
                                            STR("reason"),         STR("request_id"),
                                            STR("reservation_id"), STR("order_id")};

static bool read_members(struct str body, struct str text[MEMBERS])
{
    struct json j;
    enum json_type t;
    json_init(&j, body);
    if (json_next(&j) != JSON_OBJECT)
        return false;
    while ((t = json_next(&j)) == JSON_KEY) {
        int m = 0;
        while (m < MEMBERS && !json_is(&j, members[m]))
            m++;
        t = json_next(&j);
        if (m < MEMBERS && t == JSON_STRING && !j.escaped) {
            if (text[m].ptr)
                return false;
            text[m] = j.raw;
        } else if (!json_skip(&j, t)) {
            return false;
        }
    }
    return t == JSON_OBJECT_END && json_next(&j) == JSON_END;
}

static bool find_answer(int status, struct str code, enum answer *out)
{
    for (int i = 0; i < ANSWERS; i++) {
        const struct answer_info *info = answer_info((enum answer)i);
        if (info->status == status && str_eq(str_of(info->code), code)) {
            *out = (enum answer)i;
            return true;
        }
    }
    return false;
}

int storm_answer_read(int status, struct str body, const struct uuid *key, struct storm_answer *out,
                      const char **why)
{
    struct str text[MEMBERS] = {{NULL, 0}};
    struct uuid request;
    memset(out, 0, sizeof(*out));
    *why = "the body is no JSON object";
    if (!read_members(body, text))
        return ERR_INVALID;
    bool accepted = status == 200 || status == 202;
    if (accepted) {
        enum verdict_state state;
        out->answer = status == 202 ? ANSWER_ACCEPTED : ANSWER_OK;
        *why = "an acceptance without a known state";
        if (verdict_state_parse(text[STATE], &state) < 0)
            return ERR_INVALID;
        *why = "an acceptance of another request";
        if (uuid_parse(text[REQUEST_ID], &request) < 0 || !uuid_eq(&request, key))
            return ERR_INVALID;
    } else {
        *why = "no known pair of status and code";
        if (!find_answer(status, text[CODE], &out->answer))
            return ERR_INVALID;
    }
    *why = "order_id is no decimal string";
    if (text[ORDER_ID].ptr && parse_i64(text[ORDER_ID], 1, INT64_MAX, &out->order_id) < 0)
        return ERR_INVALID;
    *why = "reservation_id is no UUID";
    if (text[RESERVATION_ID].ptr) {
        if (uuid_parse(text[RESERVATION_ID], &out->reservation_id) < 0)
            return ERR_INVALID;
        out->has_reservation = true;
    }
    *why = "an acceptance or a duplicate that does not name the unit";
    if ((accepted || out->answer == ANSWER_DUPLICATE_ORDER) &&
        (!out->order_id || !out->has_reservation))
        return ERR_INVALID;
    return 0;
}

int storm_state_read(struct str body, const struct uuid *key, struct verdict *out, const char **why)
{
    struct str text[MEMBERS] = {{NULL, 0}};
    struct uuid request;
    *why = "the body is no JSON object";
    if (!read_members(body, text))
        return ERR_INVALID;
    *why = "the state of another request";
    if (uuid_parse(text[REQUEST_ID], &request) < 0 || !uuid_eq(&request, key))
        return ERR_INVALID;
    *why = "no known state";
    if (verdict_state_parse(text[STATE], &out->state) < 0)
        return ERR_INVALID;
    *why = "no known reason";
    out->reason = REASON_NONE;
    return text[REASON].len ? verdict_reason_parse(text[REASON], &out->reason) : 0;
}
