/* What the stream-only tests use beyond the common backend. */
#pragma once

#include "backend_loop.h"
#include "queue_backend.h"
#include "support/private_redis.h"

extern struct private_redis backend_redis;
/* "sec:{A:S}:events" into key (72 bytes). */
const char *backend_key(struct item item, char *key);
