/* What the programs share about their stores: how a Redis connection is configured, and waiting for
 * a Redis that may be trusted. Start-up. */
#pragma once

#include "adapter/redis/redis.h"
#include "daemon/settings.h"

struct redis_config store_redis_config(const struct settings *s, const char *link);
/* Refuses a Redis that may lose or evict what it confirmed, unless redis.allow_unsafe; waits up to
 * 30 s for one that is still starting. 0, or 1 after having said why. */
int store_check_durability(const struct settings *s);
