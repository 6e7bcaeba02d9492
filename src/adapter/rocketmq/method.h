/* The calls of apache.rocketmq.v2.MessagingService that we make. */
#pragma once

#include <protobuf-c/protobuf-c.h>

enum rmq_method {
    RMQ_QUERY_ROUTE,
    RMQ_HEARTBEAT,
    RMQ_SEND,
    RMQ_RECEIVE,
    RMQ_ACK,
    RMQ_CHANGE_INVISIBLE,
    RMQ_NOTIFY_TERMINATION,
    RMQ_TELEMETRY,
    RMQ_METHODS
};

struct rmq_method_info {
    const char *name, *path;
    const ProtobufCMessageDescriptor *response;
};
const struct rmq_method_info *rmq_method_info(enum rmq_method m);
/* The code of a decoded response's status and its text (borrowed, never NULL); 0 where it has none:
 * a message or time of a receive. */
int rmq_method_status(enum rmq_method m, const ProtobufCMessage *response, const char **text);
