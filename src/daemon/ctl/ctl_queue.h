/* The queue port, for the commands that need it. */
#pragma once

#include "daemon/ctl/ctl.h"
#include "port/queue.h"

/* Made at its first use, lives until ctl_deinit; waits a little until it can be used. NULL:
 * complained. It receives nothing. */
struct queue *ctl_queue(struct ctl *c);
/* For another topic than the settings', before anything else uses the queue. False: complained, by
 * the time `wait_us` was over. */
bool ctl_queue_open(struct ctl *c, const struct settings *s, int64_t wait_us);
