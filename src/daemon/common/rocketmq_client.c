#include "daemon/common/rocketmq_client.h"

int rocketmq_client_config(const struct settings *s, struct rocketmq_config *out, char *secret,
                           size_t secret_cap, char *err, size_t err_cap)
{
    int rc = settings_secret_key(s, secret, secret_cap, err, err_cap);
    if (rc < 0)
        return rc;
    *out = (struct rocketmq_config){.endpoints = s->rocketmq.endpoints,
                                    .endpoint_map = s->rocketmq.endpoint_map,
                                    .namesrv = s->rocketmq.namesrv,
                                    .topic = s->rocketmq.topic,
                                    .group = s->rocketmq.group,
                                    .dead_group = s->rocketmq.dead_group,
                                    .access_key = s->rocketmq.access_key,
                                    .secret_key = secret,
                                    .tls = s->rocketmq.tls,
                                    .ca_file = s->rocketmq.ca_file,
                                    .max_in_hand = 1,
                                    .max_sends = (int)s->rocketmq.max_sends,
                                    .send_batch = (int)s->rocketmq.send_batch,
                                    .lease_us = s->rocketmq.lease_us,
                                    .poll_us = s->rocketmq.poll_us,
                                    .request_us = s->rocketmq.request_us,
                                    .refresh_us = s->rocketmq.refresh_us,
                                    .heartbeat_us = s->rocketmq.heartbeat_us};
    return 0;
}
