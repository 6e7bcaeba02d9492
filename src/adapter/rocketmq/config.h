/* The configuration, checked and owned. */
#pragma once

#include "adapter/rocketmq/client.h"

/* 0 with mq->c and the access point filled in (defaults for what is 0 or NULL); ERR_INVALID with a
 * reason. Either way rmq_config_deinit. */
int rmq_config_init(struct rocketmq *mq, const struct rocketmq_config *c, char *err,
                    size_t err_cap);
void rmq_config_deinit(struct rocketmq *mq);
