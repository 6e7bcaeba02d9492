/* What tests of RocketMQ alone use beyond the common backend. */
#pragma once

#include "backend_loop.h"
#include "queue_backend.h"
#include "support/private_rocketmq.h"

extern struct private_rocketmq backend_rocketmq;
/* This test's own. */
extern char backend_topic[64], backend_group[64], backend_dead_group[64];
