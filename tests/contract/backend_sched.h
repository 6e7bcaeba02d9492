/* The virtual clock of a contract suite's fake. */
#pragma once

#include "adapter/mem/mem_clock.h"
#include "backend_time.h"

extern struct sched backend_sched; /* between the fake's start and its end */
