#include "adapter/rocketmq/message.h"

#include "base/err.h"
#include <stdio.h>

void rmq_message_id(const struct uuid *message_id, char out[RMQ_MESSAGE_ID + 1])
{
    static const char digits[] = "0123456789ABCDEF";
    out[0] = '0';
    out[1] = '1'; /* the format's version; the broker's tools look at it */
    for (int i = 0; i < 16; i++) {
        out[2 + 2 * i] = digits[message_id->b[i] >> 4];
        out[3 + 2 * i] = digits[message_id->b[i] & 15];
    }
    out[RMQ_MESSAGE_ID] = '\0';
}

int rmq_message_of_event(const struct event *e, const char *topic, struct rmq_event_text *text,
                         struct rmq_message *m)
{
    *m = (struct rmq_message){.topic = topic, .tag = event_command_name(e->command), .n_keys = 3};
    struct strbuf body;
    strbuf_init_fixed(&body, text->body, sizeof text->body);
    event_encode(e, false, &body);
    if (body.failed || !str_copy(text->trace, sizeof text->trace, e->traceparent))
        return ERR_INVALID;
    m->body = strbuf_str(&body);
    rmq_message_id(&e->message_id, text->message_id);
    m->message_id = text->message_id;
    /* The broker joins keys with blanks: none of them has one. */
    snprintf(text->keys[0], RMQ_KEY_MAX, "%s", uuid_text(&e->message_id).z);
    snprintf(text->keys[1], RMQ_KEY_MAX, "%lld:%lld:%s", (long long)e->item.activity_id,
             (long long)e->item.sku_id, uuid_text(&e->reservation_id).z);
    snprintf(text->keys[2], RMQ_KEY_MAX, "%s", uuid_text(&e->request_id).z);
    for (int i = 0; i < 3; i++)
        m->keys[i] = text->keys[i];
    m->properties[m->n_properties++] = (struct rmq_property){RMQ_PROPERTY_ORIGIN, topic};
    if (text->trace[0]) {
        m->trace_context = text->trace;
        m->properties[m->n_properties++] = (struct rmq_property){RMQ_PROPERTY_TRACE, text->trace};
    }
    return 0;
}

static void fill_system(const struct rmq_message *m, const char *hostname, int64_t wall_us,
                        struct rmq_send_request *out)
{
    Rmq__SystemProperties *s = &out->system;
    rmq__system_properties__init(s);
    rmq__timestamp__init(&out->born);
    out->born.has_seconds = out->born.has_nanos = true;
    out->born.seconds = wall_us / 1000000;
    out->born.nanos = (int32_t)(wall_us % 1000000) * 1000;
    s->message_id = rmq_text(m->message_id);
    if (m->tag && m->tag[0])
        s->tag = rmq_text(m->tag);
    for (int i = 0; i < m->n_keys && i < RMQ_KEYS_MAX; i++)
        out->keys[s->n_keys++] = rmq_text(m->keys[i]);
    s->keys = out->keys;
    s->has_body_encoding = true;
    s->body_encoding = RMQ__ENCODING__IDENTITY;
    s->has_message_type = true;
    s->message_type = RMQ__MESSAGE_TYPE__NORMAL;
    s->born_timestamp = &out->born;
    s->born_host = rmq_text(hostname);
    if (m->trace_context && m->trace_context[0])
        s->trace_context = rmq_text(m->trace_context);
}

const ProtobufCMessage *rmq_message_request(const struct rmq_message *m, const char *topic,
                                            const char *hostname, int64_t wall_us,
                                            struct rmq_send_request *out)
{
    rmq__send_message_request__init(&out->request);
    rmq__message__init(&out->message);
    fill_system(m, hostname, wall_us, out);
    out->topic = rmq_resource(m->topic ? m->topic : topic);
    out->message.topic = &out->topic;
    out->message.system_properties = &out->system;
    out->message.has_body = true;
    out->message.body = (ProtobufCBinaryData){m->body.len, (uint8_t *)(uintptr_t)m->body.ptr};
    for (int i = 0; i < m->n_properties && i < RMQ_PROPERTIES_MAX; i++) {
        rmq__property__init(&out->properties[i]);
        out->properties[i].key = rmq_text(m->properties[i].name);
        out->properties[i].value = rmq_text(m->properties[i].value);
        out->property_list[out->message.n_user_properties++] = &out->properties[i];
    }
    out->message.user_properties = out->property_list;
    out->messages[0] = &out->message;
    out->request.n_messages = 1;
    out->request.messages = out->messages;
    return &out->request.base;
}
