/* A route out of a QueryRoute's answer: what the queues of the topic say of its brokers. */
#pragma once

#include "adapter/rocketmq/session.h"

/* Masters only, by name, in the answer's order. False if it holds no broker that we can reach; then
 * *out is not to be used. */
bool rmq_route_read(struct rocketmq *mq, const Rmq__QueryRouteResponse *r, struct rmq_route *out);
bool rmq_route_same(const struct rmq_route *a, const struct rmq_route *b); /* known_us apart */
bool rmq_route_has(const struct rmq_route *r, const struct rmq_channel *ch);
