/* The queue port, for the commands that need it. */
#pragma once

#include "daemon/ctl/ctl.h"
#include "port/queue.h"

/* Made at its first use, lives until ctl_deinit; waits a little until it can be used. NULL:
 * complained. It receives nothing. */
struct queue *ctl_queue(struct ctl *c, enum event_queue_use use);
/* The same with other settings (a topic), before anything else uses the queue. False: complained,
 * by the time `wait_us` was over. */
bool ctl_queue_open(struct ctl *c, const struct settings *s, enum event_queue_use use,
                    int64_t wait_us);
