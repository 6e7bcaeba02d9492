/* Past the port: what the stream itself says. */
#pragma once

#include "support/private_redis.h"

extern struct private_redis backend_redis;
#define BACKEND_STREAM_MAX 200
#define BACKEND_PER_ENTRY 16 /* as adapter/redis_results says */
#define BACKEND_KEEP_MS 60000
