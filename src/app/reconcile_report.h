/* What a round found, told: to the log once per finding, to reconciliation_runs as JSON. Loop
 * thread. */
#pragma once

#include "base/str.h"
#include "core/item.h"

#define RECONCILE_REPORT_FINDINGS 32 /* in one row; the others are only counted */

struct worker;

/* Appends the JSON object of reconciliation_runs.detail: "findings" (what is sure), and figures. */
void reconcile_report_detail(const struct worker *w, struct item item, struct strbuf *out);
/* The lines of what became sure, or was mended in another way than before. */
void reconcile_report_log(struct worker *w, struct item item);
