#include "adapter/rocketmq/code.h"

#include "base/err.h"

/* Numbers and names of apache.rocketmq.v2.Code; the classes are measured (the design's rocketmq.md,
 * section 1). 50002, 50401 and 50402 usually mean that the message is stored all the same, so they
 * are unknown like everything that a server says about its own inside. */
static const struct {
    int code;
    enum rmq_class class;
    const char *name;
} codes[] = {
    {20000, RMQ_OK, "OK"},
    {30000, RMQ_MIXED, "MULTIPLE_RESULTS"},
    {40000, RMQ_REFUSED, "BAD_REQUEST"},
    {40001, RMQ_REFUSED, "ILLEGAL_ACCESS_POINT"},
    {40002, RMQ_REFUSED, "ILLEGAL_TOPIC"},
    {40003, RMQ_REFUSED, "ILLEGAL_CONSUMER_GROUP"},
    {40004, RMQ_REFUSED, "ILLEGAL_MESSAGE_TAG"},
    {40005, RMQ_REFUSED, "ILLEGAL_MESSAGE_KEY"},
    {40006, RMQ_REFUSED, "ILLEGAL_MESSAGE_GROUP"},
    {40007, RMQ_REFUSED, "ILLEGAL_MESSAGE_PROPERTY_KEY"},
    {40008, RMQ_REFUSED, "INVALID_TRANSACTION_ID"},
    {40009, RMQ_REFUSED, "ILLEGAL_MESSAGE_ID"},
    {40010, RMQ_REFUSED, "ILLEGAL_FILTER_EXPRESSION"},
    {40011, RMQ_REFUSED, "ILLEGAL_INVISIBLE_TIME"},
    {40012, RMQ_REFUSED, "ILLEGAL_DELIVERY_TIME"},
    {40013, RMQ_EXPIRED, "INVALID_RECEIPT_HANDLE"},
    {40014, RMQ_MISSING_TOPIC, "MESSAGE_PROPERTY_CONFLICT_WITH_TYPE"},
    {40015, RMQ_RESYNC, "UNRECOGNIZED_CLIENT_TYPE"},
    {40016, RMQ_REFUSED, "MESSAGE_CORRUPTED"},
    {40017, RMQ_REFUSED, "CLIENT_ID_REQUIRED"},
    {40018, RMQ_REFUSED, "ILLEGAL_POLLING_TIME"},
    {40019, RMQ_REFUSED, "ILLEGAL_OFFSET"},
    {40100, RMQ_DENIED, "UNAUTHORIZED"},
    {40200, RMQ_DENIED, "PAYMENT_REQUIRED"},
    {40300, RMQ_NO_QUEUE, "FORBIDDEN"},
    {40400, RMQ_REFUSED, "NOT_FOUND"},
    {40401, RMQ_EMPTY, "MESSAGE_NOT_FOUND"},
    {40402, RMQ_MISSING_TOPIC, "TOPIC_NOT_FOUND"},
    {40403, RMQ_MISSING_GROUP, "CONSUMER_GROUP_NOT_FOUND"},
    {40800, RMQ_UNKNOWN, "REQUEST_TIMEOUT"},
    {41300, RMQ_REFUSED, "PAYLOAD_TOO_LARGE"},
    {41301, RMQ_REFUSED, "MESSAGE_BODY_TOO_LARGE"},
    {41302, RMQ_REFUSED, "MESSAGE_BODY_EMPTY"},
    {42800, RMQ_REFUSED, "PRECONDITION_FAILED"},
    {42900, RMQ_THROTTLED, "TOO_MANY_REQUESTS"},
    {43100, RMQ_REFUSED, "REQUEST_HEADER_FIELDS_TOO_LARGE"},
    {43101, RMQ_REFUSED, "MESSAGE_PROPERTIES_TOO_LARGE"},
    {50000, RMQ_UNKNOWN, "INTERNAL_ERROR"},
    {50001, RMQ_UNKNOWN, "INTERNAL_SERVER_ERROR"},
    {50002, RMQ_UNKNOWN, "HA_NOT_AVAILABLE"},
    {50100, RMQ_REFUSED, "NOT_IMPLEMENTED"},
    {50101, RMQ_REFUSED, "UNSUPPORTED"},
    {50400, RMQ_UNKNOWN, "PROXY_TIMEOUT"},
    {50401, RMQ_UNKNOWN, "MASTER_PERSISTENCE_TIMEOUT"},
    {50402, RMQ_UNKNOWN, "SLAVE_PERSISTENCE_TIMEOUT"},
    {60000, RMQ_REFUSED, "FAILED_TO_CONSUME_MESSAGE"},
    {60001, RMQ_REFUSED, "VERIFY_FIFO_MESSAGE_UNSUPPORTED"},
};

enum { N_CODES = sizeof codes / sizeof codes[0] };

enum rmq_class rmq_class_of(int code)
{
    for (int i = 0; i < N_CODES; i++) {
        if (codes[i].code == code)
            return codes[i].class;
    }
    return RMQ_UNKNOWN;
}

const char *rmq_code_name(int code)
{
    for (int i = 0; i < N_CODES; i++) {
        if (codes[i].code == code)
            return codes[i].name;
    }
    return "?";
}

int rmq_class_rc(enum rmq_class c)
{
    switch (c) {
    case RMQ_OK:
    case RMQ_MIXED:
    case RMQ_EMPTY:
        return 0;
    case RMQ_REFUSED:
        return ERR_INVALID;
    case RMQ_EXPIRED:
        return ERR_NOTFOUND;
    case RMQ_DENIED:
        return ERR_DENIED;
    case RMQ_RESYNC:
    case RMQ_MISSING_TOPIC:
    case RMQ_MISSING_GROUP:
    case RMQ_NO_QUEUE:
    case RMQ_THROTTLED:
        return ERR_UNAVAIL;
    case RMQ_UNKNOWN:
        break;
    }
    return ERR_UNCERTAIN;
}
