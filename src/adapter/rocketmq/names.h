/* What RocketMQ takes for names and keys. Pure, and a library of its own: the daemons' settings are
 * checked by the same words. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum {
    RMQ_TOPIC_MAX = 127,
    RMQ_GROUP_MAX = 120,
    RMQ_ACCESS_KEY_MAX = 127,
    RMQ_SECRET_KEY_MAX = 255,
};

/* Of a topic or group: [%|A-Za-z0-9_-]+, at most so long. */
bool rmq_name_fits(const char *z, size_t max);
/* "" does: requests are not signed. It goes into a header, which the server cuts at the first '/'
 * and at commas. */
bool rmq_access_key_fits(const char *z);
/* And both or none are there. */
bool rmq_keys_fit(const char *access_key, const char *secret_key);
