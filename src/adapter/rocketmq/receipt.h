/* Pure: what a publish comes to, and where it goes next. */
#pragma once

#include "adapter/rocketmq/client.h"

/* Of a SendMessageResponse. */
struct rmq_receipt {
    size_t entries;
    int code;     /* of the entries' statuses; -1: they differ */
    bool same_id; /* it names the message that was sent */
    int sent;     /* messages it is for */
};
/* message_id: of the first of them. A receipt for several names an id of the proxy's making. */
void rmq_receipt_read(const Rmq__SendMessageResponse *r, const char *message_id, int sent,
                      struct rmq_receipt *out);
/* One attempt's result. 0: accepted. An error other than the unknown ones: certainly refused. A
 * receipt that does not fit the answer is an error that loses nothing: ERR_UNCERTAIN and *odd. */
int rmq_receipt_judge(const struct rmq_answer *a, const struct rmq_receipt *r, bool *odd);

/* Worth a second attempt? Not what will stay refused. */
enum rmq_again {
    RMQ_AGAIN_NO,
    RMQ_AGAIN_ELSEWHERE, /* only at another proxy */
    RMQ_AGAIN_ANYWHERE,
    RMQ_AGAIN_LATER, /* after a pause */
};
enum rmq_again rmq_again_after(const struct rmq_answer *a, int rc);

/* Takes turns over the channels that are not isolated, `failed` only if it is the only one; if all
 * are isolated, over all. NULL: each that may be used has max_sends under way, or n is 0. */
struct rmq_channel *rmq_choose(struct rmq_channel *const *channels, int n, unsigned *turn,
                               const struct rmq_channel *failed, int max_sends);
