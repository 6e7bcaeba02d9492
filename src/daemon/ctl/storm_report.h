/* What a storm tells: a line while it runs, a summary at its end. */
#pragma once

#include "daemon/ctl/storm.h"
#include <stdio.h>

struct storm_progress {
    FILE *to;  /* NULL: silent */
    bool live; /* a terminal: one line, written again and again */
    int64_t last_us, last_sent;
    bool open; /* the line is not ended */
};
void storm_progress(struct storm_progress *p, const struct storm_totals *t, int64_t now_us);
void storm_progress_end(struct storm_progress *p);

void storm_summary(const struct storm_config *c, const struct storm_totals *t, bool json,
                   struct strbuf *out);
/* NULL when the storm was one; else what was wrong with it. */
const char *storm_verdict(const struct storm_totals *t);
