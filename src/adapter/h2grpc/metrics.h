/* What a channel counts. Channels with the same label are one series. */
#pragma once

#include "base/metric.h"

struct grpc_metrics {
    char link[32];
    struct metric *ok, *refused, *not_done, *unknown; /* calls by result */
    struct metric *duration, *connections, *reconnects, *pending, *overload, *retries;
};

void grpc_metrics_init(struct grpc_metrics *m, const char *link);
/* A call ended after us since h2grpc_start. */
void grpc_metrics_call(struct grpc_metrics *m, int rc, bool from_server, int64_t us);
