/* Which of a cluster's slots a key is in: CRC-16/XMODEM of its hash tag, what stands between the
 * first '{' and the next '}', or of all of it. */
#pragma once

#include "base/str.h"

enum { REDIS_SLOTS = 16384 };

int redis_slot(struct str key);
