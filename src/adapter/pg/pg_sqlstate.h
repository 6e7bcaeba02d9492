/* What an SQLSTATE says about the world (rule 20). Pure. */
#pragma once

#include <stdbool.h>

/* ERR_INVALID: classes 22, 23 and our own SK, the message's own failure. ERR_CONFLICT: 40001 and
 * 40P01, redo the whole call. Everything else is infrastructure: ERR_UNAVAIL. NULL or "": no state
 * was told, ERR_UNAVAIL too. */
int pg_sqlstate_rc(const char *sqlstate);
