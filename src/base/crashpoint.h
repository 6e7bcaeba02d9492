/* Named places at which a test ends the process, as the kernel or a bug would. Compiled in only
 * with SECKILL_CRASHPOINTS (debug builds); armed by the environment:
 *
 *   SECKILL_CRASHPOINT="after_commit"         SIGKILL when it is reached
 *   SECKILL_CRASHPOINT="after_commit:3"       … for the third time
 *   SECKILL_CRASHPOINT="place_message:42"     abort() each time it is reached for 42
 *
 * Several are separated by commas. Any thread. The environment is read once.
 *
 * A name stands in one file only. tests/support/crashpoints.py lists them all and
 * demands that each is armed by a test. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#ifdef SECKILL_CRASHPOINTS
void crashpoint(const char *name);
void crashpoint_for(const char *name, int64_t id);
/* Whether it is named at all: where two things go side by side, so that the order can be forced. */
bool crashpoint_armed(const char *name);
#else
#define crashpoint(name) ((void)0)
#define crashpoint_for(name, id) ((void)(id))
#define crashpoint_armed(name) false
#endif
