/* The one registry of metrics, in Prometheus's terms. Register at start-up (any thread), then count
 * from any thread: counters and histograms are sharded by thread, so that loops do not share a
 * cache line. Names and units as in seed 000 §12.2; label values are fixed at registration and
 * never identifiers. A series registered twice is one series. */
#pragma once

#include "base/str.h"

struct metric;

/* labels: `route="orders",status="202"`, or NULL. Aborts on a bad name, on a type clash, and above
 * 1024 series. */
struct metric *metric_counter(const char *name, const char *help, const char *labels);
struct metric *metric_gauge(const char *name, const char *help, const char *labels);
/* Bounds in seconds, ascending; NULL: 100 µs … 10 s, 1-2.5-5. */
struct metric *metric_histogram(const char *name, const char *help, const char *labels,
                                const double *bounds, int n);

void metric_add(struct metric *m, uint64_t n);      /* counter */
void metric_set(struct metric *m, int64_t value);   /* gauge */
void metric_gauge_add(struct metric *m, int64_t d); /* gauge */
/* A gauge whose value is not known: it is left out of the rendering (unknown is never zero). So is
 * a gauge that was never set or added to: one that starts at zero is set to zero. */
void metric_set_unknown(struct metric *m);
void metric_observe_us(struct metric *m, int64_t us); /* histogram in seconds */
void metric_observe(struct metric *m, double v);      /* histogram of something else */
uint64_t
metric_value(const struct metric *m); /* counter's or gauge's value, histogram's count: tests */

/* Everything in the text format 0.0.4, families together, plus process_* of this process. */
void metric_render(struct strbuf *b);
