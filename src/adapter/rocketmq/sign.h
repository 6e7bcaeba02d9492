/* The date and the signature that each call carries: HMAC-SHA1 over the date alone, so both are
 * made once a second. Nothing else of a call is signed: integrity is TLS's. */
#pragma once

#include "adapter/rocketmq/names.h"
#include <stdint.h>

#define RMQ_AUTHORIZATION_MAX (RMQ_ACCESS_KEY_MAX + 129)

struct rmq_signer {
    const char *access_key, *secret_key;       /* borrowed, of rmq_keys_fit; "": not signed */
    int64_t second;                            /* of what stands here; 0: nothing yet */
    char date[20];                             /* "20261130T125511Z", UTC */
    char authorization[RMQ_AUTHORIZATION_MAX]; /* "": not signed */
};

void rmq_signer_at(struct rmq_signer *s, int64_t wall_us);
/* 40 upper-case hex digits and a zero. */
void rmq_sign(const char *secret_key, const char *date, char hex[41]);
