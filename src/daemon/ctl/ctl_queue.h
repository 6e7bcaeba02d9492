/* The queue port, for the commands that need it. */
#pragma once

#include "daemon/ctl/ctl.h"
#include "port/queue.h"

/* Made at its first use, lives until ctl_deinit. NULL: complained. It receives nothing. */
struct queue *ctl_queue(struct ctl *c);
