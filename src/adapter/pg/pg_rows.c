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
