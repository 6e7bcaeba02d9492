/* A worker's configuration in tests on the virtual clock: the defaults of daemon/settings.c,
 * nearly. */
#pragma once

#include "app/worker.h"

struct worker_config worker_defaults(void);
