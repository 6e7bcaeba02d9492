/* A message as it goes to the broker: of an event, or of raw bytes again. */
#pragma once

#include "adapter/rocketmq/producer.h"

/* What a message made of an event points into. */
struct rmq_event_text {
    char message_id[RMQ_MESSAGE_ID + 1];
    char keys[3][RMQ_KEY_MAX];
    char trace[EVENT_TRACE_MAX + 1];
    char body[EVENT_MAX_BYTES];
};

/* Fills *m out of the event; ERR_INVALID: it does not fit (a bug of whoever made it). */
int rmq_message_of_event(const struct event *e, const char *topic, struct rmq_event_text *text,
                         struct rmq_message *m);

/* The request for one message. Its parts are on the caller's stack. */
struct rmq_send_request {
    Rmq__SendMessageRequest request;
    Rmq__Message message, *messages[1];
    Rmq__Resource topic;
    Rmq__SystemProperties system;
    Rmq__Timestamp born;
    Rmq__Property properties[RMQ_PROPERTIES_MAX], *property_list[RMQ_PROPERTIES_MAX];
    char *keys[RMQ_KEYS_MAX];
};
const ProtobufCMessage *rmq_message_request(const struct rmq_message *m, const char *topic,
                                            const char *hostname, int64_t wall_us,
                                            struct rmq_send_request *out);
