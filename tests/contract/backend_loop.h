/* The loop of a contract suite's real service. */
#pragma once

#include "backend_time.h"
#include "loop/loop.h"

void backend_loop_open(void);
/* What was attached has been freed. */
void backend_loop_close(void);
struct loop *backend_loop(void);
