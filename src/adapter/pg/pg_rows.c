#include "adapter/pg/pg_rows.h"

int pg_verdict(const PGresult *r, int row, int state_col, struct verdict *out)
{
    struct str state = pg_str(r, row, state_col), reason = pg_str(r, row, state_col + 1);
    *out = (struct verdict){VERDICT_QUEUED, REASON_NONE};
    if (!state.ptr)
        return 0;
    if (verdict_state_parse(state, &out->state) || verdict_reason_parse(reason, &out->reason))
        return ERR_INTERNAL;
    return 0;
}

int pg_inbox_row(const PGresult *r, int row, int first_col, const struct uuid *message_id,
                 struct orders_inbox *out)
{
    int c = first_col;
    *out = (struct orders_inbox){
        .found = true,
        .message_id = *message_id,
        .order_id = pg_i64(r, row, c + 3),
        .give_back = pg_bool(r, row, c + 4),
        .other_order_id = pg_i64(r, row, c + 5),
        .other_reservation_id = pg_uuid(r, row, c + 6),
        .other_request_id = pg_uuid(r, row, c + 7),
    };
    str_copy(out->status, sizeof out->status, pg_str(r, row, c));
    return pg_verdict(r, row, c + 1, &out->verdict);
}
