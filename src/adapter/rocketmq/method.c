#include "adapter/rocketmq/method.h"

#include "rocketmq.pb-c.h"

#define METHOD(name_, response_)                                                                   \
    {                                                                                              \
        .name = #name_, .path = "/apache.rocketmq.v2.MessagingService/" #name_,                    \
        .response = &rmq__##response_##__descriptor,                                               \
    }

static const struct rmq_method_info methods[RMQ_METHODS] = {
    [RMQ_QUERY_ROUTE] = METHOD(QueryRoute, query_route_response),
    [RMQ_HEARTBEAT] = METHOD(Heartbeat, heartbeat_response),
    [RMQ_SEND] = METHOD(SendMessage, send_message_response),
    [RMQ_RECEIVE] = METHOD(ReceiveMessage, receive_message_response),
    [RMQ_ACK] = METHOD(AckMessage, ack_message_response),
    [RMQ_CHANGE_INVISIBLE] = METHOD(ChangeInvisibleDuration, change_invisible_duration_response),
    [RMQ_NOTIFY_TERMINATION] = METHOD(NotifyClientTermination, notify_client_termination_response),
    [RMQ_TELEMETRY] = METHOD(Telemetry, telemetry_command),
};

const struct rmq_method_info *rmq_method_info(enum rmq_method m)
{
    return &methods[m];
}

static const Rmq__Status *status_of(enum rmq_method m, const ProtobufCMessage *r)
{
    const void *v = r;
    switch (m) {
    case RMQ_QUERY_ROUTE:
        return ((const Rmq__QueryRouteResponse *)v)->status;
    case RMQ_HEARTBEAT:
        return ((const Rmq__HeartbeatResponse *)v)->status;
    case RMQ_SEND:
        return ((const Rmq__SendMessageResponse *)v)->status;
    case RMQ_RECEIVE: {
        const Rmq__ReceiveMessageResponse *x = v;
        return x->content_case == RMQ__RECEIVE_MESSAGE_RESPONSE__CONTENT_STATUS ? x->status : NULL;
    }
    case RMQ_ACK:
        return ((const Rmq__AckMessageResponse *)v)->status;
    case RMQ_CHANGE_INVISIBLE:
        return ((const Rmq__ChangeInvisibleDurationResponse *)v)->status;
    case RMQ_NOTIFY_TERMINATION:
        return ((const Rmq__NotifyClientTerminationResponse *)v)->status;
    case RMQ_TELEMETRY:
        return ((const Rmq__TelemetryCommand *)v)->status;
    case RMQ_METHODS:
        break;
    }
    return NULL;
}

int rmq_method_status(enum rmq_method m, const ProtobufCMessage *response, const char **text)
{
    const Rmq__Status *s = status_of(m, response);
    *text = s && s->message ? s->message : "";
    return s && s->has_code ? s->code : 0;
}
