/* The settings as RocketMQ's adapter wants them: one place for all its users. Start-up. */
#pragma once

#include "adapter/rocketmq/rocketmq.h"
#include "daemon/settings.h"

/* 0, or an error with what is wrong in err. *out borrows from s and secret; who is done with it
 * wipes the secret. Nothing in it consumes. */
int rocketmq_client_config(const struct settings *s, struct rocketmq_config *out, char *secret,
                           size_t secret_cap, char *err, size_t err_cap);
